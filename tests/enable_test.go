package tests

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestEnable: what an operator enables or disables starts or stops nothing now, and decides what
// starts with superd: after an orderly end, a kill, an upgrade and a reload. The file of the
// configuration stays as it is.
func TestEnable(t *testing.T) {
	t.Parallel()
	const programs = `
		[program.web]
		command = "sleep infinity"
		[program.off]
		command = "sleep infinity"
		autostart = false
		`
	s := harness.NewSite(t, programs)
	d := s.Start()
	web := s.WaitState("web", "running")
	before := s.Read("superd.toml")
	wantOut := func(r harness.Result, want string) {
		t.Helper()
		if r.Out != want {
			t.Errorf("it prints %q, want %q", r.Out, want)
		}
	}
	wantOut(s.MustCtl("disable", "web"), "web: does not start with superd; it is running\n")
	wantOut(s.MustCtl("disable", "web"), "web: does not start with superd as before; it is running\n")
	wantOut(s.MustCtl("enable", "off"), "off: starts with superd; it is stopped\n")
	check := func(when string) {
		t.Helper()
		web, off := s.Status("web"), s.Status("off")
		if web.Autostart || web.Enablement != "disabled" || !off.Autostart || off.Enablement != "enabled" {
			t.Errorf("%s: web %v %q, off %v %q", when, web.Autostart, web.Enablement, off.Autostart, off.Enablement)
		}
	}
	check("at first")
	if st := s.Status("off"); st.State != "stopped" {
		t.Errorf("enable has started off: %v", st)
	}
	if r := s.MustCtl("cat", "web"); !strings.Contains(r.Out, "autostart = false # disabled by the operator\n") {
		t.Errorf("cat web: %s", r.Out)
	}
	if r := s.MustCtl("why", "off"); !strings.Contains(r.Out, "starts with superd, as the operator has enabled it") {
		t.Errorf("why off: %s", r.Out)
	}
	s.MustCtl("diff")
	s.Track(d.Pid).Kill()
	d.FindSupervisor()
	check("after a kill")
	s.MustCtl("upgrade")
	check("after an upgrade")
	s.MustCtl("reload")
	check("after a reload")
	if st := s.Status("web"); st.Pid != web.Pid || st.State != "running" {
		t.Errorf("web: %v, want pid %d", st, web.Pid)
	}
	d.Signal(syscall.SIGTERM)
	d.Wait()
	if got := s.Read("superd.toml"); got != before {
		t.Errorf("the configuration has changed:\n%s", got)
	}
	s.Start()
	s.WaitState("off", "running")
	check("after an orderly end")
	if st := s.Status("web"); st.State != "stopped" {
		t.Errorf("web is disabled, and %v", st)
	}
	// Back to what the configuration says: the file is gone
	if r := s.MustCtl("disable", "--now", "off"); !strings.HasPrefix(r.Out, "off: does not start with superd; it is running\noff: stopped by the operator") {
		t.Errorf("disable --now: %q", r.Out)
	}
	if r := s.MustCtl("enable", "--now", "web"); !strings.HasPrefix(r.Out, "web: starts with superd; it is stopped\nweb: running, pid ") {
		t.Errorf("enable --now: %q", r.Out)
	}
	if _, err := os.Stat(s.Path("superd.toml.autostart")); !os.IsNotExist(err) {
		t.Errorf("the file of decisions is still there: %v", err)
	}
	if st := s.Status("web"); !st.Autostart || st.Enablement != "" {
		t.Errorf("web: %v %q", st.Autostart, st.Enablement)
	}
}

// TestEnableRefused: enable refuses with a remedy what it can't do, and does nothing then.
func TestEnableRefused(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		replicas = 2
		log.sink = "command"
		log.command = "cat"
		[program.demand]
		command = "sleep infinity"
		sockets = ["s"]
		start = "on-connect"
		groups = ["idle"]
		[socket.s]
		listen = ["unix:DIR/s.sock"]
		`)
	s.Start()
	s.WaitState("web@2", "running")
	for name, want := range map[string]string{
		"web@2":      "web@2: it is an instance: name its program, web",
		"wbe":        `no program, instance or group is named "wbe"; did you mean "web"?`,
		"demand":     `demand: connections start it, not superd`,
		"idle":       `idle: it has no program that can be enabled or disabled: demand: connections start it`,
		"web.logger": "web.logger: it is the logger of web, and starts with that",
	} {
		if r := s.Ctl("disable", name); r.Exit != 1 || !strings.Contains(r.ErrOut, want) {
			t.Errorf("disable %s: exit status %d, %q, want %q", name, r.Exit, r.ErrOut, want)
		}
	}
	// A directory in place of the file, which superd can't write
	s.Mkdir("superd.toml.autostart")
	r := s.Ctl("disable", "web")
	if r.Exit != 1 || !strings.Contains(r.ErrOut, "superd.toml.autostart") || !strings.Contains(r.ErrOut, "or write autostart = false below ") {
		t.Errorf("disable without a file: exit status %d, %q", r.Exit, r.ErrOut)
	}
	if st := s.Status("web@1"); !st.Autostart || st.Enablement != "" {
		t.Errorf("web@1: %v %q", st.Autostart, st.Enablement)
	}
	if err := os.Remove(s.Path("superd.toml.autostart")); err != nil {
		t.Fatal(err)
	}
	// A link is replaced, not followed
	s.Write("victim", "")
	s.Link("superd.toml.autostart", s.Path("victim"))
	s.MustCtl("disable", "web")
	if got := s.Read("victim"); got != "" {
		t.Errorf("what the link names has become %q", got)
	}
	if got := s.Read("superd.toml.autostart"); !strings.HasSuffix(got, "\n\"web\" = false\n") {
		t.Errorf("the file: %q", got)
	}
	if r := s.Run("check", "superd.toml"); r.Exit != 0 {
		t.Errorf("check: %s", r.ErrOut)
	}
	// A file with mistakes is refused with its place, and nothing changes
	s.Write("superd.toml.autostart", "web = 1\ngone = true\n")
	if r := s.Ctl("reload"); r.Exit != 2 || !strings.Contains(r.ErrOut, "superd.toml.autostart:1:7: web: must be true or false") {
		t.Errorf("reload with a mistake: %d, %q", r.Exit, r.ErrOut)
	}
	if r := s.Run("check", "superd.toml"); !strings.Contains(r.ErrOut+r.Out, "no program has this name") {
		t.Errorf("check: %s%s", r.Out, r.ErrOut)
	}
}
