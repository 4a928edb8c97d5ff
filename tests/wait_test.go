package tests

import (
	"os/exec"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestWait: wait returns when all named programs meet the condition, and fails when one can't, or
// when its time is over.
func TestWait(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.db]
		command = ["sh", "-c", "read x < gate; echo up; exec sleep infinity"]
		ready = { line = "up" }
		[program.web]
		command = "sleep infinity"
		[program.job]
		command = ["sh", "-c", "read x < job-gate; exit 3"]
		restart = "on-failure"
		backoff = { initial = "1ms", max = "1ms" }
		[program.bad]
		command = "/does/not/exist"
		start_limit = { failures = 1, retry_after = "0s" }
		`)
	open, end := s.Gate("gate"), s.Gate("job-gate")
	s.Start()
	s.WaitState("job", "running")
	s.WaitState("web", "running")
	s.WaitState("bad", "failed")
	for _, tt := range []struct {
		args   []string
		exit   int
		errOut string
	}{
		{[]string{"web"}, 0, ""},
		{[]string{"web", "bad"}, 1, "bad has failed: "},
		{[]string{"bad", "--for", "failed"}, 0, ""},
		{[]string{"bad", "--for", "stopped"}, 0, ""},
		{[]string{"web", "db", "--timeout", "1s"}, 1, "not within 1s: db is starting"},
		{[]string{"web", "--for", "healthy", "--timeout", "1s"}, 1, "web is running"},
		{[]string{"none"}, 1, `"none"`},
		{[]string{"web", "--for", "stoped"}, 2, `did you mean "stopped"?`},
		{[]string{"web", "--for", "xyz"}, 2, "ready, healthy, stopped, exited or failed"},
		{nil, 2, "missing NAME"},
	} {
		r := s.Ctl(append([]string{"wait"}, tt.args...)...)
		if r.Exit != tt.exit || !strings.Contains(r.ErrOut, tt.errOut) || tt.errOut == "" && r.ErrOut != "" {
			t.Errorf("wait %q: exit status %d, %q, want %d, %q", tt.args, r.Exit, r.ErrOut, tt.exit, tt.errOut)
		}
	}
	ready := waiting(t, s, "db", "web")
	exited := waiting(t, s, "job", "--for", "exited")
	open()
	if err := ready.Wait(); err != nil {
		t.Errorf("wait for a program that becomes ready: %v", err)
	}
	end()
	if err := exited.Wait(); err != nil {
		t.Errorf("wait for the end of a run: %v", err)
	}
	stopped := waiting(t, s, "web", "--for", "stopped")
	s.MustCtl("stop", "web")
	if err := stopped.Wait(); err != nil {
		t.Errorf("wait for a stop: %v", err)
	}
}

// TestWaitForSuperd: wait also waits for a superd that does not answer yet, but not for longer than
// its time-out.
func TestWaitForSuperd(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		`)
	if r := s.Ctl("wait", "web", "--timeout", "200ms"); r.Exit != 4 || !strings.Contains(r.ErrOut, "not within 200ms: no superd answers on ") {
		t.Errorf("no superd runs: exit status %d, %q", r.Exit, r.ErrOut)
	}
	ready, never := waiting(t, s, "web"), waiting(t, s, "nobody")
	s.Start()
	if err := ready.Wait(); err != nil {
		t.Errorf("superd has started: %v", err)
	}
	if err := never.Wait(); err == nil || never.ProcessState.ExitCode() != 1 {
		t.Errorf("there is no such program: %v", err)
	}
}

// waiting starts superd ctl wait.
func waiting(t *testing.T, s *harness.Site, args ...string) *exec.Cmd {
	t.Helper()
	cmd := s.Command(append([]string{"ctl", "--runtime-dir", s.RuntimeDir, "wait"}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestDiff: diff shows what a reload would change, changes nothing, and its exit status says
// whether there is a difference.
func TestDiff(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		environment = { TOKEN = "abc" }
		[program.db]
		command = "sleep infinity"
		`)
	s.Start()
	pid := s.WaitState("web", "running").Pid
	if r := s.Ctl("diff"); r.Exit != 0 || r.Out != "" {
		t.Errorf("diff without a difference: exit status %d, %q", r.Exit, r.Out)
	}
	s.Configure(`
		[program.web]
		command = "sleep 1000"
		environment = { TOKEN = "def" }
		stop_timeout = "3s"
		[program.db]
		command = "sleep infinity"
		[program.new]
		command = "true"
		`)
	const web = "[program.web] restart needed\n" +
		"- command = [\"sleep\", \"infinity\"]\n+ command = [\"sleep\", \"1000\"]\n" +
		"~ environment.TOKEN changed\n- stop_timeout = \"10s\"\n+ stop_timeout = \"3s\"\n"
	for _, tt := range []struct {
		args        []string
		exit        int
		out, errOut string
	}{
		{[]string{"diff"}, 1, "[program.new] added\n" + web, ""},
		{[]string{"diff", "web"}, 1, web, ""},
		{[]string{"diff", "db"}, 0, "", ""},
		{[]string{"diff", "none"}, 1, "", "superd: compare configuration: no program is named \"none\"\n"},
	} {
		if r := s.Ctl(tt.args...); r.Exit != tt.exit || r.Out != tt.out || r.ErrOut != tt.errOut {
			t.Errorf("%q: exit status %d, %q, %q, want %d, %q, %q", tt.args, r.Exit, r.Out, r.ErrOut, tt.exit, tt.out, tt.errOut)
		}
	}
	if r := s.Ctl("diff", "--json", "web"); r.Exit != 1 || !strings.Contains(r.Out, `"changed":["web"]`) || strings.Contains(r.Out, `["new"]`) {
		t.Errorf("diff --json: exit status %d, %s", r.Exit, r.Out)
	}
	if st := s.Status("web"); st.Pid != pid {
		t.Errorf("diff has restarted the program: %v", st)
	}
	s.Write("superd.toml", "[program.web]\ncomand = 'x'\n")
	if r := s.Ctl("diff"); r.Exit != 2 || !strings.Contains(r.ErrOut, "comand") {
		t.Errorf("diff with a mistake: exit status %d, %q", r.Exit, r.ErrOut)
	}
}
