package tests

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestExec: a command beside a program has what the program has, and what exec was given. Its exit
// status is that of exec.
func TestExec(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo up; exec sleep infinity"]
		directory = "/usr"
		environment = { COLOUR = "blue" }
		umask = "027"
		limits = { nofile = 77 }
		[program.off]
		command = "true"
		autostart = false
		[program.two]
		command = "sleep infinity"
		replicas = 2
		`)
	s.Start()
	s.WaitState("web", "running")
	s.WaitState("two@2", "running")
	for _, tt := range []struct {
		name        string
		args        []string
		exit        int
		out, errOut string
	}{
		{"directory, environment, limits", []string{"web", "--", "sh", "-c", "pwd; echo $COLOUR $SUPERD_NAME; umask; ulimit -n"}, 0, "/usr\nblue web\n0027\n77\n", ""},
		{"its streams", []string{"web", "--", "sh", "-c", "cat; echo bad >&2"}, 0, "typed\n", "bad\n"},
		{"its exit status", []string{"web", "--", "sh", "-c", "exit 42"}, 42, "", ""},
		{"a signal", []string{"web", "--", "sh", "-c", "kill -TERM $$"}, 143, "", ""},
		{"flags of the command", []string{"web", "--", "echo", "-n", "x"}, 0, "x", ""},
		{"a shell", nil, 0, "in /usr\n", ""},
		{"an instance", []string{"two@2", "--", "printenv", "SUPERD_INSTANCE"}, 0, "two@2\n", ""},
		{"several instances", []string{"two", "--", "true"}, 1, "", "superd: execute command: two selects 2 instances: name one of them\n"},
		{"a program that does not run", []string{"off", "--", "true"}, 1, "", "superd: execute command: off is stopped: a command is executed beside a running program\n"},
		{"no such command", []string{"web", "--", "/does/not/exist"}, 1, "", "superd: execute command: open executable /does/not/exist: no such file or directory\n"},
		{"no such program", []string{"wbe", "--", "true"}, 1, "", "superd: execute command: no program, instance or group is named \"wbe\"; did you mean \"web\"?\n"},
		{"no command", []string{"web"}, 2, "", "superd: missing COMMAND; see `superd ctl exec --help`\n"},
	} {
		verb, input := "exec", "typed\n"
		if tt.args == nil {
			verb, tt.args, input = "shell", []string{"web"}, "echo in $PWD\n"
		}
		cmd := s.Command(append([]string{"ctl", "--runtime-dir", s.RuntimeDir, verb}, tt.args...)...)
		var out, errOut strings.Builder
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errOut
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != tt.exit || out.String() != tt.out || errOut.String() != tt.errOut {
			t.Errorf("%s: exit status %d, %q, %q, want %d, %q, %q", tt.name, got, &out, &errOut, tt.exit, tt.out, tt.errOut)
		}
	}
}

// TestExecEnds: a command ends when its client does, and when the program stops.
func TestExecEnds(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		`)
	s.Start()
	s.WaitState("web", "running")
	for name, end := range map[string]func(*os.Process){
		"SIGKILL of the client": func(p *os.Process) { _ = p.Kill() },
		"SIGINT of the client":  func(p *os.Process) { _ = p.Signal(syscall.SIGINT) },
		"a stop":                func(*os.Process) { s.MustCtl("restart", "web") },
	} {
		out := new(harness.Output)
		cmd := s.Command("ctl", "--runtime-dir", s.RuntimeDir, "exec", "web", "--", "sh", "-c", "echo begun; sleep 1234; true")
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Wait(t, "begun\n")
		end(cmd.Process)
		_ = cmd.Wait()
		harness.Until(t, "the command ends after "+name, func() bool { return !runs(s, "sleep 1234") })
	}
}

// runs reports whether a process of the site has that command line.
func runs(s *harness.Site, command string) bool {
	for _, p := range s.Programs() {
		if p.Command == command {
			return true
		}
	}
	return false
}

// TestShellInTerminal: in a terminal, a shell has a controlling terminal of its own with job
// control, of the same size, and the terminal is as before at the end.
func TestShellInTerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		`)
	s.Start()
	s.WaitState("web", "running")
	terminal := harness.NewTerminal(t, 80, 24)
	cmd := terminal.Command(s, "ctl", "--runtime-dir", s.RuntimeDir, "exec", "web", "--", "bash", "--norc", "-i")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shows := func(text string) {
		t.Helper()
		harness.Until(t, text+" is shown", func() bool { return strings.Contains(terminal.Screen.String(), text) })
	}
	shows("bash-") // the prompt
	terminal.Type("stty size; tty; echo size-$((6*7)) < /dev/tty\r")
	shows("24 80")
	shows("/dev/pts/")
	shows("size-42")
	terminal.Type("sleep 1235\r")
	harness.Until(t, "the shell runs a command", func() bool { return runs(s, "sleep 1235") })
	terminal.Type("\x03") // Ctrl-C reaches the command, not superd ctl
	harness.Until(t, "Ctrl-C has ended the command", func() bool { return !runs(s, "sleep 1235") })
	terminal.Type("exit 7\r")
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 7 || !terminal.Echoes() {
		t.Errorf("exit status %d, want 7; the terminal echoes: %v\n%s", got, terminal.Echoes(), terminal.Screen)
	}
}
