// Package harness drives the real superd from outside, as its users do: the command line, the
// configuration file, the control socket, signals, /proc.
//
// A test makes a [Site], a folder with a configuration, and starts superd in it. It then waits for
// events with a deadline ([Site.WaitState], [Site.WaitLog], [Until]), never for a time to pass.
// When the test ends, superd is shut down, and a process that is left of it fails the test.
package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"superd/tests/child"
)

// Deadline bounds every wait. It is long, since a busy machine is slow: only a defect reaches it.
const Deadline = 90 * time.Second

// Main is the TestMain of a package of tests. It runs the child that the process was started as, or
// the tests with superd and child on PATH.
//
// It builds superd afresh, static as users get it, with the build tags and those of the tests
// themselves. SUPERD_BINARY names another binary to test.
func Main(m *testing.M, tags ...string) {
	if filepath.Base(os.Args[0]) == child.Name {
		os.Exit(child.Main(os.Args[1:]))
	}
	status, err := run(m, tags)
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		status = 1
	}
	os.Exit(status)
}

func run(m *testing.M, tags []string) (int, error) {
	bin, err := os.MkdirTemp("", "superd-bin-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(bin)
	if err := os.Chmod(bin, 0o755); err != nil { // other users run it, too
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	if err := os.Symlink(self, filepath.Join(bin, child.Name)); err != nil {
		return 0, err
	}
	if err := install(filepath.Join(bin, "superd"), tags); err != nil {
		return 0, err
	}
	if err := os.Setenv("PATH", bin+":"+os.Getenv("PATH")); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// install puts the superd under test at path.
func install(path string, tags []string) error {
	if given := os.Getenv("SUPERD_BINARY"); given != "" {
		given, err := filepath.Abs(given)
		if err != nil {
			return err
		}
		return os.Symlink(given, path)
	}
	return build(path, "-tags", strings.Join(append(ownTags(), tags...), ","))
}

// ownTags returns the build tags of the tests.
func ownTags() []string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" {
				return strings.Split(s.Value, ",")
			}
		}
	}
	return nil
}

// build builds superd, with more flags for go build.
func build(path string, flags ...string) error {
	overlay, err := buildShim(path + ".exec")
	if err != nil {
		return err
	}
	flags = append([]string{"-overlay", overlay}, flags...)
	return goBuild(path, "superd/cmd/superd", flags...)
}

// buildShim builds the exec shim that superd embeds. It leaves the tree as it is: go build takes
// the binary from path through the overlay file that is returned.
func buildShim(path string) (overlay string, err error) {
	if err := goBuild(path, "superd/cmd/superd-exec"); err != nil {
		return "", err
	}
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "superd/sandbox/shim").Output()
	if err != nil {
		return "", fmt.Errorf("find superd/sandbox/shim: %w", err)
	}
	embedded := filepath.Join(strings.TrimSpace(string(dir)), "bin", "superd-exec")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{embedded: path}})
	if err != nil {
		return "", err
	}
	overlay = path + ".json"
	return overlay, os.WriteFile(overlay, text, 0o600)
}

func goBuild(path, pkg string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-o", path}, flags...)
	build := exec.Command("go", append(args, pkg)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// BuildVersion builds a superd of another version as a file of the site, and returns its path.
func (s *Site) BuildVersion(name, version string) string {
	s.T.Helper()
	built := s.once("version-"+version, func(path string) error {
		return build(path, "-ldflags=-X main.version="+version)
	})
	text, err := os.ReadFile(built)
	if err != nil {
		s.T.Fatal(err)
	}
	if err := WriteFile(s.Path(name), text, 0o755); err != nil { // a test may replace its own
		s.T.Fatal(err)
	}
	return s.Path(name)
}

// building is held while a binary is built that several tests use.
var building sync.Mutex

// once returns the path of a binary that build builds for the first test that needs it. It is not
// in PATH.
func (s *Site) once(name string, build func(path string) error) string {
	s.T.Helper()
	superd, err := exec.LookPath("superd")
	if err != nil {
		s.T.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(superd), "built", name)
	building.Lock()
	defer building.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := build(path); err != nil {
		s.T.Fatal(err)
	}
	return path
}

// UI builds superd-ui and returns its path.
func (s *Site) UI() string {
	s.T.Helper()
	return s.once("ui/superd-ui", func(path string) error {
		return goBuild(path, "superd/cmd/superd-ui", "-ldflags=-s -w")
	})
}

// BuildUI builds superd-ui and puts it into PATH for the commands of the site.
func (s *Site) BuildUI() {
	s.T.Helper()
	built := s.UI()
	s.Env = append(s.Env, "PATH="+filepath.Dir(built)+":"+os.Getenv("PATH"))
}

// BuildChild builds the child as a static binary at a path. The test itself may need libraries.
func BuildChild(t testing.TB, path string) {
	t.Helper()
	if err := goBuild(path, "superd/tests/child/static", "-ldflags=-s -w"); err != nil {
		t.Fatal(err)
	}
}

// Executable returns the path of the program that a process runs; "" during an exec.
func (s *Site) Executable(pid int) string {
	s.T.Helper()
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	// As it does not, for a moment, during an exec
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.T.Fatal(err)
	}
	return path
}

// Until waits until ok returns true, and fails the test after Deadline. what completes "waiting
// until".
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !within(ok) {
		t.Fatalf("waiting until %s: not within %v", what, Deadline)
	}
}

// Window lets time pass while something is measured over d.
func Window(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// within reports whether ok returns true within Deadline.
func within(ok func() bool) bool {
	if ok() {
		return true
	}
	end := time.After(Deadline)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if ok() {
				return true
			}
		case <-end:
			return ok()
		}
	}
}
