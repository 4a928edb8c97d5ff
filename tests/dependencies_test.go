package tests

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// states returns the instances that entered a state, in that order.
func states(s *harness.Site, since uint64, state string) (names []string) {
	for _, e := range events(s, since) {
		if e.Kind == "state" && e.State == state {
			names = append(names, e.Instance)
		}
	}
	return names
}

// lastEvent returns the cursor of the newest event.
func lastEvent(s *harness.Site) uint64 {
	all := events(s, 0)
	return all[len(all)-1].Cursor
}

// before fails the test unless names has first before second.
func before(t *testing.T, names []string, first, second string) {
	t.Helper()
	if a, b := slices.Index(names, first), slices.Index(names, second); a < 0 || b < 0 || a > b {
		t.Errorf("%v: want %s before %s", names, first, second)
	}
}

const wait = "command = 'sleep infinity'\n"

// TestParallelStart: a program starts as soon as its dependencies are ready, and not earlier.
func TestParallelStart(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.migrate]
		type = "oneshot"
		command = ["sh", "-c", "read line < DIR/gate; exit 0"]
		[program.cache]
		`+wait+`
		[program.api]
		requires = ["migrate", "cache"]
		`+wait+`
		[program.worker]
		requires = ["migrate"]
		`+wait+`
		[program.web]
		requires = ["api"]
		after = ["worker"]
		`+wait)
	open := s.Gate("gate")
	s.Start()
	s.WaitState("cache", "running")
	for name, reason := range map[string]string{
		"api":    "waits for migrate, which has not ended yet",
		"worker": "waits for migrate, which has not ended yet",
		"web":    "waits for api, which waits for migrate, which has not ended yet",
	} {
		st := s.WaitStatus(name, "shows what it waits for", func(st harness.Status) bool {
			return st.State == "waiting" && strings.HasPrefix(st.Reason, reason)
		})
		if st.Pid != 0 || st.Ready {
			t.Errorf("%v: want no process", st)
		}
	}
	open()
	for _, name := range []string{"api", "worker", "web"} {
		s.WaitState(name, "running")
	}
	up := states(s, 0, "running")
	before(t, up, "migrate", "api")
	before(t, up, "api", "web")
	before(t, up, "worker", "web")
	if n := len(states(s, 0, "exited")); n != 1 {
		t.Errorf("%d programs have ended, want the migration alone, once", n)
	}
}

// TestDependencyRecovers: if a requirement stops and comes back repeatedly, its dependent does so
// with it, while a crash does not affect it.
func TestDependencyRecovers(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.db]
		command = ["sh", "-c", "test -e DIR/sound && exec sleep infinity; exit 3"]
		backoff = { initial = "20ms", max = "20ms", reset_after = "1ms" }
		start_limit = { failures = 3, within = "1h", retry_after = "300ms" }
		[program.web]
		requires = ["db"]
		`+wait+`
		[program.front]
		requires = ["web"]
		`+wait)
	s.Start()
	s.WaitStatus("web", "waits for what failed", func(st harness.Status) bool {
		return st.State == "waiting" && strings.Contains(st.Reason, "waits for db, which failed: exit status 3") && strings.Contains(st.Reason, "retried at ")
	})
	why := s.MustCtl("why", "front").Out
	if !strings.Contains(why, "): waits for web, which waits for db, which failed: exit status 3") {
		t.Errorf("why front:\n%s\nwant the way to the cause", why)
	}
	s.Write("sound", "")
	first := s.WaitState("front", "running").Pid
	web := s.Status("web").Pid

	// A crash: running dependents are left alone.
	db := s.Status("db").Pid
	s.Kill(db, syscall.SIGKILL)
	s.WaitStatus("db", "runs again", func(st harness.Status) bool { return st.State == "running" && st.Pid != db })
	if st := s.Status("front"); st.Pid != first || s.Status("web").Pid != web {
		t.Errorf("after a crash of db: %v, want the same process", st)
	}

	// A stop by the operator: dependents stop first, the last of the chain before the others, and
	// come back with it.
	for range 3 {
		cursor := lastEvent(s)
		s.MustCtl("stop", "db")
		for _, name := range []string{"web", "front"} {
			if st := s.Status(name); st.State != "waiting" || st.Pid != 0 {
				t.Errorf("db is stopped: %v, want it waiting", st)
			}
		}
		if st := s.Status("web"); !strings.Contains(st.Reason, "waits for db, which the operator has stopped") {
			t.Errorf("%v, want the reason", st)
		}
		down := slices.DeleteFunc(events(s, cursor), func(e event) bool {
			return e.Kind != "state" || e.State != "waiting" && e.State != "stopped"
		})
		var order []string
		for _, e := range down {
			order = append(order, e.Instance)
		}
		if !slices.Equal(order, []string{"front", "web", "db"}) {
			t.Errorf("they came down as %v, want front, web, db", order)
		}
		s.MustCtl("start", "db")
		s.WaitState("front", "running")
	}
}

// TestReasonOfWait: the reason of a wait says how what is awaited is, when it begins and later.
func TestReasonOfWait(t *testing.T) {
	t.Parallel()
	const programs = `
		[program.app]
		command = "sleep infinity"
		requires = ["db"]
		[program.db]
		command = ["sh", "-c", "read x < gate; exit 3"]
		ready = { line = "never" }
		start_limit = { failures = 1, retry_after = "0s" }
		`
	s := harness.NewSite(t, programs)
	end := s.Gate("gate")
	s.Start()
	s.WaitState("db", "starting")
	s.Configure(programs + `
		[program.anew]
		command = "sleep infinity"
		requires = ["db", "zone"]
		[program.zone]
		command = ["sh", "-c", "read x < gate; exit 3"]
		ready = { line = "never" }
		`)
	s.MustCtl("reload")
	begins := map[string]string{}
	for _, e := range events(s, 0) {
		if e.Kind == "state" && e.State == "waiting" && begins[e.Instance] == "" {
			begins[e.Instance] = e.Reason
		}
	}
	for name, want := range map[string]string{
		"app":  "waits for db, which is starting",
		"anew": "waits for db, which is starting; and for 1 more",
	} {
		if begins[name] != want {
			t.Errorf("%s began to wait because it %q, want %q", name, begins[name], want)
		}
	}
	end()
	s.WaitState("db", "failed")
	const failed = "waits for db, which failed: exit status 3"
	if first, _, _ := strings.Cut(s.MustCtl("why", "app").Out, "\n"); !strings.Contains(first, "): "+failed) {
		t.Errorf("why begins with %q, want that app %s", first, failed)
	}
}

// TestRestartWithDependents: a restart of a requirement restarts its dependents; a restart of a
// waiting program changes nothing for them.
func TestRestartWithDependents(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.a]
		command = ["sh", "-c", "read line < DIR/gate; exit 0"]
		type = "oneshot"
		[program.b]
		requires = ["a"]
		`+wait+`
		[program.c]
		requires = ["b"]
		`+wait)
	open := s.Gate("gate")
	s.Start()
	s.WaitState("b", "waiting")
	s.MustCtl("restart", "--no-wait", "b")
	if st := s.Status("b"); st.State != "waiting" {
		t.Errorf("restart of what waits: %v, want it waiting", st)
	}
	open()
	pids := map[string]int{"b": s.WaitState("b", "running").Pid, "c": s.WaitState("c", "running").Pid}
	cursor := lastEvent(s)
	s.MustCtl("restart", "b")
	for name, pid := range pids {
		s.WaitStatus(name, "is a new one", func(st harness.Status) bool { return st.State == "running" && st.Pid != pid })
	}
	up := states(s, cursor, "running")
	if !slices.Equal(up, []string{"b", "c"}) {
		t.Errorf("they came up as %v, want b, c", up)
	}
	if n := len(states(s, 0, "exited")); n != 1 {
		t.Errorf("the one-shot has run %d times, want once", n)
	}
	if waited := states(s, cursor, "waiting"); !slices.Equal(waited, []string{"c"}) {
		t.Errorf("%v waited, want c alone", waited)
	}
}

// TestStartIncludesRequirements: a start also starts requirements, except those that the operator
// has stopped, and reports both.
func TestStartIncludesRequirements(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		autostart = false
		[program.net]
		`+wait+`
		[program.db]
		requires = ["net"]
		`+wait+`
		[program.web]
		requires = ["db"]
		`+wait)
	s.Start()
	s.MustCtl("start", "web")
	for _, name := range []string{"net", "db", "web"} {
		if st := s.Status(name); st.State != "running" {
			t.Errorf("after start web: %v, want it running", st)
		}
	}
	if why := s.MustCtl("why", "db").Out; !strings.Contains(why, "wanted up by the operator, for web") {
		t.Errorf("why db:\n%s\nwant the dependents for which it runs", why)
	}
	s.MustCtl("stop", "web", "net")
	r := s.Ctl("start", "web")
	if r.Exit != 1 || !strings.Contains(r.Out+r.ErrOut, "waits for db, which waits for net, which the operator has stopped") {
		t.Errorf("start web while the operator holds net down: exit status %d\n%s%s", r.Exit, r.Out, r.ErrOut)
	}
	if st := s.Status("net"); st.State != "stopped" {
		t.Errorf("%v, want it held down", st)
	}
	why := s.MustCtl("why", "web").Out
	if !strings.Contains(why, "waits for db, which waits for net, which the operator has stopped.") {
		t.Errorf("why web:\n%s", why)
	}
	s.MustCtl("start", "net")
	s.WaitState("web", "running")
}

// TestStopOrder: a shutdown stops dependents first, and takes as long as the longest chain, not the
// sum of all.
func TestStopOrder(t *testing.T) {
	t.Parallel()
	const width = 6
	var text strings.Builder
	text.WriteString("[defaults]\ncommand = ['sh', '-c', 'trap \"sleep 0.3; exit 0\" TERM; echo up; while :; do sleep 0.05; done']\n[program.hub]\n")
	for i := range width {
		fmt.Fprintf(&text, "[program.leaf%d]\nrequires = ['hub']\n", i)
	}
	text.WriteString("[program.last]\nafter = ['leaf0']\n")
	s := harness.NewSite(t, text.String())
	s.Mkdir("run") // a directory that superd has not made stays, with the events
	d := s.Start()
	s.WaitRunning()
	for _, name := range []string{"hub", "last", "leaf0"} {
		s.WaitLog(name, "up\n")
	}
	began := time.Now()
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d\n%s", exit, d.ErrOut)
	}
	took := time.Since(began)
	ended := exits(t, s)
	if len(ended) != width+2 || ended[len(ended)-1] != "hub" {
		t.Errorf("they ended as %v, want hub last", ended)
	}
	before(t, ended, "last", "leaf0")
	if took < 900*time.Millisecond {
		t.Errorf("shutdown took %v, want three stops of 0.3 s one after the other", took)
	}
}

// exits returns the instances that ended, in that order, from the event log that superd has left.
func exits(t *testing.T, s *harness.Site) (names []string) {
	t.Helper()
	for line := range strings.Lines(s.Read("run/events.jsonl")) {
		if strings.Contains(line, `"kind":"exit"`) {
			_, rest, _ := strings.Cut(line, `"instance":"`)
			name, _, _ := strings.Cut(rest, `"`)
			names = append(names, name)
		}
	}
	return names
}

// TestDependenciesSurviveKill: superd is killed during a stop, a restart and a wait. The next one
// continues with each.
func TestDependenciesSurviveKill(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.db]
		`+wait+`
		[program.web]
		requires = ["db"]
		command = ["sh", "-c", "trap 'read line < DIR/gate; exit 0' TERM; echo up; while :; do sleep 0.05; done"]
		[program.late]
		requires = ["never"]
		`+wait+`
		[program.never]
		command = "false"
		restart = "never"
		`)
	open := s.Gate("gate")
	d := s.Start()
	db := s.WaitState("db", "running").Pid
	s.WaitLog("web", "up\n")
	s.WaitState("late", "waiting")
	s.MustCtl("restart", "--no-wait", "db")
	s.WaitStatus("db", "waits for web to end", func(st harness.Status) bool {
		return st.State == "stopping" && strings.Contains(st.Reason, "waits until web is down")
	})
	d.Kill()
	s.Start()
	if st := s.Status("db"); st.State != "stopping" || st.Pid != db {
		t.Errorf("after the kill: %v, want it stopping with pid %d", st, db)
	}
	if st := s.Status("late"); st.State != "waiting" || !strings.Contains(st.Reason, "waits for never, which failed: exit status 1") {
		t.Errorf("after the kill: %v, want it waiting", st)
	}
	open()
	s.WaitStatus("db", "is a new one", func(st harness.Status) bool { return st.State == "running" && st.Pid != db })
	s.WaitState("web", "running")
}

// TestReloadChangesDependencies: a program is removed, and added again with another requirement,
// while it is stopping.
func TestReloadChangesDependencies(t *testing.T) {
	t.Parallel()
	const slow = "command = ['sh', '-c', 'trap \"read line < DIR/gate; exit 0\" TERM; echo up; while :; do sleep 0.05; done']\n"
	s := harness.NewSite(t, "[program.db]\n"+slow+"[program.web]\nrequires = ['db']\n"+wait)
	open := s.Gate("gate")
	s.Start()
	s.WaitLog("db", "up\n")
	web := s.WaitState("web", "running").Pid

	// A configuration that requires a missing program is refused.
	s.Configure("[program.web]\nrequires = ['db']\n" + wait)
	if r := s.Ctl("reload"); r.Exit != 2 || !strings.Contains(r.Out+r.ErrOut, `there is no program "db"`) {
		t.Errorf("reload: exit status %d\n%s%s, want it refused", r.Exit, r.Out, r.ErrOut)
	}
	if st := s.Status("web"); st.Pid != web {
		t.Errorf("after a refused reload: %v, want pid %d", st, web)
	}

	s.Configure("[program.web]\n" + wait)
	s.MustCtl("reload")
	s.WaitState("db", "stopping")
	s.Configure("[program.db]\nrequires = ['web']\n" + wait + "[program.web]\n" + wait)
	s.MustCtl("reload")
	if st := s.Status("db"); st.State != "stopping" {
		t.Errorf("%v, want the old one stopping", st)
	}
	open()
	s.WaitState("db", "running")
	s.WaitState("web", "running")
	if n := len(s.Programs()); n != 2 {
		t.Errorf("%d processes, want 2", n)
	}
}

// TestBrokenDependencies: cycles, unknown names and programs that name themselves fail with an
// exact message; other programs run.
func TestBrokenDependencies(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.a]
		requires = ["b"]
		`+wait+`
		[program.b]
		after = ["c"]
		`+wait+`
		[program.c]
		requires = ["a"]
		`+wait+`
		[program.self]
		requires = ["self"]
		`+wait+`
		[program.lost]
		requires = ["dbb"]
		`+wait+`
		[program.db]
		`+wait+`
		[program.poor]
		requires = ["lost"]
		`+wait)
	r := s.Run("check", "-c", s.Config)
	wantMessage(t, r, 2, "a -> b -> c -> a", `"self" can't depend on itself`, `there is no program "dbb": did you mean "db"?`)
	s.Start()
	for _, name := range []string{"a", "b", "c", "self", "lost"} {
		s.WaitState(name, "failed")
	}
	s.WaitState("db", "running")
	s.WaitStatus("poor", "shows why", func(st harness.Status) bool {
		return st.State == "waiting" && strings.Contains(st.Reason, "waits for lost, which failed: ") && strings.Contains(st.Reason, "there is no program")
	})
}

// TestLongChain: a chain of hundreds of programs starts and stops.
func TestLongChain(t *testing.T) {
	t.Parallel()
	const links = 300
	var text strings.Builder
	text.WriteString("[defaults]\ncommand = 'sleep infinity'\n[program.p0]\nautostart = false\n")
	for i := 1; i < links; i++ {
		fmt.Fprintf(&text, "[program.p%d]\nrequires = ['p%d']\n", i, i-1)
	}
	s := harness.NewSite(t, text.String())
	s.Mkdir("run")
	d := s.Start()
	last := fmt.Sprintf("p%d", links-1)
	s.WaitState(last, "running")
	s.MustCtl("stop", "p0")
	if st := s.Status(last); st.State != "waiting" || !strings.Contains(st.Reason, "waits for ") {
		t.Errorf("%v, want it waiting", st)
	}
	why := s.MustCtl("why", last).Out
	if !strings.Contains(why, "p0, which the operator has stopped") || len(why) > 2000 {
		t.Errorf("why %s:\n%s\nwant the cause, in short", last, why)
	}
	s.MustCtl("start", "p0")
	s.WaitState(last, "running")
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
	if ended := exits(t, s); len(ended) == 0 || ended[len(ended)-1] != "p0" {
		t.Errorf("the last one to end is %q, want p0", ended[max(0, len(ended)-1):])
	}
}

// TestRestartOfWhatIsRequired: a restart of programs that require each other waits until all that
// it has stopped are up again, named or not, and fails if one is not.
func TestRestartOfWhatIsRequired(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		restart = "never"
		ready = { line = "up" }
		[program.db]
		command = ["sh", "-c", "echo up; exec sleep infinity"]
		[program.web]
		command = ["sh", "-c", "echo up; exec sleep infinity"]
		requires = ["db"]
		[program.front]
		command = ["sh", "-c", "test ! -e DIR/broken && echo up && exec sleep infinity"]
		requires = ["web"]
		`)
	s.Start()
	s.WaitRunning()
	all := []string{"db", "web", "front"}
	for _, names := range [][]string{{"*"}, {"db"}, {"front", "db"}} {
		before := map[string]int{}
		for _, name := range all {
			before[name] = s.Status(name).Pid
		}
		r := s.Ctl(append([]string{"restart"}, names...)...)
		if r.Exit != 0 || r.ErrOut != "" {
			t.Errorf("restart %v: exit status %d, want 0\n%s%s", names, r.Exit, r.Out, r.ErrOut)
		}
		for _, name := range all {
			st := s.Status(name)
			if st.State != "running" || st.Pid == before[name] {
				t.Errorf("%s after restart %v: %v, was pid %d", name, names, st, before[name])
			}
			if !strings.Contains(r.Out, name+": running, pid "+strconv.Itoa(st.Pid)) {
				t.Errorf("restart %v does not report %s:\n%s", names, name, r.Out)
			}
		}
	}
	s.Write("broken", "")
	if r := s.Ctl("restart", "db"); r.Exit != 1 || !strings.Contains(r.ErrOut, "front: exit status 1") {
		t.Errorf("restart with a dependent that fails: exit status %d, want 1 and the reason\n%s%s", r.Exit, r.Out, r.ErrOut)
	}
}
