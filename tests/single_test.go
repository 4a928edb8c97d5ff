package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"superd/internal/disposition"
	"superd/tests/harness"
)

// singleUnder returns a command of superd under another name.
func singleUnder(s *harness.Site, name string, args ...string) *exec.Cmd {
	s.T.Helper()
	link := s.Path(name)
	if _, err := os.Lstat(link); err != nil {
		if err := os.Symlink(s.Command().Path, link); err != nil {
			s.T.Fatal(err)
		}
	}
	cmd := s.Command(args...)
	cmd.Path, cmd.Args[0] = link, link
	return cmd
}

// TestSingle: superd run -- COMMAND ends as the command does, and passes its input and output.
func TestSingle(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	tests := []struct {
		name, args string
		exit       int
		out, err   string // what is printed, and part of the messages
	}{
		{"success", "run -- echo hello", 0, "hello\n", ""},
		{"exit status", "run -- sh -c exit\t7", 7, "", ""},
		{"signal", "run -- sh -c kill\t-KILL\t$$", 137, "", ""},
		{"expected status", "run -e 3 -e 143 -- sh -c kill\t-TERM\t$$", 0, "", ""},
		{"standard input and flags of the command", "run -- cat -", 0, "input", ""},
		{"no such command", "run -- no-such-command", 127, "", "execute no-such-command: no such file or directory"},
		{"no executable", "run -- /etc", 126, "", "execute /etc: permission denied"},
		{"script without interpreter", "run -- DIR/script a", 0, "script a\n", ""},
		{"no command", "run --", 1, "", "superd: no command: name one, with its arguments"},
		{"a file, too", "run web.toml -- true", 1, "", `"web.toml" is no flag`},
		{"help", "run -h -- true", 0, "Usage: superd run [flags] -- COMMAND", ""},
		{"the environment is the same", "run -- sh -c echo\t[$GODEBUG]", 0, "[]\n", ""},
		{"a leader of its group", "run -- sh -c test\t$(ps\t-o\tpgid=\t-p\t$$)\t=\t$$", 0, "", ""},
		{"tini warns", "tini true", 0, "", "zombie reaping won't work"},
		{"tini as subreaper", "tini -s -- echo hello", 0, "hello\n", ""},
		{"dumb-init", "dumb-init -- sh -c test\t$(ps\t-o\tsid=\t-p\t$$)\t=\t$$", 0, "", ""},
		{"dumb-init without the command", "dumb-init /no/such/file", 2, "", "[dumb-init] /no/such/file: No such file or directory\n"},
	}
	s.Write("script", "echo script $1\n")
	s.Chmod("script", 0o755)
	for _, tt := range tests {
		args := strings.Fields(strings.NewReplacer("\t", "\x00", "DIR", s.Dir).Replace(tt.args))
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "\x00", " ")
		}
		cmd := s.Command(args...)
		if args[0] != "run" {
			cmd = singleUnder(s, args[0], args[1:]...)
		}
		var out, messages bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("input"), &out, &messages
		_ = cmd.Run()
		outIs := out.String() == tt.out || tt.name == "help" && strings.HasPrefix(out.String(), tt.out)
		if exit := cmd.ProcessState.ExitCode(); exit != tt.exit || !outIs || !strings.Contains(messages.String(), tt.err) || tt.err == "" && messages.Len() > 0 {
			t.Errorf("%s: %s: exit status %d, output %q, messages %q, want %d, %q, %q", tt.name, tt.args, exit, &out, &messages, tt.exit, tt.out, tt.err)
		}
	}
}

// TestSingleSignals: signals get to the command, or to its group, rewritten where that is asked
// for, and orphans are reaped.
func TestSingleSignals(t *testing.T) {
	t.Parallel()
	const (
		// A shell and a process in its background, which write what they get
		script = `(trap 'echo background' USR1; echo up; while :; do sleep 0.02; done) &
trap 'echo TERM; exit 3' TERM
trap 'echo USR1' USR1
echo up
while :; do sleep 0.02; done`
	)
	tests := []struct {
		name string
		args []string
		send []syscall.Signal
		want []string // in the output, sorted by when they are waited for
		exit int
	}{
		{"to the command", []string{"run", "--"}, []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM}, []string{"USR1\n", "TERM\n"}, 3},
		{"to its group", []string{"run", "-g", "--"}, []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM}, []string{"background\n", "TERM\n"}, 3},
		{"rewritten", []string{"run", "--rewrite", "2:15", "--"}, []syscall.Signal{syscall.SIGINT}, []string{"TERM\n"}, 3},
		{"to the session", []string{"dumb-init"}, []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM}, []string{"background\n", "TERM\n"}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, "")
			args := append(tt.args, "sh", "-c", script)
			cmd := s.Command(args...)
			if tt.args[0] != "run" {
				cmd = singleUnder(s, tt.args[0], args[1:]...)
			}
			var out harness.Output
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			out.WaitTimes(t, "up\n", 2)
			for i, sig := range tt.send {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				out.Wait(t, tt.want[i])
			}
			state, err := cmd.Process.Wait()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range s.Processes() { // the one in the background, which has the pipe
				p.Kill()
			}
			_ = cmd.Wait() // for the rest of the output
			if got := state.ExitCode(); got != tt.exit {
				t.Errorf("exit status %d, want %d\n%s", got, tt.exit, &out)
			}
		})
	}
}

// TestSingleReaps: orphans do not stay as zombies, and -w tells of them.
func TestSingleReaps(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	cmd := s.Command("run", "-w", "--", "sh", "-c", "sh -c 'sleep 0.01 & echo $!'; read line")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out harness.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Wait(t, "Reaped zombie process with pid=")
	if zombies := s.Zombies(cmd.Process.Pid); len(zombies) > 0 {
		t.Errorf("zombies: %v", zombies)
	}
	input.Close()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 { // of read
		t.Errorf("ends with %v\n%s", err, &out)
	}
}

// TestSingleMask: the command blocks and ignores the signals that superd was started with as
// blocked and ignored, as far as the runtime of Go does not change them. Those of real time are
// queued: each of a burst gets to the command.
func TestSingleMask(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	const blocked = 1<<(syscall.SIGUSR1-1) | 1<<(syscall.SIGTTIN-1) | 1<<(64-1)
	// A child gets the mask of the thread that it is spawned from
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := disposition.SetBlocked(blocked)
	if err != nil {
		t.Fatal(err)
	}
	// The shell ignores two more than the test
	signals := func(command ...string) string {
		t.Helper()
		cmd := exec.Command("/bin/sh", append([]string{"-c", `trap "" HUP TTOU; exec "$@"`, "sh"},
			append(command, "grep", "-E", "SigBlk|SigIgn", "/proc/self/status")...)...)
		cmd.Dir, cmd.Env = s.Dir, s.Env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	got, want := signals(s.Command().Path, "run", "--"), signals("env")
	if _, err := disposition.SetBlocked(before); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(want, fmt.Sprintf("SigBlk:\t%016x\n", uint64(blocked))) || got != want {
		t.Errorf("the command has\n%s, without superd\n%s", got, want)
	}

	const burst = 20
	counts := s.Command("run", "--", "python3", "-c", `import signal
sig = signal.SIGRTMIN + 6
signal.pthread_sigmask(signal.SIG_BLOCK, [sig])
print("up", flush=True)
for n in range(`+strconv.Itoa(burst)+`): signal.sigwait([sig])
print("all", flush=True)`)
	var screen harness.Output
	counts.Stdout, counts.Stderr = &screen, &screen
	if err := counts.Start(); err != nil {
		t.Fatal(err)
	}
	screen.Wait(t, "up\n")
	for range burst {
		if err := counts.Process.Signal(syscall.Signal(40)); err != nil {
			t.Fatal(err)
		}
	}
	screen.Wait(t, "all\n")
	_ = counts.Wait()
}

// TestSingleInTerminal: the command is in the foreground of the terminal. Ctrl-Z stops it and
// superd, so that the shell gets its prompt, and fg continues both.
func TestSingleInTerminal(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	terminal := harness.NewTerminal(t, 80, 24)
	shell := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "-i")
	shell.Env = append(s.Env, "PS1=prompt> ", "TERM=xterm", "SUPERD="+s.Command().Path, "HISTFILE="+filepath.Join(s.Dir, "history"))
	terminal.Run(shell)
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Screen.Wait(t, "prompt> ")
	terminal.Type("$SUPERD run -- sh -c 'echo be''gun; read line; echo got $line; exit 5'\n")
	terminal.Screen.Wait(t, "begun")
	terminal.Type("\x1a")
	terminal.Screen.Wait(t, "Stopped")
	terminal.Type("fg\n")
	terminal.Type("words\n")
	terminal.Screen.Wait(t, "got words")
	terminal.Type("echo status $?\n")
	terminal.Screen.Wait(t, "status 5")
	terminal.Type("$SUPERD run -- sh -c 'echo ag''ain; exec sleep 1000'\n")
	terminal.Screen.Wait(t, "again")
	terminal.Type("\x03")
	terminal.Screen.WaitTimes(t, "prompt> ", 5)
	terminal.Type("exit\n")
	_ = shell.Wait()
}
