package tests

import (
	"os/exec"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestCommandLine: what a newcomer types works, or the answer says what to type.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo hello; sleep infinity"]
		`)
	s.Start(func(cmd *exec.Cmd) { cmd.Args = []string{"superd", "run", "superd.toml"} })
	s.WaitLog("web", "hello\n")
	in := "--runtime-dir=" + s.RuntimeDir
	for _, tt := range []struct {
		args         []string
		exit         int
		out, errOut  string // must be contained
		neverPrinted string
	}{
		{args: []string{"check", "superd.toml"}, out: "superd.toml: 1 program, no mistakes\n"},
		{args: []string{"check", "--security", "superd.toml"}, out: "may have every capability"},
		{args: []string{"check", "--security", "--json", "superd.toml"}, out: `"remedy":"sandbox.private_tmp = true"`},
		{args: []string{"check", "--security", "none.toml"}, exit: 2, errOut: "none.toml"},
		{args: []string{"check", "-c", "superd.toml", "superd.toml"}, exit: 2, errOut: "more than one configuration file"},
		{args: []string{"check", "superd.toml", "other.toml"}, exit: 2, errOut: "more than one configuration file"},
		{args: []string{"schema"}, out: `"$schema"`},
		{args: []string{"--version"}, out: "superd "},
		{args: []string{"status", in}, out: "hello"},
		{args: []string{"status", "-c", "superd.toml", "web"}, out: "hello"},
		{args: []string{"status", in, "web"}, out: "Tasks: "},
		{args: []string{"status", in, "--long=false", "web"}, out: "LAST LINE", neverPrinted: "Defined: "},
		{args: []string{"status", in, "w*"}, out: "LAST LINE", neverPrinted: "Defined: "},
		{args: []string{"status", in, "--long"}, out: "Defined: "},
		{args: []string{"status", in, "--long", "--json"}, exit: 2, errOut: "--long cannot be combined"},
		{args: []string{"is-active", in, "web"}, out: "active\n"},
		{args: []string{"is-active", in, "nosuch"}, exit: 3, out: "inactive\n", errOut: `no program, instance or group is named "nosuch"`},
		{args: []string{"is-active", in, "--json", "web"}, out: `{"name":"web","active":"active","states":["running"]}`},
		{args: []string{"is-active", in, "-q", "nosuch"}, exit: 3},
		{args: []string{"is-failed", in, "web"}, exit: 1, out: "active\n"},
		{args: []string{"is-failed", in}, exit: 2, errOut: "missing NAME"},
		{args: []string{"show", in, "-p", "state,exit.code", "web"}, out: "state=running\nexit.code=\n"},
		{args: []string{"show", in, "-p", "state", "--value", "web"}, out: "running\n", neverPrinted: "state"},
		{args: []string{"show", in, "-p", "stat", "web"}, exit: 2, errOut: `did you mean "state"?`},
		{args: []string{"show", in, "-p", "MainPID", "web"}, exit: 2, errOut: "the key pid has what systemctl shows as MainPID"},
		{args: []string{"list-dependencies", in, "web"}, out: "web: running\n"},
		{args: []string{"list-dependencies", in, "--json", "--reverse", "web"}, out: `"below":[]}`},
		{args: []string{"logs", in, "web"}, out: "hello\n"},
		{args: []string{"logs", in, "--clear"}, exit: 2, errOut: "--clear needs names: '*' for all programs"},
		{args: []string{"logs", in, "--clear=some", "web"}, exit: 2, errOut: `want current or all, got "some"`},
		{args: []string{"why", in, "web"}, out: "web is running"},
		{args: []string{"logs", in, "--clear", "web"}, out: "web: log cleared"},
		{args: []string{"logs", in, "web"}, neverPrinted: "hello"},
		{args: []string{"logs", in, "--clear=all", "web"}, out: "web: log cleared"},
		{args: []string{"events", in}, out: "started"},
		{args: []string{"history", in, "web"}, out: "running"},
		{args: []string{"tree", in}, out: "sleep infinity"},
		{args: []string{"restart", in, "web"}, out: "web: running"},
		{args: []string{"restart", in, "--rolling", "web"}, out: "web: running"},
		{args: []string{"restart", in, "--canary", "1", "web"}, exit: 2, errOut: "add --rolling"},
		{args: []string{"continue", in, "web"}, exit: 1, errOut: "web: no rolling restart is under way"},
		{args: []string{"undo", in, "web"}, exit: 1, errOut: "web: no rolling restart is under way"},
		{args: []string{"signal", in, "CONT", "web"}, out: "web: "},
		{args: []string{"scale", in, "web=1"}, out: "web: 1 instance"},
		{args: []string{"reload", in}, out: "nothing has changed"},
		{args: []string{"reload", in, "web"}, exit: 1, errOut: "no reload_signal and no reload_command"},
		{args: []string{"reload", in, "--json", "web"}, exit: 2, errOut: "for a reload without names"},
		{args: []string{"reload", in, "--wait", "web"}, exit: 2, errOut: "for a reload without names"},
		{args: []string{"reload", in, "--wait", "--dry-run"}, exit: 2, errOut: "cannot be combined"},
		{args: []string{"reload", in, "--timeout", "1s"}, exit: 2, errOut: "add --wait or NAME"},
		{args: []string{"stop", in, "web"}, out: "web: stopped"},
		{args: []string{"start", in, "web"}, out: "web: running"},
		{args: []string{"statsu"}, exit: 2, errOut: "did you mean `superd status`?"},
		{args: []string{"ctl", "restrat", "web"}, exit: 2, errOut: "did you mean `superd ctl restart`?"},
		{args: []string{"ctl", "check"}, exit: 2, errOut: "did you mean `superd check`?"},
		{args: []string{"superd.toml"}, exit: 2, errOut: "did you mean `superd run superd.toml`?"},
		{args: []string{"status", in, "--jsno"}, exit: 2, errOut: "did you mean --json?"},
		{args: []string{"--help"}, out: "/etc/superd/superd.toml", neverPrinted: "history"},
		{args: []string{"run", "--help"}, out: "/etc/superd/superd.toml"},
		{args: []string{"check", "--help"}, out: "Examples:"},
		{args: []string{"ctl", "--help"}, out: "Examples:"},
		{args: []string{"check", "no\u009b2J.toml"}, exit: 2, errOut: `no\u009b2J.toml`},
		{args: []string{"__complete", "hist"}, out: "history\t"},
		{args: []string{"__complete", "stop", in, ""}, out: "web\trunning"},
	} {
		r := s.Run(tt.args...)
		if r.Exit != tt.exit || !strings.Contains(r.Out, tt.out) || !strings.Contains(r.ErrOut, tt.errOut) ||
			tt.neverPrinted != "" && strings.Contains(r.Out, tt.neverPrinted) {
			t.Errorf("superd %q: exit status %d, %q, %q\nwant %d, %q, %q, without %q",
				tt.args, r.Exit, r.Out, r.ErrOut, tt.exit, tt.out, tt.errOut, tt.neverPrinted)
		}
	}
}

// TestMistakesNewcomersMake: an empty file is a mistake, also for a reload. For a command with its
// arguments in one string of an array, the message shows how to split it.
func TestMistakesNewcomersMake(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		[program.ls]
		command = ["ls -l"]
		restart = "never"
		`)
	s.Start()
	pid := s.WaitState("web", "running").Pid
	const split = `write ["ls", "-l"], or "ls -l" without the brackets`
	if st := s.WaitState("ls", "failed"); !strings.Contains(st.Reason, split) {
		t.Errorf("ls failed because of %q, want %s", st.Reason, split)
	}
	if r := s.Run("check", "superd.toml"); !strings.Contains(r.ErrOut, split) {
		t.Errorf("check says %q, want %s", r.ErrOut, split)
	}
	for _, empty := range []string{"", "\ufeff", "\ufeff \n"} {
		s.Write("superd.toml", empty)
		for _, r := range []harness.Result{s.Run("check", "superd.toml"), s.Run("run", "superd.toml"), s.Ctl("reload")} {
			if r.Exit != 2 || !strings.Contains(r.ErrOut, "superd.toml: is empty: write a [program.NAME] table") {
				t.Errorf("with a file of %q: exit status %d, %q, %q", empty, r.Exit, r.Out, r.ErrOut)
			}
		}
	}
	if st := s.Status("web"); st.State != "running" || st.Pid != pid {
		t.Errorf("after a reload of an empty file: %v", st)
	}
}
