package tests

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

func TestSecondSuperdRefuses(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		`)
	d := s.Start()
	before := s.WaitState("web", "running")
	r := s.Run("run", "-c", s.Config)
	wantMessage(t, r, 1, fmt.Sprint(d.Pid), s.RuntimeDir)
	after := s.Status("web")
	if after.Pid != before.Pid || after.Restarts != 0 || len(s.Programs()) != 1 {
		t.Errorf("after the second start: %v, processes %v, want the first untouched, pid %d", after, s.Programs(), before.Pid)
	}
}

func TestStaleRuntimeDirectory(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo hello; exec sleep infinity"]
		`)
	d := s.Start()
	s.WaitLog("web", "hello\n")
	fifos := s.Files("run/fifo/*")
	pid := s.Status("web").Pid
	d.Kill()
	s.Kill(pid, syscall.SIGKILL)
	harness.Until(t, "the program is gone", func() bool { return !harness.Alive(pid) })
	if _, err := os.Stat(s.Socket()); err != nil {
		t.Fatalf("a killed superd left no socket: %v", err)
	}
	// An ordinary file in the place of a FIFO is worse than a stale FIFO.
	for _, fifo := range fifos {
		if err := os.Remove(s.Path(fifo)); err != nil {
			t.Fatal(err)
		}
		s.Write(fifo, "not a FIFO\n")
	}
	s.Start()
	s.WaitLog("web", "hello\nhello\n")
}

func TestKilledWhileStarting(t *testing.T) {
	t.Parallel()
	var programs strings.Builder
	for i := range 50 {
		fmt.Fprintf(&programs, "[program.p%02d]\ncommand = 'true'\nbackoff = { initial = '1ms', max = '1ms' }\n", i)
	}
	s := harness.NewSite(t, programs.String())
	for range 5 {
		d := s.Start()
		s.WaitStatus("p00", "is restarted", func(st harness.Status) bool { return st.Restarts > 0 })
		d.Kill()
		// true(1) ends by itself, and so does a child before its exec of it.
		harness.Until(t, "nothing of it runs", func() bool { return len(s.Processes()) == 0 })
	}
	s.Start()
}

// TestAbortIsCrash: systemd's watchdog ends a hung superd with SIGABRT. That must look like a
// crash, and not like Go's exit status 2, which means a wrong configuration and is not retried.
func TestAbortIsCrash(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\n")
	d := s.Start(harness.NoKeeper)
	s.WaitRunning()
	d.Signal(syscall.SIGABRT)
	if exit := d.Wait(); exit != -1 {
		t.Errorf("exit status %d after SIGABRT, want an end by the signal", exit)
	}
	d.ErrOut.Wait(t, "goroutine ")
}
