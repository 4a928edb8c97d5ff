package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A Site is a folder with superd.toml, a runtime directory and a log directory.
type Site struct {
	T          testing.TB
	Dir        string
	Config     string // superd.toml
	RuntimeDir string
	LogDir     string
	Env        []string // superd's environment, if not the test's

	superd  *Superd // last one started; nil before
	tracked []*Tracked
}

// NewSite makes a site with the given programs: TOML without the table [superd], which the site
// writes.
func NewSite(t testing.TB, programs string) *Site {
	t.Helper()
	// Not t.TempDir: its paths are too long for a socket.
	dir, err := os.MkdirTemp("", "superd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // other users connect to superd, too
		t.Fatal(err)
	}
	s := &Site{
		T: t, Dir: dir, Config: filepath.Join(dir, "superd.toml"),
		RuntimeDir: filepath.Join(dir, "run"), LogDir: filepath.Join(dir, "log"),
	}
	// A race-built child would sleep for a second at its exit.
	s.Env = append(inherited(), marker+dir, "GORACE=atexit_sleep_ms=0")
	s.Configure(programs)
	t.Cleanup(s.close)
	return s
}

// marker is in the environment of superd and so in that of everything it starts. (superd reserves
// variables named SUPERD_.)
const marker = "TEST_SITE="

// inherited returns the environment of the test without what changes how superd behaves.
func inherited() []string {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "RUNTIME_DIRECTORY", "SUPERD_RUNTIME_DIR", "NO_COLOR":
		default:
			env = append(env, e)
		}
	}
	return env
}

// Configure replaces the programs of superd.toml. In them, DIR stands for the site's folder.
func (s *Site) Configure(programs string) {
	s.T.Helper()
	head := "[superd]\nruntime_dir = 'run'\nlog_dir = 'log'\n"
	s.Write("superd.toml", head+strings.ReplaceAll(programs, "DIR", s.Dir))
}

// Write writes a file of the site in one step, with the mode of a script when it starts with #!.
func (s *Site) Write(name, text string) string {
	s.T.Helper()
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	path := s.Path(name)
	if err := errors.Join(WriteFile(path+".new", []byte(text), mode), os.Rename(path+".new", path)); err != nil {
		s.T.Fatal(err)
	}
	return path
}

// WriteFile is os.WriteFile for a file that may be executed. While it is written, no other test
// forks a process, which would have it open for writing for a moment: the exec would fail with
// ETXTBSY.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, data, mode)
}

// Path returns the path of a file of the site.
func (s *Site) Path(name string) string { return filepath.Join(s.Dir, name) }

// Read returns the content of a file of the site, "" where there is none yet.
func (s *Site) Read(name string) string {
	s.T.Helper()
	b, err := os.ReadFile(s.Path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.T.Fatal(err)
	}
	return string(b)
}

// Mkdir makes a folder of the site.
func (s *Site) Mkdir(name string) {
	s.T.Helper()
	if err := os.Mkdir(s.Path(name), 0o755); err != nil {
		s.T.Fatal(err)
	}
}

// Chmod changes the mode of a file of the site.
func (s *Site) Chmod(name string, mode os.FileMode) {
	s.T.Helper()
	if err := os.Chmod(s.Path(name), mode); err != nil {
		s.T.Fatal(err)
	}
}

// Move renames a file of the site.
func (s *Site) Move(from, to string) {
	s.T.Helper()
	if err := os.Rename(s.Path(from), s.Path(to)); err != nil {
		s.T.Fatal(err)
	}
}

// Link makes a symbolic link in the site.
func (s *Site) Link(name, to string) {
	s.T.Helper()
	if err := os.Symlink(to, s.Path(name)); err != nil {
		s.T.Fatal(err)
	}
}

// Files returns the files of the site that match a glob, by name.
func (s *Site) Files(glob string) []string {
	s.T.Helper()
	found, err := filepath.Glob(s.Path(glob))
	if err != nil || len(found) == 0 {
		s.T.Fatalf("files %s: %v, %v", glob, found, err)
	}
	for i, path := range found {
		found[i], _ = filepath.Rel(s.Dir, path)
	}
	return found
}

// Gate makes a gate for children (package child) and returns the function that opens it. Until
// then, children that reach it wait; afterwards they pass.
func (s *Site) Gate(name string) (open func()) {
	s.T.Helper()
	path := s.Path(name)
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		s.T.Fatal(err)
	}
	// Read-write, so that neither this open nor that of a child waits.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { f.Close() })
	return func() {
		s.T.Helper()
		s.Write(name, "") // for children that come later
		f.Close()         // for children that wait
	}
}

// Steps makes a FIFO whose lines a script reads one by one, with `read`, each as the signal for its
// next step. It returns the function that writes such a line.
func (s *Site) Steps(name string) (step func(line ...any)) {
	s.T.Helper()
	if err := syscall.Mkfifo(s.Path(name), 0o600); err != nil {
		s.T.Fatal(err)
	}
	f, err := os.OpenFile(s.Path(name), os.O_RDWR, 0) // does not wait for a reader
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { f.Close() })
	return func(line ...any) {
		s.T.Helper()
		if _, err := fmt.Fprintln(f, line...); err != nil {
			s.T.Fatal(err)
		}
	}
}

// A Result is the result of a command that has ended.
type Result struct {
	Exit        int
	Out, ErrOut string
}

// Run runs superd with the given arguments to its end.
func (s *Site) Run(args ...string) Result {
	s.T.Helper()
	return s.RunAs(nil, args...)
}

// RunAs is Run as another user.
func (s *Site) RunAs(credential *syscall.Credential, args ...string) Result {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "superd", args...)
	cmd.Dir = s.Dir
	cmd.Env = s.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.T.Fatal(err)
	}
	if ctx.Err() != nil {
		s.T.Fatalf("superd %s: not done within %v\n%s%s", strings.Join(args, " "), Deadline, &out, &errOut)
	}
	return Result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// Command returns a superd command of the site that the test starts itself. It ends with the test.
func (s *Site) Command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.T.Context(), "superd", args...)
	cmd.Dir, cmd.Env = s.Dir, s.Env
	return cmd
}

// Ctl runs superd ctl with the given command and arguments to its end.
func (s *Site) Ctl(args ...string) Result {
	s.T.Helper()
	return s.Run(append([]string{"ctl", "--runtime-dir", s.RuntimeDir}, args...)...)
}

// MustCtl is Ctl for a command that has to succeed.
func (s *Site) MustCtl(args ...string) Result {
	s.T.Helper()
	r := s.Ctl(args...)
	if r.Exit != 0 {
		s.T.Fatalf("superd ctl %s: exit status %d, want 0\n%s%s", strings.Join(args, " "), r.Exit, r.Out, r.ErrOut)
	}
	return r
}

// Cgroups returns the directories of the cgroups that superd of this site has made.
func (s *Site) Cgroups() []string {
	s.T.Helper()
	found, err := Cgroups(s.RuntimeDir)
	if err != nil {
		s.T.Fatal(err)
	}
	return found
}

// Cgroups returns the directories of the cgroups that a superd with this runtime directory has
// made.
func Cgroups(runtimeDir string) (found []string, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	// The base directory is named after the runtime directory.
	sum := sha256.Sum256([]byte(runtimeDir))
	base := "superd-" + hex.EncodeToString(sum[:6])
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.Contains(line, " - cgroup2 ") {
			// Cgroups come and go meanwhile: an error is that of one that has gone.
			_ = filepath.WalkDir(fields[4], func(path string, _ fs.DirEntry, err error) error {
				if err == nil && filepath.Base(path) == base {
					found = append(found, path)
				}
				return nil
			})
		}
	}
	return found, nil
}

// close ends superd and looks for processes and cgroups that it left.
func (s *Site) close() {
	if s.superd != nil {
		s.superd.end()
	}
	for _, p := range s.Processes() {
		if s.superd == nil || !s.superd.killed {
			s.T.Errorf("left behind: process %d: %s", p.Pid, p.Command)
		}
		p.Kill()
	}
	if s.superd != nil && s.T.Failed() {
		s.T.Logf("superd's messages:\n%s", s.superd.ErrOut)
	}
	for _, h := range s.tracked {
		if h.Alive() {
			if s.superd == nil || !s.superd.killed {
				s.T.Errorf("left behind: process %d", h.Pid)
			}
			h.Kill()
		}
	}
	for _, dir := range s.Cgroups() {
		if s.superd == nil || !s.superd.killed {
			s.T.Errorf("left behind: cgroup %s", dir)
		}
		if !within(func() bool { return removeCgroup(dir) }) {
			s.T.Errorf("cgroup %s can't be removed", dir)
		}
	}
}

// removeCgroup reports whether a cgroup and those below could be removed, as they have no process
// any more.
func removeCgroup(dir string) bool {
	inner, _ := filepath.Glob(filepath.Join(dir, "*/cgroup.procs"))
	for _, procs := range inner {
		if !removeCgroup(filepath.Dir(procs)) {
			return false
		}
	}
	err := os.Remove(dir)
	return err == nil || errors.Is(err, os.ErrNotExist)
}
