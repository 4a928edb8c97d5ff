package tests

import (
	"syscall"
	"testing"

	"superd/tests/harness"
)

func TestNotifications(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		[program.broken]
		command = "DIR/none"
		`)
	m := s.Manager()
	s.Env = append(s.Env, "WATCHDOG_USEC=200000")
	d := s.Start()
	m.Wait("READY=1\n", 1)
	if st := s.Status("web"); st.State != "running" {
		t.Errorf("READY=1 was sent, but %v, want running", st)
	}
	m.Wait("STATUS=", 1)
	pings := m.Count("WATCHDOG=1\n")
	m.Wait("WATCHDOG=1\n", pings+3)

	d.Signal(syscall.SIGHUP)
	m.Wait("RELOADING=1\n", 1)
	m.Wait("MONOTONIC_USEC=", 1)
	m.Wait("READY=1\n", 2)
	d.Signal(syscall.SIGTERM)
	d.Wait()
	m.Wait("STOPPING=1\n", 1)
	if st := m.Count("READY=1\n"); st != 2 {
		t.Errorf("READY=1 was sent %d times, want once and once after the reload", st)
	}
}
