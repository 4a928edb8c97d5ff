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

// superd is killed, and the next one goes on: with the same processes, in the same states, with the same counters, and no line lost or doubled.
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
		if left, was := *s.Status("waiting").NextStartInS, *before["waiting"].NextStartInS; left >= was {
			t.Errorf("waiting is to be started in %v s, before the kill it was in %v s", left, was)
		}
		s.WaitStatus("gone", "runs again", func(st harness.Status) bool { return st.State == "running" && st.Pid != before["gone"].Pid })
		if st := s.Status("gone"); st.Restarts != 1 {
			t.Errorf("%v, want one restart", st)
		}
		// How it ended is told by its parent, whoever that is now, in time or not.
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

// wantLines checks that the log of a program has each of its numbered lines once, in order. The last one may be cut off.
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

// A damaged journal costs what it said, and nothing is started twice for it.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	whole := func(text string) string { return text }
	tests := []struct {
		name   string
		damage func(journal string) string
		says   string // superd's log, of what it passes over
		held   bool   // web is not started beside the process of before, of which nothing is known
	}{
		{"whole", whole, "took over", false},
		{"gone", func(string) string { return "" }, "not known what they are", true},
		{"garbage", func(string) string { return strings.Repeat("\x00garbage\n", 100) }, "passed over", true},
		{"its last line cut off", func(text string) string { return text + `12345678 {"k":"inst` }, "passed over", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\nbackoff.initial = '1ms'\n")
			d := s.Start()
			pid := s.WaitState("web", "running").Pid
			s.MustCtl("start", "web") // it runs; when the answer comes, all that was queued is written
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
			d.ErrOut.Wait(t, tt.says)
			st := s.Status("web")
			if !harness.Alive(pid) || tt.held != (st.Pid == 0) || !tt.held && st.Pid != pid {
				t.Errorf("%v, want process %d, alive: %v", st, pid, harness.Alive(pid))
			}
			if !tt.held {
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

// What has become of the log directory keeps no superd from taking over.
func TestAdoptWithoutLogDirectory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		spoil  func(s *harness.Site)
		warned string
	}{
		{"something else is there", func(s *harness.Site) { s.Write("log", "") }, "logs can't be written"},
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
