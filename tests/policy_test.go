package tests

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// TestExitPolicies: superd ends by the exit policy of its programs, and with their status.
func TestExitPolicies(t *testing.T) {
	t.Parallel()
	const quiet = "[program.quiet]\ncommand = 'sleep infinity'\n"
	essential := func(command, more string) string {
		return quiet + fmt.Sprintf("[program.main]\nessential = true\ncommand = ['sh', '-c', '%s']\n%s\n", command, more)
	}
	exitWhen := func(when string) string { return "exit_when = '" + when + "'\n[defaults]\nrestart = 'never'\n" }
	tests := []struct {
		name, config string
		exit         int
	}{
		{"essential ends well", essential("exit 0", "restart = 'on-failure'"), 0},
		{"essential fails", essential("exit 7", "restart = 'never'"), 7},
		{"essential is killed", essential("kill -KILL $$$$", "restart = 'never'"), 128 + 9},
		{"essential is terminated", essential("kill -TERM $$$$", "restart = 'never'"), 128 + 15},
		{"essential reaches its limit", essential("exit 3", "backoff.initial = '1ms'\nstart_limit = { failures = 3, retry_after = '0s' }"), 3},
		{"essential can't start", quiet + "[program.main]\nessential = true\ncommand = 'DIR/none'\nrestart = 'never'\n", 1},
		{"essential one-shot", essential("exit 5", "type = 'oneshot'"), 5},
		{"all exited", exitWhen("all-exited") + "[program.a]\ncommand = 'true'\n[program.b]\ncommand = 'sleep 0.1'\n", 0},
		{"all exited, first failure", exitWhen("all-exited") + "[program.a]\ncommand = ['sh', '-c', 'exit 4']\n[program.b]\ncommand = ['sh', '-c', 'sleep 0.2; exit 6']\n", 4},
		{"all exited, and one waits for it", exitWhen("all-exited") + "[program.a]\ncommand = ['sh', '-c', 'exit 4']\n[program.b]\nrequires = ['a']\ncommand = 'true'\n", 4},
		{"all exited, not the manual one", exitWhen("all-exited") + "[program.a]\ncommand = 'true'\n[program.b]\ncommand = 'sleep infinity'\nautostart = false\n", 0},
		{"any failed", exitWhen("any-failed") + quiet + "[program.good]\ncommand = 'true'\n[program.bad]\ncommand = ['sh', '-c', 'sleep 0.1; exit 9']\n", 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, tt.config)
			d := s.Launch()
			if exit := d.Wait(); exit != tt.exit {
				t.Errorf("exit status %d, want %d\n%s", exit, tt.exit, d.ErrOut)
			}
			if processes := s.Processes(); len(processes) != 0 {
				t.Errorf("left behind: %v", processes)
			}
		})
	}
}

// TestNoExit: superd does not end without a matching policy.
func TestNoExit(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `exit_when = "any-failed"
		[defaults]
		backoff = { initial = "1ms", max = "1ms" }
		[program.essential]
		command = "false"
		essential = true
		[program.held]
		command = "sleep infinity"
		essential = true
		[program.done]
		command = "true"
		restart = "never"
		`)
	s.Start()
	s.WaitStatus("essential", "is restarted", func(st harness.Status) bool { return st.Restarts >= 3 })
	s.WaitState("done", "exited")
	s.MustCtl("stop", "held")
	s.MustCtl("start", "held") // a superd that is shutting down refuses it
}

// TestAllExitedByTheOperator: a stop and a removal count as exits, too.
func TestAllExitedByTheOperator(t *testing.T) {
	t.Parallel()
	const config = `exit_when = "all-exited"
		[program.job]
		command = ["sh", "-c", "exit 4"]
		restart = "never"
		`
	const web = "[program.web]\ncommand = 'sleep infinity'\n"
	for name, end := range map[string]func(s *harness.Site){
		"stop": func(s *harness.Site) { s.Ctl("stop", "--no-wait", "web") },
		"removal": func(s *harness.Site) {
			s.Configure(config)
			s.Ctl("reload")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, config+web)
			d := s.Start()
			s.WaitState("job", "failed")
			s.WaitState("web", "running")
			s.MustCtl("restart", "web")
			end(s)
			if exit := d.Wait(); exit != 4 {
				t.Errorf("exit status %d, want that of the program that failed, 4\n%s", exit, d.ErrOut)
			}
		})
	}
}

// TestInit: as PID 1 superd reaps orphans, ends at SIGTERM and returns the status.
func TestInit(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const orphans = `
		[program.orphans]
		command = ["sh", "-c", "for i in 1 2 3 4 5; do (setsid sleep 0.0$i &); done; echo left; exec sleep infinity"]
		[program.gate]
		command = ["sh", "-c", "read line < DIR/gate; exit 42"]
		restart = "never"
		essential = true
		`
	t.Run("SIGTERM", func(t *testing.T) {
		t.Parallel()
		s := harness.NewSite(t, orphans)
		s.Gate("gate")
		d := s.Start(harness.AsInit(""))
		// superd has threads, too
		if st := s.WaitState("orphans", "running"); st.Pid == 0 || st.Pid > 400 {
			t.Errorf("%v: want a pid of a namespace of its own", st)
		}
		s.WaitLog("orphans", "left\n")
		harness.Until(t, "all orphans have ended and are reaped", func() bool {
			return len(s.Zombies(d.Pid)) == 0 && len(s.Programs()) == 2
		})
		d.Signal(syscall.SIGTERM)
		if exit := d.Wait(); exit != 0 {
			t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
		}
	})
	t.Run("essential", func(t *testing.T) {
		t.Parallel()
		s := harness.NewSite(t, orphans)
		open := s.Gate("gate")
		d := s.Start(harness.AsInit(""))
		s.WaitState("gate", "running")
		open()
		if exit := d.Wait(); exit != 42 {
			t.Errorf("exit status %d, want 42\n%s", exit, d.ErrOut)
		}
	})
}

// TestRetryAfterStartLimit: after the start limit, a program is retried slowly until a run
// succeeds.
func TestRetryAfterStartLimit(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "DIR/web"
		backoff = { initial = "1ms", max = "1ms", reset_after = "10ms" }
		start_limit = { failures = 3, within = "1h", retry_after = "200ms" }
		`)
	s.Write("web", "#!/bin/sh\necho run\nexit 1\n")
	s.Start()
	st := s.WaitState("web", "failed")
	if st.NextStartInS == nil || *st.NextStartInS > 0.2 || !strings.Contains(st.Reason, "start limit hit: 3 failures") {
		t.Errorf("limit reached: %v, want the next start within 0.2 s and the reason", st)
	}
	runs := 0
	for _, e := range events(s, 0) {
		if e.Kind == "exit" {
			runs++
		}
		if e.Kind == "state" && e.State == "failed" {
			break
		}
	}
	if runs != 3 {
		t.Errorf("limit reached after %d runs, want 3", runs)
	}
	s.WaitLog("web", strings.Repeat("run\n", 5)) // two slow retries
	s.Write("web", "#!/bin/sh\nexec sleep infinity\n")
	s.WaitState("web", "running")
}
