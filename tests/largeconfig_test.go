package tests

import (
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestLargeConfigurationSurvives: a configuration of several megabytes stays in force after a
// crash, whatever the file holds by then. Source: row 57 of the failure table.
func TestLargeConfigurationSurvives(t *testing.T) {
	t.Parallel()
	const program = "[program.web]\ncommand = 'sleep infinity'\n"
	s := harness.NewSite(t, program+strings.Repeat("# "+strings.Repeat("x", 1021)+"\n", 6<<10))
	d := s.Start()
	web := s.WaitState("web", "running").Pid
	s.MustCtl("start", "web") // all queued records are written
	s.Write("superd.toml", "[superd\n")
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	d.ErrOut.Wait(t, "took over from the predecessor")
	if st := s.Status("web"); st.Pid != web || st.State != "running" {
		t.Errorf("after a crash, with a broken file: %v, want pid %d", st, web)
	}
}
