package tests

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// names returns the names of all instances.
func names(s *harness.Site) (all []string) {
	for _, st := range s.All() {
		all = append(all, st.Name)
	}
	return all
}

// waitNames waits until exactly these instances exist and all run.
func waitNames(t *testing.T, s *harness.Site, want ...string) map[string]int {
	t.Helper()
	harness.Until(t, "the instances are "+strings.Join(want, " "), func() bool { return slices.Equal(names(s), want) })
	return s.WaitRunning()
}

// unchanged returns the instances that have the same pid before and after.
func unchanged(before, after map[string]int) (same []string) {
	for name, pid := range before {
		if after[name] == pid {
			same = append(same, name)
		}
	}
	slices.Sort(same)
	return same
}

func TestReplicasAndScale(t *testing.T) {
	t.Parallel()
	const replicated = `
		[program.web]
		command = ["sh", "-c", "echo $SUPERD_NAME $SUPERD_INSTANCE ${SUPERD_REPLICA}; trap '' TERM; sleep infinity & wait; wait"]
		stop_timeout = "1s"
		replicas = 3
		[program.other]
		command = "sleep infinity"
		[program.named]
		command = "sleep infinity"
		log.file = "it.log"
		`
	s := harness.NewSite(t, replicated)
	d := s.Start()
	three := waitNames(t, s, "named", "other", "web@1", "web@2", "web@3")
	for name, number := range map[string]string{"web@1": "1", "web@3": "3"} {
		s.WaitLog(name, "web "+name+" "+number+"\n")
	}

	r := s.MustCtl("scale", "web=5")
	if !strings.Contains(r.Out, "web@4: running") || !strings.Contains(r.Out, "web: 5 instances, was 3") {
		t.Errorf("ctl scale says %q", r.Out)
	}
	five := waitNames(t, s, "named", "other", "web@1", "web@2", "web@3", "web@4", "web@5")
	if got := unchanged(three, five); len(got) != len(three) {
		t.Errorf("scale up left only %v alone", got)
	}

	// Those of the highest numbers are removed, even if they ignore SIGTERM, as here.
	s.MustCtl("scale", "web=2")
	two := waitNames(t, s, "named", "other", "web@1", "web@2")
	if got := unchanged(five, two); len(got) != len(two) {
		t.Errorf("scale down left only %v alone", got)
	}
	if harness.Alive(five["web@3"]) || harness.Alive(five["web@5"]) {
		t.Error("scale has returned and what it has stopped lives")
	}

	// The number survives superd and a reload of the same number; another number replaces it.
	d.Kill()
	d = s.Start()
	if got := waitNames(t, s, "named", "other", "web@1", "web@2"); !maps.Equal(got, two) {
		t.Errorf("after superd was killed: %v, want %v", got, two)
	}
	s.Configure(replicated + "stop_timeout = '2s'")
	s.MustCtl("reload")
	if got := waitNames(t, s, "named", "other", "web@1", "web@2"); !maps.Equal(got, two) {
		t.Errorf("after a reload of the same number: %v, want %v", got, two)
	}
	s.Configure(strings.Replace(replicated, "replicas = 3", "replicas = 4", 1))
	if r := s.MustCtl("reload", "--dry-run"); !strings.Contains(r.Out, "replicas 3 -> 4") || !strings.Contains(r.Out, "the operator's scale web=2 ends") {
		t.Errorf("dry run says %q", r.Out)
	}
	s.MustCtl("reload")
	four := waitNames(t, s, "named", "other", "web@1", "web@2", "web@3", "web@4")
	if got := unchanged(two, four); len(got) != len(two) {
		t.Errorf("another number in the file left only %v alone", got)
	}

	// 0 is a valid number, too; stopped programs stay stopped.
	s.MustCtl("stop", "web")
	s.MustCtl("scale", "web=5")
	if st := s.Status("web@5"); st.State != "stopped" {
		t.Errorf("a fifth of four that are stopped is %s", st.State)
	}
	s.MustCtl("scale", "web=0")
	waitNames(t, s, "named", "other")
	s.MustCtl("stop", "web") // there is nothing to do
	s.MustCtl("scale", "web=1")
	waitNames(t, s, "named", "other", "web@1")

	for command, want := range map[string]string{
		"named=2":      "it.log",
		"wbe=2":        `did you mean "web"`,
		"web@1=2":      "it is an instance",
		"web=10001":    "from 0 to 10000",
		"web=2 named=": "want a name and a number",
	} {
		if r := s.Ctl(append([]string{"scale"}, strings.Fields(command)...)...); r.Exit == 0 || !strings.Contains(r.ErrOut, want) {
			t.Errorf("scale %s: exit status %d, %q, want %q", command, r.Exit, r.ErrOut, want)
		}
	}
	if got := names(s); !slices.Equal(got, []string{"named", "other", "web@1"}) {
		t.Errorf("after what was refused: %v", got)
	}
	_ = d
}

// TestOneBecomesSeveral: a program that gets a second instance, or is left with one, gets instances
// of other names.
func TestOneBecomesSeveral(t *testing.T) {
	t.Parallel()
	const one = "[program.web]\ncommand = 'sleep infinity'\n"
	s := harness.NewSite(t, one)
	s.Start()
	web := waitNames(t, s, "web")["web"]
	s.MustCtl("scale", "web=3")
	three := waitNames(t, s, "web@1", "web@2", "web@3")
	if harness.Alive(web) {
		t.Error("web lives beside web@1")
	}
	s.MustCtl("scale", "web=1")
	if got := waitNames(t, s, "web@1"); got["web@1"] != three["web@1"] {
		t.Errorf("scaled down to one: pid %d, want that of web@1, %d", got["web@1"], three["web@1"])
	}
	s.Configure(one + "replicas = 2")
	s.MustCtl("reload")
	if got := waitNames(t, s, "web@1", "web@2"); got["web@1"] != three["web@1"] {
		t.Errorf("two by the file: pid %d, want that of web@1, %d", got["web@1"], three["web@1"])
	}
	s.Configure(one)
	s.MustCtl("reload")
	waitNames(t, s, "web")
}

func TestNamesGroupsAndGlobs(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo I am $SUPERD_INSTANCE; exec sleep infinity"]
		replicas = 2
		groups = ["front"]
		[program.proxy]
		command = ["sh", "-c", "echo I am $SUPERD_INSTANCE; exec sleep infinity"]
		groups = ["front"]
		[program.db]
		command = ["sh", "-c", "echo I am $SUPERD_INSTANCE; exec sleep infinity"]
		`)
	s.Start()
	s.WaitRunning()
	for name, want := range map[string][]string{
		"web":      {"web@1", "web@2"},
		"web@2":    {"web@2"},
		"front":    {"proxy", "web@1", "web@2"},
		"*b*":      {"db", "web@1", "web@2"},
		"web@*":    {"web@1", "web@2"},
		"[dp]*":    {"db", "proxy"},
		"proxy db": {"db", "proxy"},
	} {
		args := strings.Fields(name)
		for _, command := range []string{"stop", "start", "restart", "signal CONT", "status --brief", "logs", "history", "tree"} {
			r := s.MustCtl(append(strings.Fields(command), args...)...)
			for _, instance := range []string{"db", "proxy", "web@1", "web@2"} {
				found := regexp.MustCompile(`(^|[^\w@])` + instance + `($|[^\w@])`).MatchString(r.Out)
				if wanted := slices.Contains(want, instance); found != wanted {
					t.Errorf("ctl %s %s: %q, want exactly %v in it", command, name, r.Out, want)
				}
			}
		}
		if len(args) == 1 {
			r := s.MustCtl("why", name)
			for _, instance := range want {
				if !strings.Contains(r.Out, instance+" is running") {
					t.Errorf("ctl why %s: %q, want %s in it", name, r.Out, instance)
				}
			}
		}
	}
	for _, command := range []string{"stop", "start", "restart", "signal CONT", "status", "logs", "history", "tree", "why"} {
		for unknown, nearest := range map[string]string{"web@3": "web@", "fronnt": "front", "prxy": "proxy"} {
			r := s.Ctl(append(strings.Fields(command), unknown)...)
			if r.Exit != 1 || !strings.Contains(r.ErrOut, `did you mean "`+nearest) {
				t.Errorf("ctl %s %s: exit status %d, %q, want the nearest name, %s", command, unknown, r.Exit, r.ErrOut, nearest)
			}
		}
	}
	s.MustCtl("scale", "front=1")
	harness.Until(t, "the group is scaled", func() bool { return slices.Equal(names(s), []string{"db", "proxy", "web@1"}) })
	s.MustCtl("stop", "web@1")
	if r := s.Ctl("status", "front"); r.Exit != 3 {
		t.Errorf("status of a group of which one is down: exit status %d, want 3", r.Exit)
	}
	if r := s.Ctl("status", "proxy"); r.Exit != 0 {
		t.Errorf("status of what is up: exit status %d, want 0", r.Exit)
	}
}

// TestRenamedWhileStopping: a program is renamed, or removed and added again, while it is stopping.
// The old run is gone before the new one starts.
func TestRenamedWhileStopping(t *testing.T) {
	t.Parallel()
	// Only one may live at a time, of whatever name.
	program := func(name string) string {
		return "[program." + name + "]\n" + `
			command = ["sh", "-c", "trap 'sleep 0.5; rmdir alone; exit' TERM; mkdir alone || echo twice; echo up; sleep infinity & wait"]
			log.file = "it.log"
			`
	}
	s := harness.NewSite(t, program("web"))
	d := s.Start()
	s.WaitLog("it", "up\n")
	for i, name := range []string{"site", "web", "site", "web"} {
		s.Configure(program(name))
		if i%2 == 0 {
			d.Signal(syscall.SIGHUP) // two reloads: one while the program is stopping
			d.ErrOut.WaitTimes(t, "configuration reloaded", 2*i+1)
			s.Configure("[program.idle]\ncommand='sleep infinity'\n")
			s.MustCtl("reload")
			s.Configure(program(name))
		}
		s.MustCtl("reload")
		waitNames(t, s, name)
	}
	if log := s.Read("log/it.log"); strings.Contains(log, "twice") {
		t.Errorf("two lived at a time: %q", log)
	}
}

// TestProgramWithoutInstances: commands for such a program are answered with the reason why there
// is nothing to do, and superd goes on.
func TestProgramWithoutInstances(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.db]
		command = "sleep infinity"
		[program.none]
		command = "sleep infinity"
		groups = ["empty"]
		replicas = 0
		[program.web]
		command = "sleep infinity"
		requires = ["db"]
		`)
	d := s.Start()
	waitNames(t, s, "db", "web")
	s.MustCtl("scale", "db=0")
	const scaled = "no instances: scaled to 0 by the operator"
	for _, tt := range []struct {
		args    string
		exit    int
		message string
	}{
		{"start db", 1, "db: it has " + scaled + "; see `superd ctl scale`"},
		{"restart db", 1, scaled},
		{"signal HUP db web", 1, scaled},
		{"start none", 1, "none: it has no instances: replicas is 0"},
		{"start empty", 1, "empty: no program of this group has instances"},
		{"start n*", 0, ""},
		{"stop db", 0, ""},
		{"status db", 3, ""},
		{"status --brief none", 3, ""},
		{"status none web", 3, "none has no instances"},
		{"status web none", 3, "Defined: "},
		{"show none", 0, "none has no instances"},
		{"is-active none", 3, "none has no instances"},
		{"list-dependencies", 0, "none: no instances"},
		{"ready none", 3, "none: not ready: no instances"},
		{"ready", 3, "web: not ready: waiting"},
		{"logs db", 0, ""},
		{"why web", 0, "): waits for db, which has " + scaled},
	} {
		if r := s.Ctl(strings.Fields(tt.args)...); r.Exit != tt.exit || !strings.Contains(r.Out+r.ErrOut, tt.message) {
			t.Errorf("ctl %s: exit status %d, want %d\n%s%s\nwant %q", tt.args, r.Exit, tt.exit, r.Out, r.ErrOut, tt.message)
		}
	}
	if status, body, err := s.Request("GET", "/v1/programs/db/logs"); err != nil || status != 409 || !strings.Contains(string(body), scaled) {
		t.Errorf("GET logs: %d, %v\n%s\nwant 409, %q", status, err, body, scaled)
	}
	const notReady = `{"ready":false,"not_ready":["none","web"]}`
	status, body, err := s.Request("GET", "/readyz?name=none&name=web&name=w*")
	if got := strings.TrimSpace(string(body)); err != nil || status != 503 || got != notReady {
		t.Errorf("GET readyz: %d, %v\n%s\nwant 503, %s", status, err, got, notReady)
	}
	s.MustCtl("scale", "db=1")
	waitNames(t, s, "db@1", "web")
	if out := s.MustCtl("version", "--json").Out; !strings.Contains(out, fmt.Sprintf(`"pid":%d,`, d.Pid)) {
		t.Errorf("ctl version: %s, want pid %d: superd has died of a request", out, d.Pid)
	}
}

// TestRollingRestart: one instance after the other, each when the one before is ready; the first
// that fails to become ready ends it.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "test -e DIR/broken || echo ready; exec sleep infinity"]
		ready = { line = "ready" }
		start_timeout = "2s"
		start_limit = { failures = 1 }
		replicas = 3
		`)
	s.Start()
	before := waitNames(t, s, "web@1", "web@2", "web@3")
	if r := s.MustCtl("restart", "--rolling", "web"); !strings.Contains(r.Out, "web@3: running") {
		t.Errorf("ctl restart --rolling says %q", r.Out)
	}
	after := waitNames(t, s, "web@1", "web@2", "web@3")
	if same := unchanged(before, after); len(same) > 0 {
		t.Errorf("%v were not restarted", same)
	}

	if err := os.WriteFile(s.Path("broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.Ctl("restart", "--rolling", "web"); r.Exit != 1 || !strings.Contains(r.Out+r.ErrOut, "web@3: not restarted: the restart of web@1 failed") {
		t.Errorf("ctl restart --rolling: exit status %d\n%s%s", r.Exit, r.Out, r.ErrOut)
	}
	for _, name := range []string{"web@2", "web@3"} {
		if st := s.Status(name); st.State != "running" || st.Pid != after[name] {
			t.Errorf("%v, want it left alone with pid %d", st, after[name])
		}
	}
	if r := s.Ctl("restart", "--rolling", "--no-wait", "web"); r.Exit != 2 {
		t.Errorf("ctl restart --rolling --no-wait: exit status %d, want 2\n%s", r.Exit, r.ErrOut)
	}
}
