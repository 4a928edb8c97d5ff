package tests

import (
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestStoppedAcrossRestart: after an orderly shutdown and a new start of superd, a program stopped
// by the operator stays stopped until the operator starts it. All others start afresh.
func TestStoppedAcrossRestart(t *testing.T) {
	t.Parallel()
	const programs = `
		[program.kept]
		command = "sleep infinity"
		[program.stopped]
		command = "sleep infinity"
		[program.gone]
		command = "sleep infinity"
		[program.later]
		command = "sleep infinity"
		autostart = false
		[program.tired]
		command = "false"
		start_limit = { failures = 1, retry_after = 0 }
		`
	s := harness.NewSite(t, programs)
	s.Start()
	s.WaitState("kept", "running")
	s.WaitState("tired", "failed")
	s.MustCtl("stop", "stopped", "gone", "tired")
	s.MustCtl("start", "later")
	s.MustCtl("start", "tired", "--no-wait")
	s.WaitState("tired", "failed")
	s.MustCtl("shutdown")

	without := strings.Replace(programs, "[program.gone]\n\t\tcommand = \"sleep infinity\"", "", 1)
	s.Configure(without)
	d := s.Start()
	d.ErrOut.Wait(t, "stopped by the operator before superd ended")
	s.WaitState("kept", "running")
	s.WaitState("tired", "failed")
	if st := s.Status("stopped"); st.State != "stopped" || st.Reason != "stopped by the operator" || st.Restarts != 0 {
		t.Errorf("stopped by the operator before the restart: %v", st)
	}
	if st := s.Status("later"); st.State != "stopped" || st.Reason != "not started yet" {
		t.Errorf("started by the operator before the restart, and not by the configuration: %v", st)
	}
	if why := s.MustCtl("why", "stopped").Out; !strings.Contains(why, "wanted down by the operator") {
		t.Errorf("why: %s", why)
	}
	s.MustCtl("shutdown") // not a stop of the programs by the operator

	s.Configure(programs)
	s.Start()
	s.WaitState("kept", "running")
	s.WaitState("gone", "running") // the desired state was removed with the program
	if st := s.Status("stopped"); st.State != "stopped" {
		t.Errorf("after a second restart: %v", st)
	}
	s.MustCtl("start", "stopped")
	s.MustCtl("shutdown")
	if files := s.Files("run/*"); strings.Contains(strings.Join(files, " "), "journal") {
		t.Errorf("nothing is stopped by the operator; left: %v", files)
	}
	d = s.Start()
	for _, name := range []string{"stopped", "kept", "gone"} {
		s.WaitState(name, "running")
	}
	if log := d.ErrOut.String(); strings.Contains(log, "took over") || strings.Contains(log, "journal incomplete") {
		t.Errorf("started anew:\n%s", log)
	}
}
