package tests

import (
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestCat: cat shows what is in force, with defaults of the file and without secrets, also when the
// file has changed.
func TestCat(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		stop_timeout = "7s"
		[program.web]
		command = ["sleep", "infinity"]
		environment = { TOKEN = "secret" }
		replicas = 2
		[program.db]
		command = "sleep infinity"
		`)
	s.Start()
	s.WaitState("web@2", "running")
	s.Write("superd.toml", "[program.other]\ncommand = 'true'\n")
	r := s.MustCtl("cat", "web", "db")
	for _, want := range []string{
		"superd.toml:", "\n[program.db]\ncommand = [\"sleep\", \"infinity\"]\n", "\n[program.web]\n",
		"environment = { TOKEN = \"***\" }\n", "replicas = 2\n", "stop_timeout = \"7s\"\n",
	} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("cat lacks %q:\n%s", want, r.Out)
		}
	}
	if strings.Contains(r.Out, "secret") || strings.Contains(r.Out, "kill_mode") || strings.Count(r.Out, "[program.web]") != 1 {
		t.Errorf("cat shows too much:\n%s", r.Out)
	}
	// What it shows is a configuration
	s.Write("superd.toml", strings.ReplaceAll(r.Out, "\"***\"", "\"x\""))
	if r := s.Run("check", "superd.toml"); r.Exit != 0 {
		t.Errorf("check of what cat shows: %s", r.ErrOut)
	}
	if r := s.Ctl("cat", "wbe"); r.Exit != 1 || !strings.Contains(r.ErrOut, "web") {
		t.Errorf("cat of a wrong name: %d, %q", r.Exit, r.ErrOut)
	}
}

// TestResetFailed: a failed program becomes stopped and its counters 0; one that runs runs on.
func TestResetFailed(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.bad]
		command = "false"
		backoff = { initial = "1ms", max = "1ms" }
		start_limit = { failures = 3, retry_after = "0s" }
		[program.web]
		command = "sleep infinity"
		`)
	s.Start()
	s.WaitState("bad", "failed")
	pid := s.WaitState("web", "running").Pid
	s.MustCtl("reset-failed", "*")
	if st := s.Status("bad"); st.State != "stopped" || st.Restarts != 0 {
		t.Errorf("after reset-failed: %v", st)
	}
	if st := s.Status("web"); st.State != "running" || st.Pid != pid {
		t.Errorf("after reset-failed: %v", st)
	}
	s.Ctl("start", "bad") // it may fail as often as before
	if st := s.WaitState("bad", "failed"); st.Restarts != 2 {
		t.Errorf("after another start: %v", st)
	}
}
