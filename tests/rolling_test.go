package tests

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// rolling is a program of two replicas that drains for as long as the file drain exists, and that
// never becomes ready while the file broken does.
const rolling = `
	[program.web]
	command = ["sh", "-c", "trap 'while test -e DIR/drain; do sleep 0.05; done; exit 0' TERM; test -e DIR/broken || echo ready; while :; do sleep 0.05; done"]
	ready = { line = "ready" }
	start_timeout = "2s"
	stop_timeout = "200ms"
	drain_timeout = "1m"
	replicas = 2
	rolling = {}
	`

// fewestUp returns the smallest number of instances that ran at a time, by the events after since.
func fewestUp(s *harness.Site, since uint64, before map[string]int) int {
	up := map[string]bool{}
	for name := range before {
		up[name] = true
	}
	fewest := len(up)
	for _, e := range events(s, since) {
		if e.Kind != "state" {
			continue
		}
		if e.State == "running" {
			up[e.Instance] = true
		} else {
			delete(up, e.Instance)
		}
		fewest = min(fewest, len(up))
	}
	return fewest
}

// newestEvent returns the cursor of the newest event.
func newestEvent(s *harness.Site) uint64 {
	s.T.Helper()
	all := events(s, 0)
	return all[len(all)-1].Cursor
}

// TestRollingRestartWithSurge: an extra replica is up before the others are restarted, and no fewer
// than two are at any time. One that fails ends the rolling restart.
func TestRollingRestartWithSurge(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, rolling)
	s.Start()
	before := waitNames(t, s, "web@1", "web@2")
	since := newestEvent(s)
	if r := s.MustCtl("restart", "--rolling", "web"); !strings.Contains(r.Out, "web@2: running") {
		t.Errorf("ctl restart --rolling says %q", r.Out)
	}
	after := waitNames(t, s, "web@1", "web@2")
	if same := unchanged(before, after); len(same) > 0 {
		t.Errorf("%v were not restarted", same)
	}
	if n := fewestUp(s, since, before); n < 2 {
		t.Errorf("%d replicas ran at a time, want at least 2", n)
	}

	s.Write("broken", "")
	const failed = "the extra replica web@3 failed: "
	if r := s.Ctl("restart", "--rolling", "web"); r.Exit != 1 || !strings.Contains(r.ErrOut, "web@1: not restarted: "+failed) {
		t.Errorf("ctl restart --rolling: exit status %d\n%s%s", r.Exit, r.Out, r.ErrOut)
	}
	if same := unchanged(after, waitNames(t, s, "web@1", "web@2")); len(same) != 2 {
		t.Errorf("only %v still run after a failure", same)
	}
	for _, name := range []string{"web", "web@1", "w*"} {
		if text := s.MustCtl("events", name).Out; !strings.Contains(text, "web: rolling restart ended: "+failed) {
			t.Errorf("the events of %s don't say why it ended:\n%s", name, text)
		}
	}
}

// TestRollingRestartOfStopped: it starts a program that is stopped, and ends when that is up.
func TestRollingRestartOfStopped(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, strings.Replace(rolling, "rolling = {}", "", 1))
	s.Start()
	waitNames(t, s, "web@1", "web@2")
	s.MustCtl("stop", "web")
	since := newestEvent(s)
	if r := s.MustCtl("restart", "--rolling", "web"); !strings.Contains(r.Out, "web@2: running") {
		t.Errorf("ctl restart --rolling says %q", r.Out)
	}
	up := 0
	for _, e := range events(s, since) {
		switch {
		case e.Kind == "state" && e.State == "running":
			up++
		case e.Kind == "roll" && e.State == "over" && up < 2:
			t.Errorf("it is over when %d of 2 are up", up)
		}
	}
}

// TestReloadOfBrokenProgram: a reload gives a program without readiness a command that fails
// soon. The old run goes on.
func TestReloadOfBrokenProgram(t *testing.T) {
	t.Parallel()
	const good = `
		[program.web]
		command = "sleep infinity"
		rolling = {}
		`
	s := harness.NewSite(t, good)
	d := s.Start()
	before := waitNames(t, s, "web")
	s.Configure(strings.Replace(good, `"sleep infinity"`, `["sh", "-c", "sleep 0.2; exit 1"]`, 1))
	s.MustCtl("reload")
	harness.Until(t, "the rolling restart has failed", func() bool {
		return strings.Contains(s.MustCtl("events", "web").Out, "web: rolling restart ended: the extra replica web@2 failed: ")
	})
	if same := unchanged(before, waitNames(t, s, "web")); len(same) != 1 {
		t.Errorf("web no longer runs as before")
	}
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	const reason = "uns with its former definition, since the rolling restart ended: the extra replica web@2 failed: "
	for _, command := range []string{"status", "why"} {
		if out := s.MustCtl(command, "web").Out; !strings.Contains(out, reason) {
			t.Errorf("ctl %s says %q", command, out)
		}
	}
	s.Configure(good)
	s.MustCtl("reload")
	if out := s.MustCtl("why", "web").Out; strings.Contains(out, reason) {
		t.Errorf("it has its old definition again, and ctl why says %q", out)
	}
}

// TestReloadMovesSocket: a new address of the socket can't be opened beside that of before, so a
// reload restarts the program at once.
func TestReloadMovesSocket(t *testing.T) {
	t.Parallel()
	first := freeAddress(t)
	text := fmt.Sprintf(`
		[socket.http]
		listen = %q
		[program.web]
		command = ["child", "serve", "0"]
		sockets = ["http"]
		replicas = 2
		rolling = {}
		`, first)
	s := harness.NewSite(t, text)
	s.Start()
	waitNames(t, s, "web@1", "web@2")
	_, port, _ := strings.Cut(first, ":")
	s.Configure(strings.Replace(text, first, "0.0.0.0:"+port, 1))
	if out := s.MustCtl("reload").Out; !strings.Contains(out, "web is restarted at once, not by a rolling restart: 0.0.0.0:"+port+" can be opened only when") {
		t.Errorf("ctl reload says %q", out)
	}
	harness.Until(t, "the socket is open at its new address", func() bool {
		out := s.MustCtl("sockets").Out
		return strings.Contains(out, "0.0.0.0:"+port) && strings.Contains(out, " open ")
	})
	waitNames(t, s, "web@1", "web@2")
	if out := s.MustCtl("reload").Out; strings.Contains(out, "rolling") {
		t.Errorf("a second reload says %q", out)
	}
}

// TestCanaryDecisions: extra replicas run until the operator decides, also under other superds.
func TestCanaryDecisions(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, rolling)
	d := s.Start()
	before := waitNames(t, s, "web@1", "web@2")
	for i, decision := range []string{"undo", "continue"} {
		if r := s.MustCtl("restart", "--rolling", "--canary", "1", "web"); !strings.Contains(r.Out, "web@3: extra replica, running") {
			t.Errorf("ctl restart --rolling --canary 1 says %q", r.Out)
		}
		s.Kill(d.Pid, syscall.SIGKILL)
		d.FindSupervisor()
		s.MustCtl("upgrade")
		d.ErrOut.WaitTimes(t, "the keeper runs the new binary, too", i+1)
		during := waitNames(t, s, "web@1", "web@2", "web@3")
		if same := unchanged(before, during); len(same) != 2 {
			t.Errorf("during the canary only %v still run", same)
		}
		const state = "rolling restart of web is under way: 0 of 2 restarted, 1 extra replica up"
		if text := s.MustCtl("why", "web@1").Out; !strings.Contains(text, "A "+state) {
			t.Errorf("why web@1:\n%s", text)
		}
		if r := s.Ctl("restart", "--rolling", "web"); r.Exit != 1 || !strings.Contains(r.ErrOut, state) {
			t.Errorf("a second rolling restart: exit status %d\n%s%s", r.Exit, r.Out, r.ErrOut)
		}
		if r := s.Ctl("scale", "web=3"); r.Exit != 1 || !strings.Contains(r.ErrOut, state) {
			t.Errorf("ctl scale: exit status %d\n%s%s", r.Exit, r.Out, r.ErrOut)
		}
		s.MustCtl(decision, "web")
		after := waitNames(t, s, "web@1", "web@2")
		if same, want := unchanged(before, after), map[string]int{"undo": 2}[decision]; len(same) != want {
			t.Errorf("after %s %v still run as before, want %d", decision, same, want)
		}
	}
	if r := s.Ctl("continue", "web"); r.Exit != 1 || !strings.Contains(r.ErrOut, "web: no rolling restart is under way") {
		t.Errorf("ctl continue without one: exit status %d\n%s%s", r.Exit, r.Out, r.ErrOut)
	}
}

// TestRollingRestartGoesOn: superd is killed while a replica drains. Its successor goes on. A stop
// by the operator ends the drain.
func TestRollingRestartGoesOn(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, rolling)
	d := s.Start()
	before := waitNames(t, s, "web@1", "web@2")
	since := newestEvent(s)
	s.Write("drain", "")
	if r := s.Ctl("restart", "--rolling", "--timeout", "1s", "web"); r.Exit != 1 {
		t.Errorf("ctl restart --rolling: exit status %d\n%s%s", r.Exit, r.Out, r.ErrOut)
	}
	s.WaitState("web@1", "stopping")
	if text := s.MustCtl("why", "web@1").Out; !strings.Contains(text, "Now: drains for the rolling restart.") {
		t.Errorf("why web@1:\n%s", text)
	}
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	if st := s.WaitState("web@1", "stopping"); st.Pid != before["web@1"] {
		t.Errorf("%v, want it draining with pid %d", st, before["web@1"])
	}
	if err := os.Remove(s.Path("drain")); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "the rolling restart is complete", func() bool {
		return strings.Contains(s.MustCtl("events").Out, "web: rolling restart complete")
	})
	if same := unchanged(before, waitNames(t, s, "web@1", "web@2")); len(same) > 0 {
		t.Errorf("%v were not restarted", same)
	}
	if n := fewestUp(s, since, before); n < 2 {
		t.Errorf("%d replicas ran at a time, want at least 2", n)
	}

	s.Write("drain", "")
	s.Ctl("restart", "--rolling", "--timeout", "1s", "web")
	s.WaitState("web@1", "stopping")
	began := time.Now()
	s.MustCtl("stop", "web@1")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("a stop during the drain takes %v, stop_timeout is 200ms", took)
	}
}

// TestReloadRolls: a changed definition restarts the replicas one after the other. Until its turn
// each runs with the old one.
func TestReloadRolls(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, rolling)
	s.Start()
	before := waitNames(t, s, "web@1", "web@2")
	since := newestEvent(s)
	s.Configure(strings.Replace(rolling, "replicas", "environment = { N = '1' }\n\treplicas", 1))
	if out := s.MustCtl("reload").Out; !strings.Contains(out, "web is restarted by a rolling restart") {
		t.Errorf("ctl reload says %q", out)
	}
	harness.Until(t, "the rolling restart is complete", func() bool {
		return strings.Contains(s.MustCtl("events").Out, "web: rolling restart complete")
	})
	after := waitNames(t, s, "web@1", "web@2")
	if same := unchanged(before, after); len(same) > 0 {
		t.Errorf("%v were not restarted", same)
	}
	for name, pid := range after {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || !strings.Contains(string(text), "\x00N=1\x00") {
			t.Errorf("%s has the environment %q, %v", name, text, err)
		}
	}
	if n := fewestUp(s, since, before); n < 2 {
		t.Errorf("%d replicas ran at a time, want at least 2", n)
	}
}

// TestReloadWaits: reload --wait returns when what it has begun is done, also when superd is killed
// meanwhile, and fails if a part of it does.
func TestReloadWaits(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, rolling+`
		[program.old]
		command = "sleep infinity"
		[program.plain]
		command = "sleep 1d"
		[program.off]
		command = "sleep 1d"
		autostart = false
		[program.sometimes]
		command = "true"
		type = "oneshot"
		schedule = "@every 1h"
		`)
	d := s.Start()
	pids := func() map[string]int {
		all := map[string]int{}
		for _, name := range []string{"plain", "web@1", "web@2"} {
			all[name] = s.WaitState(name, "running").Pid
		}
		return all
	}
	before := pids()
	changed := strings.Replace(rolling, "replicas", "environment = { N = '1' }\n\treplicas", 1) + `
		[program.plain]
		command = "sleep 2d"
		[program.off]
		command = "sleep 2d"
		autostart = false
		[program.sometimes]
		command = "true"
		type = "oneshot"
		schedule = "@every 2h"
		[program.once]
		command = "true"
		type = "oneshot"
		`
	s.Configure(changed)
	if r := s.MustCtl("reload", "--wait"); !regexp.MustCompile(`(?m)^off: not started yet
old: (removed|stopped by the configuration .*)
once: exit status 0 .*
plain: running, pid \d+
sometimes: waits for its schedule.*
web@1: running, pid \d+
web@2: running, pid \d+
$`).MatchString(r.Out) {
		t.Errorf("reload --wait prints\n%s%s", r.Out, r.ErrOut)
	}
	if same := unchanged(before, pids()); len(same) > 0 {
		t.Errorf("%v were not restarted", same)
	}

	s.Write("drain", "")
	s.Configure(strings.Replace(changed, "'1'", "'2'", 1))
	if r := s.Ctl("reload", "--wait", "--timeout", "10ms"); r.Exit != 1 || !strings.Contains(r.ErrOut, "not done within the timeout") {
		t.Errorf("reload --wait --timeout: exit status %d, %q", r.Exit, r.ErrOut)
	}
	again := s.Command("ctl", "--runtime-dir", s.RuntimeDir, "reload", "--wait")
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	s.WaitState("web@3", "running")
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	os.Remove(s.Path("drain"))
	if err := again.Wait(); err != nil {
		t.Errorf("superd was killed meanwhile: %v", err)
	}
	if out := s.MustCtl("events").Out; strings.Count(out, "web: rolling restart complete") != 2 {
		t.Errorf("the second rolling restart is not complete:\n%s", out)
	}

	s.Write("broken", "")
	s.Configure(strings.Replace(changed, "'1'", "'3'", 1))
	const reason = "web@2: runs with its former definition, since the rolling restart ended: the extra replica web@3 failed: "
	if r := s.Ctl("reload", "--wait"); r.Exit != 1 || !strings.Contains(r.ErrOut, "web@2: not restarted: the extra replica web@3 failed: ") &&
		!strings.Contains(r.ErrOut, reason) {
		t.Errorf("it can't become ready: exit status %d, %q", r.Exit, r.ErrOut)
	}
	if r := s.Ctl("reload", "--wait"); r.Exit != 1 || !strings.Contains(r.ErrOut, reason) {
		t.Errorf("a former definition is left: exit status %d, %q", r.Exit, r.ErrOut)
	}
}

// TestLeavingSocket: a reload moves a Unix socket, and the new instance fails. The old one can be
// reached at the old path, also under other superds, until a reload has replaced it.
func TestLeavingSocket(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	configure := func(path, command string) {
		s.Configure(fmt.Sprintf(`
			[socket.http]
			listen = "unix:DIR/%s"
			[program.web]
			command = %s
			sockets = ["http"]
			rolling = { pause = "1s" }
			`, path, command))
	}
	const works = `["child", "serve", "0"]`
	configure("old", works)
	d := s.Start()
	before := waitNames(t, s, "web")
	since := newestEvent(s)
	configure("new", `["sh", "-c", "sleep 0.2; exit 1"]`)
	s.MustCtl("reload")
	harness.Until(t, "the rolling restart has failed", func() bool {
		return strings.Contains(s.MustCtl("events", "web").Out, "web: rolling restart ended: the extra replica web@2 failed: ")
	})
	if !slices.ContainsFunc(events(s, since), func(e event) bool { return e.Kind == "socket" && e.State == "leaving" }) {
		t.Error("no event says that the socket leaves")
	}
	stays := func() {
		t.Helper()
		if same := unchanged(before, waitNames(t, s, "web")); len(same) != 1 {
			t.Errorf("web no longer runs as before")
		}
		if _, err := ask("unix", s.Path("old"), "hello"); err != nil {
			t.Errorf("the old path: %v", err)
		}
		out := s.MustCtl("sockets").Out
		for _, want := range []string{"unix:" + s.Path("old") + " +leaving .* web ", "unix:" + s.Path("new") + " +open .* web"} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("ctl sockets: %s, want %q", out, want)
			}
		}
	}
	stays()
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	stays()
	s.MustCtl("upgrade", "--binary", s.BuildVersion("two", "2.0"))
	stays()
	configure("new", works)
	s.MustCtl("reload")
	harness.Until(t, "the old path is gone", func() bool {
		_, err := os.Lstat(s.Path("old"))
		return os.IsNotExist(err)
	})
	if out := s.MustCtl("sockets").Out; strings.Contains(out, "leaving") {
		t.Errorf("ctl sockets: %s, want no socket that leaves", out)
	}
	if _, err := ask("unix", s.Path("new"), "hello"); err != nil {
		t.Errorf("the new path: %v", err)
	}
}

// TestRollThatWaits: a reload gives a program an address that another process has. The roll says
// that it waits for that, and ends in time.
func TestRollThatWaits(t *testing.T) {
	t.Parallel()
	taken := freeAddress(t)
	other, err := net.Listen("tcp", taken)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s := harness.NewSite(t, "")
	configure := func(listen, wait string) {
		s.Configure(fmt.Sprintf(`
			[socket.http]
			listen = %q
			[program.web]
			command = ["child", "serve", "0"]
			sockets = ["http"]
			rolling = { wait_timeout = %q }
			`, listen, wait))
	}
	configure("unix:DIR/first", "5m")
	s.Start()
	before := waitNames(t, s, "web")
	configure(taken, "5m")
	s.MustCtl("reload")
	const waits = `web@2 waits for the socket http, whose address [0-9.:]+ can't be opened: address in use by process [0-9]+`
	harness.Until(t, "the rolling restart says for what it waits", func() bool {
		return regexp.MustCompile("starting 1 extra replica; " + waits + ".* more").MatchString(s.MustCtl("why", "web").Out)
	})
	if out := s.Ctl("status", "web", "--json").Out; !regexp.MustCompile(`"waits": ?"` + waits).MatchString(out) {
		t.Errorf("ctl status --json: %s, want for what the rolling restart waits", out)
	}
	configure(taken, "1s")
	s.MustCtl("reload")
	harness.Until(t, "the rolling restart has ended", func() bool {
		out := s.MustCtl("events", "web").Out
		return regexp.MustCompile("rolling restart ended: web@2 has not been started within 1s: waits for the socket http, .* in use by process").MatchString(out)
	})
	if same := unchanged(before, waitNames(t, s, "web")); len(same) != 1 {
		t.Errorf("web no longer runs as before")
	}
}
