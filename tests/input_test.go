package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// wantMessage fails the test unless a command ended with the given status and a message that fits a
// screen and has every one of the given parts.
func wantMessage(t *testing.T, r harness.Result, exit int, parts ...string) {
	t.Helper()
	if r.Exit != exit {
		t.Errorf("exit status %d, want %d\n%s%s", r.Exit, exit, r.Out, r.ErrOut)
	}
	for _, part := range parts {
		if !strings.Contains(r.ErrOut, part) {
			t.Errorf("message without %q:\n%s", part, r.ErrOut)
		}
	}
	if n := strings.Count(r.ErrOut, "\n"); n == 0 || n > 24 || strings.Contains(r.ErrOut, "goroutine ") {
		t.Errorf("message of %d lines, want one that fits a screen:\n%s", n, r.ErrOut)
	}
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	const good = "[program.web]\ncommand = 'true'\n"
	tests := []struct {
		name, file string // file: the whole superd.toml
		want       []string
	}{
		{"not TOML", "[program.web\ncommand = 'true'\n", []string{"superd.toml:1:"}},
		{"unknown key", "[program.web]\ncomand = 'true'\n", []string{"superd.toml:2:1: program.web.comand: ", `did you mean "command"?`}},
		{"unknown table", good + "[programs.db]\n", []string{"superd.toml:3:", "programs", `"program"`}},
		{"wrong type", "[program.web]\ncommand = 5\n", []string{"superd.toml:2:", "program.web.command", "5"}},
		{"bad name", "[program.'we b']\ncommand = 'true'\n", []string{"superd.toml:1:", `"we b"`, "letters, digits"}},
		{"duration without unit", good + "stop_timeout = '5'\n", []string{"superd.toml:3:", "program.web.stop_timeout", `"5"`, `"5s"`}},
		{"duration as number", good + "stop_timeout = 5\n", []string{"superd.toml:3:", "program.web.stop_timeout", `"5s"`}},
		{"unknown signal", good + "stop_signal = 'SIGTREM'\n", []string{"superd.toml:3:", "program.web.stop_signal", "SIGTREM"}},
		{"no command", "[program.web]\nautostart = true\n", []string{"superd.toml:1:", "program.web", "command"}},
		{"negative timeout", good + "stop_timeout = '-1s'\n", []string{"superd.toml:3:", "program.web.stop_timeout", "-1s"}},
		{"no time to start", good + "start_timeout = '0s'\n", []string{"superd.toml:3:", "program.web.start_timeout", "0s"}},
		{"oneshot for ever", good + "type = 'oneshot'\nrestart = 'always'\n", []string{"superd.toml:4:", "program.web.restart", "one-shot"}},
		{"schedule of a service", good + "schedule = '@daily'\n", []string{"superd.toml:3:", "program.web.schedule", "one-shot"}},
		{"umask", good + "umask = '088'\n", []string{"superd.toml:3:", "program.web.umask", "088"}},
		{"limit", good + "limits.nofile = -1\n", []string{"superd.toml:3:", "program.web.limits.nofile", "-1"}},
		{"pre_start", good + "pre_start = 5\n", []string{"superd.toml:3:", "program.web.pre_start"}},
		{"exit_when", "[superd]\nexit_when = 'later'\n" + good, []string{"superd.toml:2:", "superd.exit_when", "later"}},
		{"name twice", good + good, []string{"superd.toml:3:", "web"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, "")
			s.Write("superd.toml", tt.file)
			wantMessage(t, s.Run("check", "-c", s.Config), 2, tt.want...)
			wantMessage(t, s.Run("run", "-c", s.Config, "--strict", "--runtime-dir", s.RuntimeDir), 2, tt.want...)

			var report any
			if out := s.Run("check", "--json", "-c", s.Config).Out; json.Unmarshal([]byte(out), &report) != nil {
				t.Errorf("check --json is not JSON: %q", out)
			}
		})
	}
}

func TestEveryMistakeInOneReport(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	s.Write("superd.toml", `
[superd]
exit_when = "later"
[program.web]
comand = "true"
stop_timeout = "5"
restart = "allways"
[program.db]
command = "true"
requires = ["nobody"]
stop_signal = "SIGNONE"
`)
	positions := []string{"superd.toml:3:", "superd.toml:5:", "superd.toml:6:", "superd.toml:7:", "superd.toml:10:", "superd.toml:11:"}
	wantMessage(t, s.Run("check"), 2, positions...)
}

// TestMistakeInOneProgram: a mistake in one program's table fails that program; the others run.
func TestMistakeInOneProgram(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.bad]
		command = "sleep infinity"
		stop_timeout = "5"
		[program.good]
		command = "sleep infinity"
		`)
	s.Start()
	s.WaitState("good", "running")
	if st := s.WaitState("bad", "failed"); !strings.Contains(st.Reason, "stop_timeout") {
		t.Errorf("a program with a mistake: %v, want the mistake as its reason", st)
	}
	if r := s.Ctl("start", "bad"); r.Exit != 1 {
		t.Errorf("ctl start of a program with a mistake: exit status %d, want 1\n%s%s", r.Exit, r.Out, r.ErrOut)
	}
}

func TestBrokenEnvFile(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		env_file = "web.env"
		`)
	s.Write("web.env", "GOOD=1\n# comment\nwhat is this\n")
	wantMessage(t, s.Run("check", "-c", s.Config), 2, "web.env:3:", "what is this")
	s.Start()
	if st := s.WaitState("web", "failed"); !strings.Contains(st.Reason, "web.env:3:") {
		t.Errorf("a broken env_file: %v, want its place as the reason", st)
	}
}

// TestNotOnThisMachine: what is wrong only on this machine, or at present, is a warning of check,
// and a failure of the program.
func TestNotOnThisMachine(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		command = "sleep infinity"
		restart = "never"
		[program.user]
		user = "no-such-user"
		[program.group]
		supplementary_groups = ["no-such-group"]
		[program.nofile]
		limits.nofile = 1073741816
		[program.unset]
		environment = { NAME = "-${NO_SUCH_VARIABLE}-" }
		[program.good]
		`)
	want := map[string][]string{
		"user":   {"no-such-user"},
		"group":  {"no-such-group"},
		"nofile": {"1073741816"},
		"unset":  {"NO_SUCH_VARIABLE"},
	}
	check := s.Run("check", "-c", s.Config)
	s.Start()
	s.WaitState("good", "running")
	for name, parts := range want {
		st := s.WaitState(name, "failed")
		for _, part := range parts {
			if !strings.Contains(st.Reason, part) {
				t.Errorf("reason of %s = %q, want %q in it", name, st.Reason, part)
			}
			if text := check.Out + check.ErrOut; !strings.Contains(text, part) {
				t.Errorf("check says nothing of %q:\n%s", part, text)
			}
		}
	}
	if check.Exit != 0 {
		t.Errorf("check: exit status %d, want 0: these are warnings", check.Exit)
	}
}

func TestBadPaths(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.web]\ncommand = 'true'\n")
	wantMessage(t, s.Run("run", "-c", s.Path("none.toml")), 2, s.Path("none.toml"), "no such file")
	wantMessage(t, s.Run("check", "-c", s.Dir), 2, s.Dir, "directory")
	s.Write("file", "")
	wantMessage(t, s.Run("run", "--runtime-dir", s.Path("file")), 1, s.Path("file"), "directory")
	wantMessage(t, s.Run("run", "--runtime-dir", "/proc/superd"), 1, "/proc/superd")
	long := s.Path(strings.Repeat("long/", 30))
	wantMessage(t, s.Run("run", "--runtime-dir", long), 1, s.Path("long"), "107")
	wantMessage(t, s.Ctl("status"), 4, s.RuntimeDir)

	if err := os.Remove(s.Config); err != nil {
		t.Fatal(err)
	}
	s.Env = append(s.Env, "XDG_CONFIG_HOME="+s.Path("xdg"))
	if _, err := os.Stat("/etc/superd/superd.toml"); err == nil {
		t.Skip("this machine has a configuration of superd in /etc")
	}
	wantMessage(t, s.Run("run"), 2, "superd.toml", "/etc/superd/superd.toml", "-c")
}

func TestUnwritableDirectories(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("may not become another user")
	}
	otherUser := &syscall.Credential{Uid: 65534, Gid: 65534}
	s := harness.NewSite(t, "[program.web]\ncommand = 'true'\n")
	wantMessage(t, s.RunAs(otherUser, "run", "-c", s.Config), 1, s.RuntimeDir, "permission denied")
	if err := os.Chmod(s.Config, 0o600); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, s.RunAs(otherUser, "run", "-c", s.Config), 2, s.Config, "permission denied")
	wantMessage(t, s.RunAs(otherUser, "check", "-c", s.Config), 2, s.Config, "permission denied")
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\n")
	s.Start()
	for _, args := range []string{"frobnicate", "run --frobnicate", "run extra", "ctl", "ctl frobnicate", "ctl start", "ctl signal web", "ctl signal NONE web"} {
		if r := s.Run(strings.Fields(args)...); r.Exit != 2 || r.ErrOut == "" || strings.Count(r.ErrOut, "\n") > 35 {
			t.Errorf("superd %s: exit status %d, message %q, want 2 and a short one", args, r.Exit, r.ErrOut)
		}
	}
	for _, args := range []string{"--help", "run --help", "ctl --help", "ctl status --help", "version", "version --json", "check"} {
		if r := s.Run(strings.Fields(args)...); r.Exit != 0 || r.Out == "" {
			t.Errorf("superd %s: exit status %d, output %q, message %q, want 0 and an output", args, r.Exit, r.Out, r.ErrOut)
		}
	}
}

// TestExamples: the configurations in examples/ have no mistakes, even where this machine lacks
// what they name.
func TestExamples(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	found, err := filepath.Glob("../examples/*/*.toml")
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	for _, path := range found {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Run("check", "-c", path); r.Exit != 0 {
			t.Errorf("superd check of %s: %d\n%s%s", path, r.Exit, r.Out, r.ErrOut)
		}
	}
}
