// Package daemons runs daemons as Debian ships them under superd: in the foreground, with the
// options of their units, as their own users, dropping privileges as their packages do. Each is
// started, becomes ready, serves a request, and is stopped without lost work.
//
// make test-daemons installs them and runs this. It needs root.
package daemons

import (
	"errors"
	"flag"
	"net"
	"os"
	"os/exec"
	"os/user"
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

// A site is a folder for a daemon, with placeholders in its files.
type site struct {
	*harness.Site
	replacements []string
}

// newSite makes a site with the configuration of superd, in which DIR and names given to port are
// placeholders.
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
	s := &site{Site: harness.NewSite(t, "")}
	s.replacements = []string{"DIR", s.Dir}
	return s
}

// port draws a free port for a placeholder.
func (s *site) port(word string) string {
	s.T.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.T.Fatal(err)
	}
	defer listener.Close()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	s.replacements = append(s.replacements, word, port)
	return port
}

func (s *site) expand(text string) string {
	return strings.NewReplacer(s.replacements...).Replace(text)
}

// file writes a file of the site.
func (s *site) file(name, text string) {
	s.T.Helper()
	s.Write(name, s.expand(text))
}

// folder makes a folder that belongs to a user.
func (s *site) folder(name, owner string) {
	s.T.Helper()
	s.Mkdir(name)
	s.give(name, owner)
}

func (s *site) give(name, owner string) {
	s.T.Helper()
	u, err := user.Lookup(owner)
	if err != nil {
		s.T.Fatal(err)
	}
	uid, errUID := strconv.Atoi(u.Uid)
	gid, errGID := strconv.Atoi(u.Gid)
	if err := errors.Join(errUID, errGID, os.Chown(s.Path(name), uid, gid)); err != nil {
		s.T.Fatal(err)
	}
}

// start starts superd with these programs, and waits until all are ready.
func (s *site) start(programs string) {
	s.T.Helper()
	s.Configure(s.expand(programs))
	s.Start()
	s.WaitRunning()
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
	for i, arg := range command {
		command[i] = s.expand(arg)
	}
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
