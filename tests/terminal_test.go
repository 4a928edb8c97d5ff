package tests

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

func TestCtrlC(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		command = "child signals DIR/gate"
		[program.one]
		[program.two]
		`)
	open := s.Gate("gate")
	terminal := harness.NewTerminal(t, 80, 24)
	d := s.Start(terminal.Run)
	s.WaitLog("one", "ready\n")
	s.WaitLog("two", "ready\n")
	terminal.Type("\x03")
	s.WaitLog("one", "got")
	s.WaitLog("two", "got")
	terminal.Screen.Wait(t, "another Ctrl-C")
	open()
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, terminal.Screen)
	}
	for _, name := range []string{"one", "two"} {
		if got, want := s.Log(name), "ready\ngot terminated\n"; got != want {
			t.Errorf("log of %s = %q, want %q", name, got, want)
		}
	}
	if processes := s.Processes(); len(processes) != 0 {
		t.Errorf("left behind: %v", processes)
	}
}

func TestLinesInTerminal(t *testing.T) {
	t.Parallel()
	programs := `
		[defaults]
		restart = "never"
		[program.one]
		command = ["printf", "hello\n\\033[2Jharmless\\007\nunfinished"]
		[program.two]
		command = "echo world"
		`
	const colour = "\x1b[3" // SGR 30 to 39
	for name, noColor := range map[string]bool{"colour": false, "NO_COLOR": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, programs)
			s.Env = append(s.Env, "TERM=xterm")
			if noColor {
				s.Env = append(s.Env, "NO_COLOR=1")
			}
			terminal := harness.NewTerminal(t, 80, 24)
			d := s.Start(terminal.Run)
			for _, text := range []string{"hello", "harmless", "world"} {
				terminal.Screen.Wait(t, text)
			}
			d.Signal(syscall.SIGTERM)
			d.Wait()
			terminal.Screen.Wait(t, "unfinished") // a line without its newline is shown at the end
			screen := terminal.Screen.String()
			if got := strings.Contains(screen, colour); got == noColor {
				t.Errorf("colours on the screen: %v, want %v: %q", got, !noColor, screen)
			}
			if strings.Contains(screen, "\x1b[2J") || strings.Contains(screen, "\x07") {
				t.Errorf("escapes of a program reach the terminal: %q", screen)
			}
			for line := range strings.Lines(screen) {
				if strings.Contains(line, "world") && !strings.Contains(line, "two") {
					t.Errorf("line %q of two does not name it", line)
				}
			}
		})
	}
}

func TestOutputToPipeThatCloses(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "read x < DIR/gate; echo more; exec sleep infinity"]
		`)
	open := s.Gate("gate")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d := s.Start(func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = write, write })
	s.WaitState("web", "running")
	write.Close()
	read.Close() // as superd run | head does
	open()
	s.WaitLog("web", "more\n")
	s.Kill(s.Status("web").Pid, syscall.SIGKILL)
	s.WaitStatus("web", "is restarted", func(st harness.Status) bool { return st.Restarts == 1 })
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0", exit)
	}
}

// style matches what changes colours and weight in a terminal.
var style = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func TestStatusFitsTerminal(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.a-program-with-a-rather-long-name]
		command = ["sh", "-c", "yes 'a long line of many words' | tr '\n' ' ' | head -c 1000; echo; exec sleep infinity"]
		`)
	s.Start()
	s.WaitStatus("a-program-with-a-rather-long-name", "has written", func(st harness.Status) bool { return st.LastLine != "" })
	for _, columns := range []int{40, 80, 200} {
		terminal := harness.NewTerminal(t, columns, 24)
		if err := terminal.Command(s, "ctl", "status").Run(); err != nil {
			t.Fatalf("ctl status: %v\n%s", err, terminal.Screen)
		}
		terminal.Screen.Wait(t, "\n")
		for line := range strings.Lines(terminal.Screen.String()) {
			line = style.ReplaceAllString(strings.TrimRight(line, "\r\n"), "")
			if n := len([]rune(line)); n > columns {
				t.Errorf("line of %d columns in a terminal of %d: %q", n, columns, line)
			}
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo first; read x < DIR/gate; echo second; exec sleep infinity"]
		`)
	open := s.Gate("gate")
	s.Start()
	terminal := harness.NewTerminal(t, 80, 24)
	watch := terminal.Command(s, "ctl", "status", "--watch")
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Screen.Wait(t, "first")
	open()
	terminal.Screen.Wait(t, "second")
	pid := s.Status("web").Pid
	s.Kill(pid, syscall.SIGKILL)
	now := s.WaitStatus("web", "is restarted", func(st harness.Status) bool { return st.Pid != 0 && st.Pid != pid }).Pid
	terminal.Screen.Wait(t, strconv.Itoa(now))
	terminal.Type("\x03")
	watch.Wait()
}
