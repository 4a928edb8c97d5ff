package tests

import (
	"maps"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

const sound = `
	[program.kept]
	command = "sleep infinity"
	[program.changed]
	command = "sleep infinity"
	[program.removed]
	command = "sleep infinity"
	`

func TestReload(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, sound)
	d := s.Start()
	before := s.WaitRunning()
	s.Configure(`
		[program.kept]
		command = "sleep infinity"
		[program.changed]
		command = ["sh", "-c", "echo new; exec sleep infinity"]
		[program.added]
		command = "sleep infinity"
		`)
	r := s.MustCtl("reload")
	for _, name := range []string{"changed", "removed", "added"} {
		if !strings.Contains(r.Out, name) {
			t.Errorf("ctl reload says %q, want %s in it", r.Out, name)
		}
	}
	s.WaitLog("changed", "new\n")
	harness.Until(t, "the removed program is gone", func() bool { return len(s.All()) == 3 && !harness.Alive(before["removed"]) })
	after := s.WaitRunning()
	if after["kept"] != before["kept"] || after["changed"] == before["changed"] || after["added"] == 0 {
		t.Errorf("pids %v before the reload, %v after it, want only kept's kept", before, after)
	}

	// No difference: nothing changes.
	d.Signal(syscall.SIGHUP)
	d.ErrOut.WaitTimes(t, "configuration reloaded", 2)
	s.MustCtl("reload")
	if pids := s.WaitRunning(); !maps.Equal(pids, after) {
		t.Errorf("pids %v after a reload of the same file, want %v", pids, after)
	}
}

func TestBrokenReload(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, sound)
	d := s.Start()
	before := s.WaitRunning()
	s.Configure(`
		[program.kept]
		comand = "sleep infinity"
		[program.changed]
		command = "sleep infinity"
		stop_timeout = "5"
		[program.changed.restart]
		`)
	mistakes := []string{"superd.toml:6:", "comand", "superd.toml:9:", "stop_timeout", "restart"}
	r := s.Ctl("reload")
	if r.Exit != 2 {
		t.Errorf("ctl reload of a broken file: exit status %d, want 2", r.Exit)
	}
	for _, want := range mistakes {
		if !strings.Contains(r.Out+r.ErrOut, want) {
			t.Errorf("ctl reload says %q, want %q in it", r.Out+r.ErrOut, want)
		}
	}
	d.Signal(syscall.SIGHUP)
	d.ErrOut.WaitTimes(t, "not reloaded", 2)
	for _, want := range mistakes {
		d.ErrOut.WaitTimes(t, want, 2)
	}

	s.Write("superd.toml", "[program.kept\n") // not TOML at all
	if r := s.Ctl("reload"); r.Exit != 2 || !strings.Contains(r.ErrOut, "superd.toml:1:") {
		t.Errorf("ctl reload of what is not TOML: exit status %d, %q, want 2 and the place", r.Exit, r.ErrOut)
	}
	if pids := s.WaitRunning(); !maps.Equal(pids, before) {
		t.Errorf("pids %v after broken reloads, want %v", pids, before)
	}
	// A restart uses the old configuration.
	s.Kill(before["kept"], syscall.SIGKILL)
	s.WaitStatus("kept", "is restarted", func(st harness.Status) bool { return st.State == "running" && st.Restarts == 1 })
}

// TestReloadKeepsStopped: a program stopped by the operator stays stopped across a reload.
func TestReloadKeepsStopped(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, sound)
	s.Start()
	s.WaitRunning()
	s.MustCtl("stop", "changed")
	s.Configure(strings.Replace(sound, `"sleep infinity"`, `"sleep 1d"`, 2))
	s.MustCtl("reload")
	s.WaitStatus("kept", "is restarted", func(st harness.Status) bool { return st.State == "running" })
	if st := s.Status("changed"); st.State != "stopped" {
		t.Errorf("stopped by the operator, then changed: %v, want stopped", st)
	}
}
