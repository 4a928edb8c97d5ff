package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// The keeper is as small as it is meant to be, and known.
func TestKeeper(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		`)
	d := s.Start()
	s.WaitRunning()
	var version struct {
		Pid       int
		KeeperPid *int `json:"keeper_pid"`
	}
	if err := json.Unmarshal([]byte(s.MustCtl("version", "--json").Out), &version); err != nil {
		t.Fatal(err)
	}
	if version.Pid != d.Pid || version.KeeperPid == nil || *version.KeeperPid != d.KeeperPid {
		t.Errorf("ctl version: %+v, want pid %d, keeper_pid %d", version, d.Pid, d.KeeperPid)
	}
	harness.Until(t, "the keeper takes less than 3 MiB", func() bool { return s.KiB(d.KeeperPid, "smaps_rollup", "Pss") < 3<<10 })
	if fds := s.FDs(s.Status("web").Pid); len(fds) != 3 {
		t.Errorf("descriptors of a program: %v, want three", fds)
	}
	s.MustCtl("shutdown")
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
}

// What keeps superd from coming up is told as it always was, and the keeper does not try again.
func TestKeeperOfFailedStart(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.web]\ncomand = 'x'\n[superd.x]\n")
	s.Write("broken.toml", "[program.web\n")
	for _, args := range [][]string{{}, {"--no-keeper"}} {
		r := s.Run(append([]string{"run", "-c", s.Path("broken.toml")}, args...)...)
		if r.Exit != 2 || r.Out != "" || !strings.Contains(r.ErrOut, "broken.toml:1:") || strings.Contains(r.ErrOut, "keeper") {
			t.Errorf("superd run %v with a broken file: exit status %d, %q", args, r.Exit, r.ErrOut)
		}
	}
}

// Each signal comes to superd once, also when the keeper's process group gets it as from a terminal.
func TestKeeperForwardsOnce(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.deaf]
		command = ["sh", "-c", "trap '' TERM; echo deaf; exec sleep infinity"]
		stop_timeout = "300ms"
		`)
	d := s.Start()
	s.WaitLog("deaf", "deaf\n")
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGQUIT} {
		if err := syscall.Kill(-d.KeeperPid, sig); err != nil {
			t.Fatal(err)
		}
	}
	d.ErrOut.Wait(t, "configuration reloaded")
	d.ErrOut.Wait(t, "log files reopened")
	d.ErrOut.Wait(t, "state of superd")
	if err := syscall.Kill(-d.KeeperPid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	log := d.ErrOut.String()
	for _, text := range []string{"configuration reloaded", "log files reopened", "state of superd", "msg=\"shutting down\""} {
		if n := strings.Count(log, text); n != 1 {
			t.Errorf("%q %d times, want once:\n%s", text, n, log)
		}
	}
	if strings.Contains(log, "at once") {
		t.Errorf("one SIGINT hurried:\n%s", log)
	}
}

// A supervisor that ends in any way that it has not announced is followed by another, and clients notice a pause at most.
func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.later]\ncommand = 'sleep infinity'\nautostart = false\n")
	d := s.Start()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGABRT, syscall.SIGKILL} {
		s.Kill(d.Pid, sig)
		s.WaitState("later", "stopped") // fails when there is no answer
		d.FindSupervisor()
	}
	if words := s.Read("run/crash.txt"); !strings.HasPrefix(words, "SIGABRT") || !strings.Contains(words, "goroutine ") {
		t.Errorf("crash.txt: %q", words)
	}
	d.ErrOut.Wait(t, "superd crashed before")
	d.ErrOut.WaitTimes(t, "superd crashed, it is started again", 3)
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
}

// When the keeper is killed, the supervisor takes its place.
func TestKilledKeeper(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.later]\ncommand = 'sleep infinity'\nautostart = false\n")
	d := s.Start()
	keeper := s.Hold(d.KeeperPid)
	before := d.Pid
	keeper.Kill()
	d.KeeperPid = before
	d.FindSupervisor()
	s.WaitState("later", "stopped")
	if out := s.MustCtl("version", "--json").Out; !strings.Contains(out, fmt.Sprintf(`"pid":%d,"keeper_pid":%d,`, d.Pid, before)) {
		t.Errorf("ctl version: %s, want pid %d, keeper_pid %d", out, d.Pid, before)
	}
	s.MustCtl("shutdown")
	harness.Until(t, "both have ended", func() bool { return len(s.Processes()) == 0 })
}

// While the keeper has no supervisor, nobody else takes its place.
func TestKeeperBetweenSupervisors(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\n")
	d := s.Start()
	web := s.WaitState("web", "running").Pid
	s.Kill(d.KeeperPid, syscall.SIGSTOP)
	supervisor := s.Hold(d.Pid)
	supervisor.Kill()
	harness.Until(t, "the supervisor has ended", func() bool { return !supervisor.Alive() })
	wantMessage(t, s.Run("run", "-c", s.Config), 1, fmt.Sprintf("its keeper (pid %d)", d.KeeperPid), s.RuntimeDir)
	s.Kill(d.KeeperPid, syscall.SIGCONT)
	d.FindSupervisor()
	if st := s.WaitState("web", "running"); st.Pid != web || len(s.Programs()) != 1 {
		t.Errorf("%v, processes %v, want pid %d", st, s.Programs(), web)
	}
}

// A superd in a container and one outside of it may be given the same runtime directory. Neither can look the other's pids up.
func TestRuntimeDirOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[program.quiet]
		command = "sleep infinity"
		`)
	d := s.Start(harness.AsInit(""))
	before := s.WaitState("quiet", "running")
	wantMessage(t, s.Run("run", "-c", s.Config), 1, "in another PID namespace", s.RuntimeDir)
	if st := s.Status("quiet"); st.Pid != before.Pid || st.Restarts != 0 {
		t.Errorf("quiet is %v, want as it was: %v", st, before)
	}
	if text := d.ErrOut.String(); strings.Contains(text, "took over") {
		t.Errorf("the superd there was killed:\n%s", text)
	}
}

// A supervisor that does nothing any more is ended, and its last words are kept. So is one that the machine holds up for so long: then another one is
// stopped, and answers may take several.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.later]\ncommand = 'sleep infinity'\nautostart = false\n")
	d := s.Start(func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--watchdog=200ms") })
	supervisor := s.Hold(d.Pid)
	for !supervisor.Stop(t) {
		d.FindSupervisor()
		supervisor = s.Hold(d.Pid)
	}
	d.Signal(syscall.SIGHUP)
	d.ErrOut.Wait(t, fmt.Sprintf("is started anew\" pid=%d because=", supervisor.Pid))
	d.FindSupervisor()
	harness.Until(t, "another one answers", func() bool { return strings.Contains(s.Ctl("status", "later").Out, "stopped") })
}

// A supervisor that is killed when its shutdown is complete, but for its own end, is not followed by one that starts everything again.
func TestKilledAtTheEnd(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.loud]\ncommand = ['sh', '-c', 'seq 100000; exec sleep infinity']\n")
	mute, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	d := s.Start(func(cmd *exec.Cmd) {
		cmd.Args = append(cmd.Args, "--output=always")
		cmd.Stdout = w // that nobody reads, so that the end takes a while
	})
	w.Close()
	s.WaitLog("loud", "\n100000\n")
	supervisor := s.Hold(d.Pid)
	d.Signal(syscall.SIGTERM)
	harness.Until(t, "the end is on record", func() bool { return strings.Contains(s.Read("run/journal"), `"ended":true`) })
	supervisor.Kill()
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	if n := strings.Count(d.ErrOut.String(), `msg="superd runs"`); n != 1 {
		t.Errorf("%d supervisors, want 1:\n%s", n, d.ErrOut)
	}
}
