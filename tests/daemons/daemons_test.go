// Package daemons runs daemons as Debian ships them under superd, from the files of
// examples/services. Each is started, becomes ready, serves requests while it is reloaded and while
// superd is upgraded, refuses a mistake in its configuration, and is stopped without lost work.
//
// Those of examples/sockets are behind sockets that superd holds. They are restarted under load,
// while superd is killed and upgraded.
//
// make test-daemons installs them and runs this. It needs root.
package daemons

import (
	"flag"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"superd/tests/harness"
)

var enabled = flag.Bool("daemons", false, "run the daemons, which must be installed")

func TestMain(m *testing.M) {
	flag.Parse()
	if !*enabled {
		os.Exit(m.Run())
	}
	harness.Main(m)
}

// A site is the folder of a superd that runs a daemon.
type site struct{ *harness.Site }

// newSite makes a site for a daemon of these packages.
func newSite(t *testing.T, packages ...string) *site {
	if !*enabled {
		t.Skip("make test-daemons runs this")
	}
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("daemons are started as root")
	}
	out, err := exec.Command("dpkg-query", append([]string{"-W", "-f", "${Package} ${Version}\n"}, packages...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("not installed: %v: %s", err, out)
	}
	t.Logf("%s", out)
	return &site{harness.NewSite(t, "")}
}

// stop stops a program, which has to end by itself, with status 0.
func (s *site) stop(name string) {
	s.T.Helper()
	s.MustCtl("stop", "--timeout", "80s", name)
	s.stopped(name)
}

// stopped checks that a program has stopped by itself.
func (s *site) stopped(name string) {
	s.T.Helper()
	st := s.WaitState(name, "stopped")
	if st.Exit.String() != "0" {
		s.T.Errorf("%v, want that it ended by itself, with status 0\n%s", st, s.Log(name))
	}
}

// run runs a command to its end, and returns its output.
func (s *site) run(command ...string) string {
	s.T.Helper()
	cmd := exec.CommandContext(s.T.Context(), command[0], command[1:]...)
	cmd.Dir = s.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.T.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

// want checks that a command prints a text.
func (s *site) want(text string, command ...string) {
	s.T.Helper()
	if got := s.run(command...); got != text {
		s.T.Errorf("%s: %q, want %q", strings.Join(command, " "), got, text)
	}
}

// userOf returns the name of a process's user.
func userOf(t *testing.T, pid int) string {
	t.Helper()
	out, err := exec.Command("ps", "-o", "user:20=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	return strings.TrimSpace(string(out))
}
