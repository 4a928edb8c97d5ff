package tests

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestWatchTakesKeys: status --watch echoes no keys, ends at q, and restores the terminal, also
// after a signal or a suspension.
func TestWatchTakesKeys(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		`)
	s.Start()
	s.WaitState("web", "running")
	const restored = "\x1b[?25h\x1b[?1049l"
	for name, end := range map[string]func(*harness.Terminal, *os.Process){
		"q":       func(term *harness.Terminal, _ *os.Process) { term.Type("zzq") },
		"Ctrl-C":  func(term *harness.Terminal, _ *os.Process) { term.Type("\x03") },
		"Ctrl-\\": func(term *harness.Terminal, _ *os.Process) { term.Type("\x1c") },
		"SIGTERM": func(_ *harness.Terminal, p *os.Process) { _ = p.Signal(syscall.SIGTERM) },
		"SIGHUP":  func(_ *harness.Terminal, p *os.Process) { _ = p.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			terminal := harness.NewTerminal(t, 80, 24)
			cmd := terminal.Command(s, "status", "--runtime-dir", s.RuntimeDir, "--watch")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			harness.Until(t, "the status is shown", func() bool { return strings.Contains(terminal.Screen.String(), "running") })
			if terminal.Echoes() {
				t.Errorf("the terminal echoes keys")
			}
			end(terminal, cmd.Process)
			if err := cmd.Wait(); err != nil {
				t.Errorf("status --watch: %v", err)
			}
			harness.Until(t, "the screen is left", func() bool { return strings.Contains(terminal.Screen.String(), restored) })
			if !terminal.Echoes() || strings.Contains(terminal.Screen.String(), "zz") {
				t.Errorf("the terminal echoes: %v; shown %q", terminal.Echoes(), terminal.Screen)
			}
		})
	}
}
