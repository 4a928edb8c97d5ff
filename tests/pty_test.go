package tests

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"superd/tests/harness"
)

// attachIn attaches to the terminal of a program, in a terminal of its own.
func attachIn(t *testing.T, s *harness.Site, columns, rows int, args ...string) (*harness.Terminal, *exec.Cmd) {
	t.Helper()
	terminal := harness.NewTerminal(t, columns, rows)
	cmd := terminal.Command(s, append([]string{"ctl", "--runtime-dir", s.RuntimeDir, "attach"}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return terminal, cmd
}

// wantExit waits for the end of attach: its status, and a terminal that echoes again.
func wantExit(t *testing.T, terminal *harness.Terminal, cmd *exec.Cmd, want int, text string) {
	t.Helper()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != want || !terminal.Echoes() {
		t.Errorf("exit status %d, want %d; the terminal echoes: %v\n%s", got, want, terminal.Echoes(), terminal.Screen)
	}
	terminal.Screen.Wait(t, text)
}

// TestPTY: a program with pty = true has a terminal, and a session with that as controlling one.
func TestPTY(t *testing.T) {
	t.Parallel()
	const shows = `test -t 0 && test -t 1 && test -t 2 && echo is a terminal; stty size; ` +
		`echo kind $TERM > /dev/tty; echo end; exec sleep infinity`
	s := harness.NewSite(t, fmt.Sprintf(`
		[program.text]
		command = ["sh", "-c", %q]
		pty = true
		log = { format = "text" }
		[program.raw]
		command = ["sh", "-c", %[1]q]
		pty = true
		environment = { TERM = "vt100" }
		log = { format = "raw" }
		[program.short]
		command = ["sh", "-c", "for i in 1 2 3; do echo line $i; done; printf last"]
		pty = true
		restart = "never"
		log = { format = "json" }
		`, shows))
	s.Start()
	s.WaitLog("text", "end")
	s.WaitLog("raw", "end")
	for name, want := range map[string]string{
		"text": "is a terminal\n24 80\nkind xterm-256color\nend\n",
		"raw":  "is a terminal\r\n24 80\r\nkind vt100\r\nend\r\n",
	} {
		got := s.MustCtl("logs", "--times=false", name).Out
		if name == "raw" {
			got = s.Log(name)
		}
		if got != want {
			t.Errorf("output of %s: %q, want %q", name, got, want)
		}
	}
	s.WaitState("short", "exited")
	harness.Until(t, "the whole output of a run that has ended is in the log", func() bool {
		return strings.Contains(s.Log("short"), "last")
	})
	if got, want := s.MustCtl("logs", "--times=false", "short").Out, "line 1\nline 2\nline 3\nlast\n"; got != want {
		t.Errorf("output: %q, want %q", got, want)
	}
}

// TestAttach: who attaches types and sees, in the size of the own terminal, beside others; the
// detach keys leave the program alone.
func TestAttach(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.shell]
		command = ["sh", "-c", "echo up; while read line; do echo got $line; stty size; done"]
		pty = true
		log = { format = "text" }
		[program.plain]
		command = "sleep infinity"
		[program.off]
		command = "cat"
		pty = true
		autostart = false
		`)
	s.Start()
	s.WaitLog("shell", "up")
	pid := s.WaitState("shell", "running").Pid
	first, one := attachIn(t, s, 100, 30, "shell")
	first.Screen.Wait(t, "attached to shell; ctrl-p ctrl-q detaches")
	first.Type("hello\r")
	first.Screen.Wait(t, "got hello")
	second, two := attachIn(t, s, 90, 20, "--detach-keys", "ctrl-a,d", "shell")
	first.Screen.Wait(t, "2 attached")
	second.Screen.Wait(t, "2 attached")
	second.Type("there\r")
	for _, terminal := range []*harness.Terminal{first, second} {
		terminal.Screen.Wait(t, "got there")
		terminal.Screen.Wait(t, "20 90")
	}
	second.Type("\x01d")
	wantExit(t, second, two, 0, "detached from shell; it goes on")
	first.Screen.Wait(t, "1 attached")
	third, killed := attachIn(t, s, 90, 20, "shell")
	third.Screen.Wait(t, "attached to shell")
	_ = killed.Process.Kill()
	_ = killed.Wait()
	first.Type("a\x10b\r") // a detach key alone is typed
	first.Screen.Wait(t, "got a\x10b")
	first.Type("\x10\x11")
	wantExit(t, first, one, 0, "detached from shell; it goes on")
	if st := s.Status("shell"); st.Pid != pid || st.Restarts != 0 {
		t.Errorf("shell is %v, want pid %d", st, pid)
	}
	s.WaitLog("shell", "got there")
	fourth, restarted := attachIn(t, s, 80, 24, "shell")
	fourth.Screen.Wait(t, "attached to shell")
	s.MustCtl("restart", "shell")
	fourth.Screen.Wait(t, "up")
	fourth.Type("again\r")
	fourth.Screen.Wait(t, "got again")
	fourth.Type("\x10\x11")
	wantExit(t, fourth, restarted, 0, "detached")
	for name, want := range map[string]string{
		"plain": "superd: attach: plain has no terminal: write pty = true in [program.plain], and reload",
		"off":   "superd: attach: off is stopped: its terminal exists from its first start on: start it",
		"shel":  "superd: attach: no program, instance or group is named \"shel\"; did you mean \"shell\"?",
	} {
		terminal, cmd := attachIn(t, s, 300, 24, name)
		wantExit(t, terminal, cmd, 1, want)
	}
	if got := s.Ctl("attach", "shell"); got.Exit != 1 || !strings.Contains(got.ErrOut, "must be a terminal") {
		t.Errorf("without a terminal: %+v", got)
	}
	if got := s.Ctl("attach", "--detach-keys", "ctrl-", "shell"); got.Exit == 0 || !strings.Contains(got.ErrOut, `"ctrl-" is no key`) {
		t.Errorf("wrong keys: %+v", got)
	}
}

// TestPTYSurvives: the program and its terminal survive keeper and supervisor, and an upgrade. No
// line is lost or doubled. Who is attached is told.
func TestPTYSurvives(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.echo]
		command = ["sh", "-c", "stty -echo; echo up; while read line; do echo got $line; done"]
		pty = true
		log = { format = "text" }
		`)
	d := s.Start()
	s.WaitLog("echo", "up")
	pid := s.WaitState("echo", "running").Pid
	want := "up\n"
	for round, end := range []func(){
		func() { s.Track(d.Pid).Kill(); d.FindSupervisor() },
		func() {
			keeper, next := s.Track(d.KeeperPid), d.Pid
			keeper.Kill()
			d.KeeperPid = next
			d.FindSupervisor()
		},
		func() { s.MustCtl("upgrade") },
		func() { s.Track(d.Pid).Kill(); d.FindSupervisor() },
		func() {},
	} {
		terminal, cmd := attachIn(t, s, 80, 24, "echo")
		terminal.Screen.Wait(t, "attached to echo")
		for i := range 20 {
			line := fmt.Sprintf("%d-%d", round, i)
			terminal.Type(line + "\r")
			terminal.Screen.Wait(t, "got "+line)
			want += "got " + line + "\n"
		}
		if round == 4 {
			break
		}
		end()
		wantExit(t, terminal, cmd, 1, "superd was killed, upgraded or has ended")
		if st := s.WaitState("echo", "running"); st.Pid != pid || st.Restarts != 0 {
			t.Fatalf("echo is %v, want pid %d", st, pid)
		}
	}
	s.WaitLog("echo", "got 4-19")
	if got := s.MustCtl("logs", "--times=false", "-n", "all", "echo").Out; got != want {
		t.Errorf("log:\n%s\nwant:\n%s", got, want)
	}
	s.MustCtl("shutdown") // the process that the harness started was killed
	wantNothingLeft(t, s)
}

// TestPTYReload: a change of pty needs a new run. What can't be with a terminal is refused.
func TestPTYReload(t *testing.T) {
	t.Parallel()
	const program = `
		[program.web]
		command = ["sh", "-c", "test -t 0 && echo terminal || echo none; exec sleep infinity"]
		log = { format = "text" }
		`
	s := harness.NewSite(t, program)
	s.Start()
	written := ""
	wait := func(line string) {
		t.Helper()
		written += line
		harness.Until(t, "the run has written", func() bool { return s.MustCtl("logs", "--times=false", "web").Out == written })
	}
	wait("none\n")
	for _, change := range []struct{ line, writes string }{
		{"pty = true", "terminal\n"}, {"pty = false", "none\n"}, {"pty = true", "terminal\n"},
	} {
		s.Configure(strings.Replace(program, "log =", change.line+"\nlog =", 1))
		s.MustCtl("reload")
		wait(change.writes)
	}
}
