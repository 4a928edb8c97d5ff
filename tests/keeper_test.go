package tests

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// TestKeeper: the keeper is as small as promised, and status shows it.
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

// TestKeeperOfFailedStart: the cause of a failed start of superd is printed as without a keeper,
// and the keeper does not retry.
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

// TestKeeperForwardsOnce: each signal reaches superd once, even if a terminal sends it to the
// keeper's whole process group.
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

// TestKilledSupervisor: the keeper replaces a supervisor that ends in any unannounced way, and
// clients see at most a pause.
func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.later]\ncommand = 'sleep infinity'\nautostart = false\n")
	d := s.Start()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGABRT, syscall.SIGKILL} {
		s.Kill(d.Pid, sig)
		d.FindSupervisor()
		s.WaitState("later", "stopped") // fails without an answer
	}
	if crashLog := s.Read("run/crash.txt"); !strings.HasPrefix(crashLog, "SIGABRT") || !strings.Contains(crashLog, "goroutine ") {
		t.Errorf("crash.txt: %q", crashLog)
	}
	d.ErrOut.Wait(t, "superd crashed before")
	d.ErrOut.WaitTimes(t, "superd crashed: it is restarted", 3)
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
}

// TestKilledKeeper: if the keeper is killed, the supervisor replaces it.
func TestKilledKeeper(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.later]\ncommand = 'sleep infinity'\nautostart = false\n")
	d := s.Start()
	keeper := s.Track(d.KeeperPid)
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

// TestKeeperBetweenSupervisors: while the keeper has no supervisor, no other superd gets its
// runtime directory.
func TestKeeperBetweenSupervisors(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\n")
	d := s.Start()
	web := s.WaitState("web", "running").Pid
	s.Kill(d.KeeperPid, syscall.SIGSTOP)
	supervisor := s.Track(d.Pid)
	supervisor.Kill()
	harness.Until(t, "the supervisor has ended", func() bool { return !supervisor.Alive() })
	wantMessage(t, s.Run("run", "-c", s.Config), 1, fmt.Sprintf("its keeper (pid %d)", d.KeeperPid), s.RuntimeDir)
	s.Kill(d.KeeperPid, syscall.SIGCONT)
	d.FindSupervisor()
	if st := s.WaitState("web", "running"); st.Pid != web || len(s.Programs()) != 1 {
		t.Errorf("%v, processes %v, want pid %d", st, s.Programs(), web)
	}
}

// TestRuntimeDirOfAnotherNamespace: a superd in a container and one outside may share a runtime
// directory, though neither can look up the other's pids.
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

// TestWatchdog: the keeper kills a supervisor that hangs, and keeps its crash log. A supervisor
// delayed that long by the machine is killed, too: then others may be, and answers may take
// several.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.later]\ncommand = 'sleep infinity'\nautostart = false\n")
	d := s.Start(func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--watchdog=200ms") })
	supervisor := s.Track(d.Pid)
	for !supervisor.Stop(t) {
		d.FindSupervisor()
		supervisor = s.Track(d.Pid)
	}
	d.Signal(syscall.SIGHUP)
	d.ErrOut.Wait(t, fmt.Sprintf("aborted and restarted\" pid=%d because=", supervisor.Pid))
	d.FindSupervisor()
	harness.Until(t, "another one answers", func() bool { return strings.Contains(s.Ctl("status", "later").Out, "stopped") })
}

// TestKilledAtTheEnd: a supervisor killed when its shutdown is complete, except for its own end, is
// not replaced by one that starts everything again.
func TestKilledAtTheEnd(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.loud]\ncommand = ['sh', '-c', 'seq 100000; exec sleep infinity']\n")
	unread, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	d := s.Start(func(cmd *exec.Cmd) {
		cmd.Args = append(cmd.Args, "--output=always")
		cmd.Stdout = w // it has no reader, so that the end takes a while
	})
	w.Close()
	s.WaitLog("loud", "\n100000\n")
	supervisor := s.Track(d.Pid)
	d.Signal(syscall.SIGTERM)
	harness.Until(t, "the end is on record", func() bool { return strings.Contains(s.Read("run/journal"), `"ended":true`) })
	supervisor.Kill()
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	if n := strings.Count(d.ErrOut.String(), `msg="superd started"`); n != 1 {
		t.Errorf("%d supervisors, want 1:\n%s", n, d.ErrOut)
	}
	for _, dir := range s.Cgroups() { // the kill may have come before it was removed
		if err := os.Remove(dir); err != nil {
			t.Errorf("a cgroup is left, and not empty: %v", err)
		}
	}
}

// wreck makes starts of a supervisor fail: the lock file can't be opened. The function that it
// returns repairs that.
func wreck(s *harness.Site) (repair func()) {
	s.T.Helper()
	s.Move("run/superd.lock", "run/superd.lock.kept")
	s.Mkdir("run/superd.lock")
	return func() {
		s.T.Helper()
		if err := os.Remove(s.Path("run/superd.lock")); err != nil {
			s.T.Fatal(err)
		}
		s.Move("run/superd.lock.kept", "run/superd.lock")
	}
}

// TestStopBetweenSupervisors: a signal that comes while no supervisor can start applies to the
// first one that does.
func TestStopBetweenSupervisors(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "child signals DIR/gate"
		`)
	open := s.Gate("gate")
	d := s.Start()
	s.WaitLog("web", "ready\n")
	repair := wreck(s)
	s.Kill(d.Pid, syscall.SIGKILL)
	d.ErrOut.WaitTimes(t, "is restarted", 2)
	d.Signal(syscall.SIGUSR1)
	d.Signal(syscall.SIGTERM)
	crashes := strings.Count(d.ErrOut.String(), "is restarted")
	// Supervisors that got the signal have ended
	d.ErrOut.WaitTimes(t, "is restarted", crashes+2)
	repair()
	s.WaitLog("web", "got")
	open()
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	if got, want := s.Log("web"), "ready\ngot terminated\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
	d.ErrOut.Wait(t, `msg="shutting down" because=SIGTERM`)
	d.ErrOut.Wait(t, "log files reopened")
}

// TestStopWithoutSupervisor: if no supervisor can start, the keeper itself ends the programs,
// within the ten seconds that docker stop gives: each gets SIGTERM before SIGKILL.
func TestStopWithoutSupervisor(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "trap 'echo > DIR/saved; exit' TERM; echo ready; while :; do sleep 1 & wait; done"]
		[program.deaf]
		command = "child deaf"
		[program.tree]
		command = "child forks 3"
		`)
	d := s.Start()
	s.WaitLog("web", "ready\n")
	s.WaitLog("deaf", "ready")
	s.WaitLog("tree", "ready")
	wreck(s)
	s.Kill(d.Pid, syscall.SIGKILL)
	d.Abandon() // the journal and the cgroups stay for the next superd
	d.ErrOut.WaitTimes(t, "is restarted", 2)
	begun := time.Now()
	d.Signal(syscall.SIGTERM)
	exit := d.Wait()
	// 8 s; the machine may be busy
	if took := time.Since(begun); exit != 1 || took > 20*time.Second {
		t.Errorf("exit status %d after %v, want 1 within ten seconds\n%s", exit, took, d.ErrOut)
	}
	if processes := s.Processes(); len(processes) != 0 {
		t.Errorf("left behind: %v", processes)
	}
	if s.Read("saved") == "" {
		t.Error("web had no time to end by itself")
	}
	d.ErrOut.Wait(t, "the keeper ends them")
}

// TestChildrenFromBefore: a shell with children executes superd. These children and their
// descendants are left alone by a keeper that ends the programs without a supervisor, and by a
// supervisor without cgroups, which scans for hidden processes.
func TestChildrenFromBefore(t *testing.T) {
	t.Parallel()
	const shell = `
		sleep 1000 >/dev/null 2>&1 & echo $! >DIR/job
		sh -c 'sleep 1000 & echo $! >DIR/orphan; read x <DIR/gate' >/dev/null 2>&1 &`
	for name, options := range map[string][]func(*exec.Cmd){
		"keeper": nil, "no keeper": {harness.NoKeeper, harness.NoCgroups},
	} {
		for _, upgrades := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, %d upgrades", name, upgrades), func(t *testing.T) {
				t.Parallel()
				s := harness.NewSite(t, `
					[program.tree]
					command = "child forks 3"
					`)
				open := s.Gate("gate")
				d := s.Start(append(options, harness.Under(strings.ReplaceAll(shell, "DIR", s.Dir)))...)
				s.WaitLog("tree", "ready")
				for range upgrades {
					s.MustCtl("upgrade")
					if d.KeeperPid != 0 {
						d.ErrOut.Wait(t, "the keeper runs the new binary, too")
					}
				}
				superd := cmp.Or(d.KeeperPid, d.Pid)
				var tracked []*harness.Tracked
				for _, file := range []string{"job", "orphan"} {
					harness.Until(t, file+" runs", func() bool { return strings.HasSuffix(s.Read(file), "\n") })
					pid, err := strconv.Atoi(strings.TrimSpace(s.Read(file)))
					if err != nil {
						t.Fatal(err)
					}
					tracked = append(tracked, s.Track(pid))
				}
				open()
				harness.Until(t, "superd has got an orphan", func() bool { return s.Parent(tracked[1].Pid) == superd })
				want := 0
				if d.KeeperPid != 0 {
					want = 1
					wreck(s)
					s.Kill(d.Pid, syscall.SIGKILL)
					d.Abandon()
					d.ErrOut.WaitTimes(t, "is restarted", 2)
				}
				d.Signal(syscall.SIGTERM)
				if exit := d.Wait(); exit != want {
					t.Errorf("exit status %d, want %d\n%s", exit, want, d.ErrOut)
				}
				for i, which := range []string{"the job", "the orphan"} {
					if !tracked[i].Alive() {
						t.Errorf("superd has ended %s\n%s", which, d.ErrOut)
					}
					tracked[i].Kill()
				}
				harness.Until(t, "nothing else is left", func() bool { return len(s.Processes()) == 0 })
			})
		}
	}
}
