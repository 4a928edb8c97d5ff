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
	const count = 200
	var programs strings.Builder
	programs.WriteString("[defaults]\ncommand = 'sleep infinity'\n")
	for i := range count {
		fmt.Fprintf(&programs, "[program.p%03d]\n", i)
	}
	s := harness.NewSite(t, programs.String())
	d := s.Start()
	s.WaitRunning()
	wantIdle(s, d, fmt.Sprintf("%d quiet programs", count))
}

// TestIdleSockets: a superd that waits for connections uses no processor time.
func TestIdleSockets(t *testing.T) {
	t.Parallel()
	const count = 1000
	var programs strings.Builder
	for i, accept := range []string{"", "accept = true\n"} {
		fmt.Fprintf(&programs, "[program.p%d]\ncommand = 'true'\nautostart = 'on-connect'\nsockets = ['s%d']\n%s[socket.s%d]\nlisten = [\n", i, i, accept, i)
		for n := range count / 2 {
			fmt.Fprintf(&programs, "'unix:DIR/%d-%d',\n", i, n)
		}
		programs.WriteString("]\n")
	}
	s := harness.NewSite(t, programs.String())
	d := s.Start()
	waitOpen(s, count)
	wantIdle(s, d, fmt.Sprintf("%d sockets", count))
}

// wantIdle fails the test if superd is not idle with what it has.
func wantIdle(s *harness.Site, d *harness.Superd, has string) {
	const window, most = 5 * time.Second, 1
	t := s.T
	t.Helper()
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
	t.Errorf("context switches of supervisor and keeper with %s, in windows of %v: %v, want %d at most in one of them", has, window, seen, most)
}
