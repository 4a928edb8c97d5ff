package tests

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestTimesOfLines: a terminal shows the time of each line of which one is known. Other output has
// the times that the log records, unless all or none are requested.
func TestTimesOfLines(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		command = ["sh", "-c", "echo before; while read n; do echo live; done < DIR/steps-$SUPERD_INSTANCE"]
		[program.raw]
		[program.text]
		log = { format = "text" }
		`)
	raw, text := s.Steps("steps-raw"), s.Steps("steps-text")
	s.Start()
	s.WaitRunning()
	s.WaitLog("raw", "before\n")
	s.WaitLog("text", "before\n")
	const time = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z `
	tests := []struct {
		terminal bool
		args     []string
		want     string // expression for the output of both programs
	}{
		{true, nil, "^before\n" + time + "live\n$ ^" + time + "stdout before\n" + time + "stdout live\n$"},
		{true, []string{"--times=false"}, "^before\nlive\n$ ^before\nlive\n$"},
		{false, nil, "^before\nlive\n$ ^" + time + "stdout before\n" + time + "stdout live\n$"},
		{false, []string{"--times"}, "^before\n" + time + "live\n$ ^" + time + "stdout before\n" + time + "stdout live\n$"},
		{false, []string{"--times=false"}, "^before\nlive\n$ ^before\nlive\n$"},
		{true, []string{"--raw"}, "^before\nlive\n$ ^" + time + "stdout before\n" + time + "stdout live\n$"},
		{false, []string{"--json"}, `^{"time":null,[^\n]*\n{"time":null[^\n]*\n$ ^({"time":"[^\n]*\n){2}$`},
		{false, []string{"--json", "--times"}, `^{"time":null,[^\n]*\n{"time":"2[^\n]*\n$ ^({"time":"[^\n]*\n){2}$`},
	}
	for restarts, tt := range tests {
		for i, name := range []string{"raw", "text"} {
			s.MustCtl("restart", name)
			harness.Until(t, "the first line of this run", func() bool {
				return strings.Count(s.Log(name), "before\n") == restarts+2
			})
			args := append([]string{"logs", "-f", "-n", "1", name}, tt.args...)
			var screen *harness.Output
			if tt.terminal {
				terminal := harness.NewTerminal(t, 120, 24)
				cmd := terminal.Command(s, append([]string{"ctl"}, args...)...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { end(cmd) })
				screen = terminal.Screen
			} else {
				screen = follow(t, s, args...)
			}
			screen.Wait(t, "before")
			[]func(...any){raw, text}[i]()
			screen.Wait(t, "live")
			harness.Until(t, "the line to be complete", func() bool { return strings.HasSuffix(screen.String(), "\n") })
			got := strings.ReplaceAll(screen.String(), "\r", "")
			want := strings.SplitN(tt.want, " ^", 2)
			if i == 1 {
				want[1] = "^" + want[1]
			}
			if !regexp.MustCompile(want[i]).MatchString(got) {
				t.Errorf("%v, terminal %v: %q, want %q", args, tt.terminal, got, want[i])
			}
		}
	}
}

// TestFollowerFallsBehind: a terminal that is far behind skips output, and shows how much. What
// reads a pipe gets all output.
func TestFollowerFallsBehind(t *testing.T) {
	t.Parallel()
	const size = 40_000_000
	s := harness.NewSite(t, `
		[program.flood]
		restart = "never"
		command = ["sh", "-c", "echo first; read x < DIR/gate; yes 'a line of some length that is printed again and again' | head -c 40000000; echo; echo last"]
		log = { max_size = 0 }
		`)
	open := s.Gate("gate")
	s.Start()
	s.WaitLog("flood", "first\n")
	terminal := harness.NewTerminal(t, 120, 24)
	inTerminal, inPipe := terminal.Command(s, "ctl", "logs", "-f", "--raw", "flood"), s.Command("ctl", "logs", "-f", "--raw", "flood")
	var all harness.Output
	inPipe.Stdout, inPipe.Stderr = &all, &all
	if err := inPipe.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(inPipe) })
	if err := inTerminal.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(inTerminal) })
	all.Wait(t, "first\n")
	terminal.Screen.Wait(t, "first\r\n")
	signal := func(signal syscall.Signal) {
		t.Helper()
		for _, pid := range []int{inTerminal.Process.Pid, inPipe.Process.Pid} {
			if err := syscall.Kill(pid, signal); err != nil {
				t.Fatal(err)
			}
		}
	}
	signal(syscall.SIGSTOP)
	open()
	s.WaitState("flood", "exited")
	s.WaitLog("flood", "\nlast\n")
	signal(syscall.SIGCONT)
	all.Wait(t, "\nlast\n")
	if got, want := len(all.String()), len("first\n")+size+len("\nlast\n"); got != want || strings.Contains(all.String(), "superd:") {
		t.Errorf("the pipe got %d bytes, want %d", got, want)
	}
	terminal.Screen.Wait(t, "\nlast\r\n")
	before, rest, found := strings.Cut(strings.ReplaceAll(terminal.Screen.String(), "\r", ""), "superd: flood: ")
	var skipped int
	if _, err := fmt.Sscanf(rest, "%d bytes can't be shown: they came faster than they were shown", &skipped); !found || err != nil {
		t.Fatalf("no note after %d bytes: %.200q", len(before), rest)
	}
	_, after, _ := strings.Cut(rest, "\n")
	if got, want := len(before)+skipped+len(after), len("first\n")+size+len("\nlast\n"); got < want-1 || got > want || len(after) > 2<<20 {
		t.Errorf("%d bytes, %d skipped, %d bytes, want %d in all", len(before), skipped, len(after), want)
	}
}
