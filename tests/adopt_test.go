package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// TestKilledSuperdIsTakenOver kills superd: the next one continues with the same processes, states
// and counters, and no line is lost or repeated.
func TestKilledSuperdIsTakenOver(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, `
			[program.web]
			command = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo line $i; done"]
			log = { max_size = "1MB", keep = 1000 }
			[program.held]
			command = "sleep infinity"
			[program.stopped]
			command = "sleep infinity"
			[program.done]
			command = ["sh", "-c", "echo done; exit 0"]
			type = "oneshot"
			[program.crashing]
			command = "false"
			backoff = { initial = "200ms", factor = 1.0 }
			[program.waiting]
			command = "false"
			backoff = { initial = "100s", max = "100s" }
			[program.gone]
			command = "sleep infinity"
			backoff = { initial = "1ms" }
			[program.deaf]
			command = "child deaf"
			stop_timeout = "2s"
			`)
		d := s.Start(options...)
		before := map[string]harness.Status{}
		for name, state := range map[string]string{"web": "running", "held": "running", "stopped": "running", "done": "exited", "waiting": "backoff",
			"gone": "running", "deaf": "running"} {
			before[name] = s.WaitState(name, state)
		}
		s.WaitStatus("crashing", "is restarted", func(st harness.Status) bool { return st.Restarts > 1 })
		s.MustCtl("stop", "stopped")
		s.WaitLog("deaf", "ready")
		s.MustCtl("stop", "deaf", "--no-wait")
		before["stopped"] = s.Status("stopped")
		crashes := s.Status("crashing").Restarts
		d.Kill()
		s.Kill(before["gone"].Pid, syscall.SIGKILL)

		s.Start(options...)
		for name, was := range before {
			if name == "gone" || name == "deaf" {
				continue
			}
			is := s.Status(name)
			if is.State != was.State || is.Pid != was.Pid || is.Restarts != was.Restarts || is.Exit.String() != was.Exit.String() ||
				is.Since.Sub(*was.Since).Abs() > 100*time.Millisecond {
				t.Errorf("after the kill: %v since %v\nbefore: %v since %v", is, is.Since, was, was.Since)
			}
		}
		if remaining, was := *s.Status("waiting").NextStartInS, *before["waiting"].NextStartInS; remaining >= was {
			t.Errorf("waiting is to be started in %v s, before the kill it was in %v s", remaining, was)
		}
		s.WaitStatus("gone", "runs again", func(st harness.Status) bool { return st.State == "running" && st.Pid != before["gone"].Pid })
		if st := s.Status("gone"); st.Restarts != 1 {
			t.Errorf("%v, want one restart", st)
		}
		// Its parent of that time reports how it ended, in time or not.
		if st := s.WaitState("deaf", "stopped"); !strings.Contains(st.Reason, "killed after stop_timeout 2s") {
			t.Errorf("%v, want it killed at the end of its stop time-out", st)
		}
		s.WaitStatus("crashing", "goes on", func(st harness.Status) bool { return st.Restarts >= crashes })
		if why := s.MustCtl("why", "stopped").Out; !strings.Contains(why, "wanted down by the operator") {
			t.Errorf("why: %s", why)
		}
		s.MustCtl("stop", "web")
		wantLines(t, s, "web")
		s.MustCtl("restart", "held")
		if st := s.WaitState("held", "running"); st.Pid == before["held"].Pid || harness.Alive(before["held"].Pid) {
			t.Errorf("%v, want a new process in the place of %d", st, before["held"].Pid)
		}
		s.MustCtl("shutdown")
	})
}

// wantLines checks that the log of a program has each of its numbered lines once, in order. The
// last one may be cut off.
func wantLines(t *testing.T, s *harness.Site, name string) {
	t.Helper()
	n := 0
	for line := range strings.Lines(s.MustCtl("logs", "-n", "all", name).Out) {
		if n++; line != fmt.Sprintf("line %d\n", n) && strings.HasSuffix(line, "\n") {
			t.Fatalf("line %d of %s is %q", n, name, line)
		}
	}
	if n < 1000 {
		t.Errorf("%d lines of %s, want more", n, name)
	}
}

// TestDamagedJournal: a damaged journal loses the damaged records only, and no program is started
// twice. Whether a process is web's main process or its hook may stay unknown.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	unchanged := func(text string) string { return text }
	tests := []struct {
		name        string
		damage      func(journal string) string
		message     string // superd's log about what it skips
		quarantined bool   // whether web is quarantined because of a process of unknown origin
	}{
		{"whole", unchanged, "took over", false},
		{"gone", func(string) string { return "" }, "unidentified processes", true},
		{"garbage", func(string) string { return strings.Repeat("\x00garbage\n", 100) }, "lines of the journal skipped", true},
		{"a line that was being written", func(text string) string { return text + `12345678 {"k":"inst` }, "took over", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\npre_start = [['true']]\nbackoff.initial = '1ms'\n")
			d := s.Start()
			pid := s.WaitState("web", "running").Pid
			// It runs already; the answer comes when all queued records are written
			s.MustCtl("start", "web")
			d.Kill()
			path := filepath.Join(s.RuntimeDir, "journal")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(tt.damage(string(text))), 0o600); err != nil {
				t.Fatal(err)
			}
			d = s.Start()
			d.ErrOut.Wait(t, tt.message)
			st := s.Status("web")
			if !harness.Alive(pid) || tt.quarantined != (st.Pid == 0) || !tt.quarantined && st.Pid != pid {
				t.Errorf("%v, want process %d, alive: %v", st, pid, harness.Alive(pid))
			}
			if !tt.quarantined {
				return
			}
			if !strings.Contains(st.Reason, fmt.Sprint(pid)) {
				t.Errorf("reason %q, want process %d named", st.Reason, pid)
			}
			if r := s.Ctl("start", "web"); r.Exit != 1 {
				t.Errorf("start beside it: %v", r)
			}
			s.MustCtl("stop", "web")
			if harness.Alive(pid) {
				t.Errorf("process %d lives after the operator's stop", pid)
			}
			s.MustCtl("start", "web")
			s.WaitState("web", "running")
		})
	}
}

// TestAdoptWithoutLogDirectory: superd recovers whatever happened to the log directory.
func TestAdoptWithoutLogDirectory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		spoil  func(s *harness.Site)
		warned string
	}{
		{"something else is there", func(s *harness.Site) { s.Write("log", "") }, "log directory not prepared"},
		{"its file system hangs", func(s *harness.Site) { s.Link("log", s.HungMount("hung")+"/log") }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, "[program.web]\ncommand = ['sh', '-c', 'echo ready; exec sleep infinity']\n")
			d := s.Start()
			s.WaitLog("web", "ready\n")
			pid := s.Status("web").Pid
			s.Move("log", "log.moved")
			tt.spoil(s)
			s.Kill(d.Pid, syscall.SIGKILL)
			d.FindSupervisor()
			if st := s.WaitState("web", "running"); st.Pid != pid {
				t.Errorf("%v, want pid %d", st, pid)
			}
			if tt.warned != "" {
				d.ErrOut.Wait(t, tt.warned)
			}
		})
	}
}
