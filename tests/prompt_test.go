package tests

import (
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

// openPrompt starts superd ctl without a command in a terminal.
func openPrompt(t *testing.T, s *harness.Site) (terminal *harness.Terminal, wait func() int) {
	t.Helper()
	s.Env = append(s.Env, "NO_COLOR=1")
	terminal = harness.NewTerminal(t, 100, 24)
	cmd := terminal.Command(s, "ctl", "--runtime-dir", s.RuntimeDir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Screen.Wait(t, "superd> ")
	return terminal, func() int {
		ended := time.AfterFunc(harness.Deadline, func() { _ = cmd.Process.Kill() })
		defer ended.Stop()
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
}

// TestPrompt: superd ctl without a command reads commands in a terminal, completes commands, flags
// and names, goes on after an error, and leaves the terminal as it was.
func TestPrompt(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.website]
		command = ["sh", "-c", "echo hello; exec sleep infinity"]
		[program.database]
		command = "sleep infinity"
		`)
	s.Start()
	s.WaitState("website", "running")
	s.WaitLog("website", "hello\n")
	pid := s.WaitState("database", "running").Pid
	terminal, wait := openPrompt(t, s)
	shows := func(text string) {
		t.Helper()
		terminal.Screen.Wait(t, text)
	}
	terminal.Type("stat\t--br\t web\t\r") // status --brief website
	shows("website  running  ")
	terminal.Type("superd ctl status nothing\r") // as in a shell, and with an error
	shows(`superd: no program, instance or group is named "nothing"`)
	terminal.Type("re\t") // several: they are listed
	shows("reset-failed  Forget the failures of programs")
	terminal.Type("\x03") // Ctrl-C drops the line
	shows("^C")
	terminal.Type("restart data\t\r")
	s.WaitStatus("database", "is restarted", func(st harness.Status) bool { return st.State == "running" && st.Pid != pid })
	terminal.Type("status 'unclosed\r")
	shows("superd: the single quote at byte 8 is not closed")
	terminal.Type("staus\r")
	shows("did you mean `superd ctl status`?")
	terminal.Type("help signal\r")
	shows("superd ctl signal SIGNAL NAME...")
	terminal.Type("\x04") // Ctrl-D
	if exit := wait(); exit != 0 || !terminal.Echoes() {
		t.Errorf("exit status %d, want 0; the terminal echoes: %v\n%s", exit, terminal.Echoes(), terminal.Screen)
	}
}

// TestPromptInterrupt: Ctrl-C ends a command that follows something, and the prompt goes on, also
// after a command that had the terminal for itself.
func TestPromptInterrupt(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo hello; exec sleep infinity"]
		`)
	s.Start()
	s.WaitState("web", "running")
	s.WaitLog("web", "hello\n")
	terminal, wait := openPrompt(t, s)
	for n, tt := range []struct{ command, shown string }{
		{"logs -f web", "hello\r\n"},
		{"events -f", "first output\r\n"},
		{"status --watch", "RESTARTS"},
	} {
		terminal.Type(tt.command + "\r")
		harness.Until(t, tt.command+" shows "+tt.shown, func() bool {
			_, after, typed := strings.Cut(terminal.Screen.String(), tt.command)
			return typed && strings.Contains(after, tt.shown)
		})
		terminal.Type("\x03")
		terminal.Screen.WaitTimes(t, "superd> ", n+2)
	}
	terminal.Type("exec web -- sh -c 'echo pid $SUPERD_NAME; read x; echo got $x'\r")
	terminal.Screen.Wait(t, "pid web")
	terminal.Type("this\r")
	terminal.Screen.Wait(t, "got this")
	terminal.Screen.WaitTimes(t, "superd> ", 5) // until then the command reads what is typed
	terminal.Type("exit\r")
	if exit := wait(); exit != 0 || !terminal.Echoes() {
		t.Errorf("exit status %d, want 0; the terminal echoes: %v\n%s", exit, terminal.Echoes(), terminal.Screen)
	}
}

// TestNoPrompt: without a terminal, superd ctl shows its commands and fails as before.
func TestNoPrompt(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.web]\ncommand = 'true'\n")
	if r := s.Run("ctl"); r.Exit != 2 || r.Out != "" || !strings.HasPrefix(r.ErrOut, "Usage: superd ctl COMMAND\n") {
		t.Errorf("exit status %d, %q, %q", r.Exit, r.Out, r.ErrOut)
	}
}
