package tests

import (
	"testing"

	"superd/tests/harness"
)

// TestExecAsUser: a command beside a program of another user, in a sandbox, has the same user,
// groups and sandbox, and can open its terminal by name.
func TestExecAsUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo mine > /tmp/web; echo up; exec sleep infinity"]
		directory = "/"
		user = "daemon"
		supplementary_groups = ["bin"]
		sandbox = { private_tmp = true, protect_system = "full", no_new_privileges = true }
		`)
	s.Chmod(".", 0o755)
	s.Start()
	s.WaitLog("web", "up\n")
	s.WaitState("web", "running")
	for _, tt := range []struct{ name, script, out string }{
		{"user and groups", "id -un; id -Gn", "daemon\ndaemon bin\n"},
		{"the /tmp of the program", "cat /tmp/web; echo new > /tmp/new && cat /tmp/new", "mine\nnew\n"},
		{"a read-only /usr", "touch /usr/superd-test 2>&1 | grep -o 'Read-only file system'", "Read-only file system\n"},
		{"no new privileges", "grep NoNewPrivs /proc/self/status", "NoNewPrivs:\t1\n"},
	} {
		if r := s.MustCtl("exec", "web", "--", "sh", "-c", tt.script); r.Out != tt.out {
			t.Errorf("%s: %q, want %q", tt.name, r.Out, tt.out)
		}
	}
	terminal := harness.NewTerminal(t, 80, 24)
	cmd := terminal.Command(s, "ctl", "--runtime-dir", s.RuntimeDir, "exec", "web", "--", "sh", "-c",
		"echo by name > /dev/tty; echo as $(id -un)")
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, terminal.Screen)
	}
	for _, want := range []string{"by name\r\n", "as daemon\r\n"} {
		terminal.Screen.Wait(t, want)
	}
}
