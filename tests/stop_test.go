package tests

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

func TestKilledAtStopTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	s := harness.NewSite(t, fmt.Sprintf(`
		[program.deaf]
		command = "child deaf"
		stop_timeout = "%v"
		`, timeout))
	s.Start()
	s.WaitLog("deaf", "ready")

	start := time.Now()
	s.MustCtl("stop", "deaf")
	took := time.Since(start)
	if took < timeout || took > timeout+2*time.Second {
		t.Errorf("stop of a program that ignores SIGTERM took %v, want %v", took, timeout)
	}
	if st := s.Status("deaf"); st.State != "stopped" || st.Exit.String() != "SIGKILL" {
		t.Errorf("after the stop: %v, want stopped, exit SIGKILL", st)
	}
}

// TestFinalKill: a program with final_kill = false outlives stop_timeout, and says so. One with a
// kill_signal ends by that.
func TestFinalKill(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		command = "child deaf"
		stop_timeout = "100ms"
		[program.spared]
		final_kill = false
		[program.abort]
		command = ["sh", "-c", "trap '' TERM; echo ready; exec sleep infinity"]
		kill_signal = "SIGABRT"
		limits.core = 0
		`)
	s.Start()
	s.WaitLog("spared", "ready")
	s.WaitLog("abort", "ready")
	s.MustCtl("stop", "abort")
	if st := s.Status("abort"); st.Exit.String() != "SIGABRT" {
		t.Errorf("after the stop with kill_signal: %v, want exit SIGABRT", st)
	}
	s.MustCtl("stop", "--no-wait", "spared")
	st := s.WaitStatus("spared", "is overdue", func(st harness.Status) bool {
		return strings.Contains(st.Reason, "final_kill = false")
	})
	if st.State != "stopping" || st.Pid == 0 {
		t.Errorf("after stop_timeout: %v, want stopping, with a process", st)
	}
	s.MustCtl("signal", "KILL", "spared")
	s.WaitState("spared", "stopped")
}

func TestStoppedProcessHandlesStopSignal(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "child signals DIR/gate"
		stop_signal = "USR1"
		`)
	open := s.Gate("gate")
	s.Start()
	s.WaitLog("web", "ready")
	s.MustCtl("signal", "STOP", "web")
	s.MustCtl("stop", "--no-wait", "web")
	s.WaitLog("web", "got user defined signal 1\n")
	open()
	if st := s.WaitState("web", "stopped"); st.Exit.String() != "0" {
		t.Errorf("after the stop: %v, want exit 0", st)
	}
}

func TestStopReachesProcessGroup(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.tree]
		command = "child forks 5"
		`)
	s.Start()
	s.WaitLog("tree", "ready")
	s.MustCtl("stop", "tree")
	if programs := s.Programs(); len(programs) != 0 {
		t.Errorf("after the stop: %v, want none", programs)
	}
}

// TestRestTornDownBeforeRestart: a process of the group that outlives the main process is gone
// before the next start.
func TestRestTornDownBeforeRestart(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.tree]
		command = "child forks 5"
		`)
	s.Start()
	s.WaitLog("tree", "ready")
	s.Kill(s.Status("tree").Pid, syscall.SIGKILL)
	s.WaitLog("tree", "ready\nready\n")
	if n := len(s.Programs()); n != 6 { // the main process, its five
		t.Errorf("after the restart: %d processes %v, want 6", n, s.Programs())
	}
}

func TestStopDuringBackoff(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		command = ["sh", "-c", "echo run; exit 1"]
		backoff = { initial = "300ms", factor = 1.0, jitter = 0.0 }
		[program.crash]
		[program.clock]
		`)
	s.Start()
	s.WaitState("crash", "backoff")
	s.MustCtl("stop", "crash")
	st := s.Status("crash")
	if st.State != "stopped" || st.NextStartInS != nil {
		t.Errorf("stop during back-off: %v, want stopped, no next start", st)
	}
	runs := strings.Count(s.Log("crash"), "run")
	// The clock's delays are as long as the one that was cancelled.
	ticks := s.Status("clock").Restarts
	s.WaitStatus("clock", "has restarted three times more", func(st harness.Status) bool { return st.Restarts >= ticks+3 })
	if n := strings.Count(s.Log("crash"), "run"); n != runs || s.Status("crash").State != "stopped" {
		t.Errorf("after the back-off's end: %d runs, %v, want %d runs, stopped", n, s.Status("crash"), runs)
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	kills := map[string]func(d *harness.Superd){
		"SIGTERM":  func(d *harness.Superd) { d.Signal(syscall.SIGTERM) },
		"SIGINT":   func(d *harness.Superd) { d.Signal(syscall.SIGINT) },
		"shutdown": func(d *harness.Superd) { d.MustCtl("shutdown") },
	}
	for name, shutdown := range kills {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, `
				[program.quiet]
				command = "sleep infinity"
				[program.tree]
				command = "child forks 3"
				[program.deaf]
				command = "child deaf"
				stop_timeout = "200ms"
				[program.noisy]
				command = "child flood"
				log = { max_size = "1MB", keep = 1 }
				[program.crash]
				command = "false"
				[program.stopped]
				command = ["sh", "-c", "kill -STOP $$$$"]
				`)
			d := s.Start()
			s.WaitLog("tree", "ready")
			s.WaitLog("deaf", "ready")
			s.WaitLog("noisy", "\n")
			shutdown(d)
			if exit := d.Wait(); exit != 0 {
				t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
			}
			if programs := s.Processes(); len(programs) != 0 {
				t.Errorf("left behind: %v", programs)
			}
			if r := s.Ctl("status"); r.Exit != 4 {
				t.Errorf("ctl status after the end: exit status %d, want 4\n%s%s", r.Exit, r.Out, r.ErrOut)
			}
		})
	}
}

// TestSecondSignalKills: a second signal, a second or more after the first, kills what has not
// ended, and names it.
func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.deaf]
		command = "child deaf"
		stop_timeout = "1h"
		`)
	d := s.Start()
	s.WaitLog("deaf", "ready")
	d.Signal(syscall.SIGTERM)
	s.WaitState("deaf", "stopping")
	if exit := d.Insist(syscall.SIGTERM); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	d.ErrOut.Wait(t, `because=SIGTERM killed_early=deaf`)
}

// TestTwoSignalsAtOnce: timeout(1) signals superd and its process group, so that two signals come
// at once. They are one request, and programs get their stop time-out.
func TestTwoSignalsAtOnce(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "child signals DIR/gate"
		stop_timeout = "1h"
		`)
	open := s.Gate("gate")
	d := s.Start()
	s.WaitLog("web", "ready\n")
	d.Signal(syscall.SIGTERM)
	d.Signal(syscall.SIGINT)
	d.ErrOut.Wait(t, "too soon after the first")
	s.WaitLog("web", "got")
	open()
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	if got, want := s.Log("web"), "ready\ngot terminated\n"; got != want {
		t.Errorf("log %q, want %q\n%s", got, want, d.ErrOut)
	}
}

// TestCommandsInAnyOrder: every command is legal in every state; the last one counts.
func TestCommandsInAnyOrder(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		backoff = { initial = "1ms" }
		[program.web]
		command = "sleep infinity"
		[program.crash]
		command = "false"
		`)
	s.Start()
	for range 10 {
		for _, command := range []string{"restart", "stop", "start", "start", "stop", "stop", "restart"} {
			s.MustCtl(command, "--no-wait", "*")
		}
	}
	s.WaitState("web", "running")
	s.MustCtl("stop", "*")
	s.WaitAll("stopped", func(st harness.Status) bool { return st.State == "stopped" && st.Pid == 0 })
	if programs := s.Programs(); len(programs) != 0 {
		t.Errorf("after the stop: %v, want none", programs)
	}
}

// TestKilledInAShutdown kills superd during a shutdown. The next one that the keeper starts
// continues the shutdown; one that is started by hand starts the programs afresh.
func TestKilledInAShutdown(t *testing.T) {
	t.Parallel()
	for _, byHand := range []bool{false, true} {
		t.Run(map[bool]string{false: "by the keeper", true: "by hand"}[byHand], func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, `
				[program.quick]
				command = ["sh", "-c", "echo up; exec sleep infinity"]
				[program.deaf]
				command = "child deaf"
				stop_timeout = "1h"
				`)
			d := s.Start()
			s.WaitLog("quick", "up\n")
			s.WaitLog("deaf", "ready")
			d.Signal(syscall.SIGTERM)
			atRest := regexp.MustCompile(`"instance/quick","v":{"config":1,"state":"stopped"`)
			harness.Until(t, "one is at rest, which is on record, and its FIFO is gone", func() bool {
				_, err := os.Lstat(s.Path("run/fifo/quick"))
				return errors.Is(err, os.ErrNotExist) && atRest.MatchString(s.Read("run/journal"))
			})
			if _, err := os.Lstat(s.Path("run/fifo/deaf")); err != nil {
				t.Errorf("the FIFO of one that lives: %v", err)
			}
			if byHand {
				d.Kill()
				d = s.Start()
				s.WaitLog("quick", "up\nup\n")
				d.Signal(syscall.SIGTERM)
			} else {
				s.Track(d.Pid).Kill()
				d.FindSupervisor()
				s.WaitState("deaf", "stopping")
				s.WaitState("quick", "stopped")
			}
			d.ErrOut.Wait(t, "shutting down")
			if exit := d.Insist(syscall.SIGTERM); exit != 0 { // does not wait for deaf
				t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
			}
			if strings.Contains(d.ErrOut.String(), "output not captured") {
				t.Errorf("a FIFO was missed:\n%s", d.ErrOut)
			}
			if programs := s.Processes(); len(programs) != 0 {
				t.Errorf("left behind: %v", programs)
			}
		})
	}
}
