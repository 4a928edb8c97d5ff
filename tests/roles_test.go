package tests

import (
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestRoles: viewers may see, operators may control, neither may let superd execute what they
// choose, and others may not connect. A reload changes who may.
func TestRoles(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const programs = `
		[program.web]
		command = ["sh", "-c", "echo hello; exec sleep infinity"]
		`
	s := harness.NewSite(t, "[control]\noperators = ['daemon', '@sys']\nviewers = ['bin', '@65533']\n"+programs)
	s.Chmod(".", 0o755)
	s.Start()
	s.WaitLog("web", "hello\n")
	s.WaitState("web", "running")
	users := map[string]*syscall.Credential{
		"operator":         {Uid: 1, Gid: 1},
		"operators":        {Uid: 65534, Gid: 65534, Groups: []uint32{9, 3}}, // group sys
		"primary group":    {Uid: 65534, Gid: 3},
		"viewer":           {Uid: 2, Gid: 2},
		"viewers":          {Uid: 65534, Gid: 65534, Groups: []uint32{65533}},
		"nobody":           {Uid: 65534, Gid: 65534},
		"group is no user": {Uid: 3, Gid: 65534},
	}
	const view, control, nothing = 1, 2, 0
	check := func(user string, may int) {
		t.Helper()
		for _, tt := range []struct {
			args   []string
			needs  int
			errOut string
		}{
			{[]string{"status"}, view, "may not control this superd"},
			{[]string{"logs", "web"}, view, "may not control this superd"},
			{[]string{"why", "web"}, view, "may not control this superd"},
			{[]string{"restart", "web"}, control, "may only view programs"},
			{[]string{"signal", "CONT", "web"}, control, "may only view programs"},
			{[]string{"reload"}, control, "may only view programs"},
			{[]string{"exec", "web", "--", "true"}, 3, "may not do this"},
			{[]string{"upgrade"}, 3, "may not do this"},
		} {
			r := s.RunAs(users[user], append([]string{"ctl", "--runtime-dir", s.RuntimeDir}, tt.args...)...)
			refused := tt.errOut
			if may == nothing {
				refused = "may not control this superd"
			}
			if allowed := may >= tt.needs; allowed != (r.Exit == 0) || !allowed && !strings.Contains(r.ErrOut, refused) {
				t.Errorf("%s: %q: exit status %d, %q, %q", user, tt.args, r.Exit, r.Out, r.ErrOut)
			}
		}
	}
	check("operator", control)
	check("operators", control)
	check("primary group", control)
	check("viewer", view)
	check("viewers", view)
	check("nobody", nothing)
	check("group is no user", nothing)

	s.Configure("[control]\nviewers = ['daemon', 'no-such-user']\n" + programs)
	if r := s.Ctl("diff"); !strings.Contains(r.Out, `- control.operators = ["daemon", "@sys"]`) {
		t.Errorf("diff: %q", r.Out)
	}
	s.MustCtl("reload")
	check("operator", view)
	check("viewer", nothing)
	if r := s.Run("check", "superd.toml"); r.Exit != 0 || !strings.Contains(r.ErrOut, `there is no user "no-such-user"`) {
		t.Errorf("check: exit status %d, %q", r.Exit, r.ErrOut)
	}
}
