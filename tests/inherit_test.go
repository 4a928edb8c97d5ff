package tests

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestOddInheritance: whatever superd has inherited, its programs get default signal actions and
// their own descriptors only.
func TestOddInheritance(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.quiet]
		command = "sleep infinity"
		[program.stdin]
		command = "cat"
		restart = "never"
		`)
	extra, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	d := s.Start(func(cmd *exec.Cmd) {
		env, err := exec.LookPath("env")
		if err != nil {
			t.Fatal(err)
		}
		superd := cmd.Path
		cmd.Path = env
		cmd.Args = append([]string{"env", "--ignore-signal=HUP,INT,PIPE,USR1,CHLD,RTMIN+3", "--block-signal=TERM,CHLD,USR2,CONT", superd}, cmd.Args[1:]...)
		cmd.ExtraFiles = []*os.File{extra, nil, extra, extra}
		// Not closed by accident of what superd does with its standard input.
		cmd.Stdin = extra
	})
	pid := s.WaitState("quiet", "running").Pid

	for _, key := range []string{"SigBlk", "SigIgn", "ShdPnd"} {
		if got := s.Field(pid, "status", key); strings.Trim(got, "0") != "" {
			t.Errorf("%s of a program = %s, want none", key, got)
		}
	}
	// The program opens files by itself for a moment.
	harness.Until(t, "a program has /dev/null, its output twice, and no more", func() bool {
		fds := s.FDs(pid)
		return len(fds) == 3 && fds[0] == "/dev/null" && fds[1] == fds[2] && fds[1] != ""
	})
	if st := s.WaitState("stdin", "exited"); st.Exit.String() != "0" {
		t.Errorf("cat of its stdin: %v, want end of file and exit 0", st)
	}

	// superd itself reacts to each of them.
	d.Signal(syscall.SIGHUP)
	d.ErrOut.Wait(t, "configuration reloaded")
	d.Signal(syscall.SIGUSR1)
	d.ErrOut.Wait(t, "log files reopened")
	s.Kill(pid, syscall.SIGKILL)
	s.WaitStatus("quiet", "is restarted", func(st harness.Status) bool { return st.State == "running" && st.Restarts == 1 })
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
}

func TestProgramEnvironment(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "env; echo cwd $(pwd)", "unused ${PORT:-80}"]
		directory = "DIR/home"
		environment = { PORT = "8080", GREETING = "hello $${PORT} ${PORT}" }
		env_file = "DIR/web.env"
		restart = "never"
		[program.clean]
		command = ["/usr/bin/env"]
		inherit_environment = false
		restart = "never"
		`)
	s.Mkdir("home")
	s.Write("web.env", "# settings\n; of systemd\nFROM_FILE=yes\nPORT=1\nSPLIT=one \\\ntwo\nQUOTED='it'\"'s\"\nNONE=\n")
	s.Env = append(s.Env, "INHERITED=1", "INVOCATION_ID=a", "JOURNAL_STREAM=8:1", "LISTEN_FDS=0", "SUPERD_SECRET=1")
	s.Start()
	s.WaitState("web", "exited")
	s.WaitState("clean", "exited")

	lines := strings.Split(s.WaitLog("web", "cwd "), "\n")
	for _, want := range []string{
		"PORT=8080", "GREETING=hello ${PORT} 8080", "FROM_FILE=yes", "INHERITED=1",
		"SPLIT=one two", "QUOTED=it's", "NONE=",
		"SUPERD_NAME=web", "SUPERD_INSTANCE=web", "SUPERD_REPLICA=1", "cwd " + s.Path("home"),
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("environment of web: no %q in %q", want, lines)
		}
	}
	ids := 0
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		switch name {
		case "INVOCATION_ID", "JOURNAL_STREAM", "LISTEN_FDS", "NOTIFY_SOCKET", "WATCHDOG_USEC", "SUPERD_SECRET":
			t.Errorf("environment of web: %q is superd's own", line)
		case "SUPERD_INVOCATION_ID":
			if ids++; len(value) < 32 {
				t.Errorf("SUPERD_INVOCATION_ID = %q, want 128 bits", value)
			}
		}
	}
	if ids != 1 {
		t.Errorf("environment of web: SUPERD_INVOCATION_ID %d times, want once", ids)
	}
	if log := s.WaitLog("clean", "SUPERD_NAME=clean\n"); strings.Contains(log, "INHERITED") || strings.Contains(log, "TEST_SITE") {
		t.Errorf("environment of clean: inherited, %q", log)
	}
}
