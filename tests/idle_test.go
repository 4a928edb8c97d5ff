package tests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

// TestIdle: an idle superd uses no processor time. A timer of 2 s or a poll would show in each of
// the windows; the Go runtime's own rare wake-ups are not in all of them.
func TestIdle(t *testing.T) {
	t.Parallel()
	const count, window, most = 200, 5 * time.Second, 1
	var programs strings.Builder
	programs.WriteString("[defaults]\ncommand = 'sleep infinity'\n")
	for i := range count {
		fmt.Fprintf(&programs, "[program.p%03d]\n", i)
	}
	s := harness.NewSite(t, programs.String())
	d := s.Start()
	s.WaitRunning()
	// After the start the runtime collects and returns memory for some seconds.
	var seen []int
	for range 6 {
		before := s.ContextSwitches(d.Pid) + s.ContextSwitches(d.KeeperPid)
		harness.Window(t, window)
		switches := s.ContextSwitches(d.Pid) + s.ContextSwitches(d.KeeperPid) - before
		if switches <= most {
			return
		}
		seen = append(seen, switches)
	}
	t.Errorf("context switches of supervisor and keeper with %d quiet programs, in windows of %v: %v, want %d at most in one of them", count, window, seen, most)
}
