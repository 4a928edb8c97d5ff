// Package initstest runs the test-suites of tini and dumb-init against superd under their names:
// `make test-tini`. Without -inits nothing runs.
package initstest

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

var (
	enabled = flag.Bool("inits", false, "run the tests, which need Debian's packages")
	sources = flag.String("sources", "", "directory with the sources of tini and dumb-init")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !*enabled {
		os.Exit(m.Run())
	}
	harness.Main(m)
}

// A bed is a directory with superd under other names, and the sources of another program.
type bed struct {
	*harness.Site
	dir string // of the sources, which the test may change
}

func newBed(t *testing.T, source string, names ...string) *bed {
	t.Helper()
	if !*enabled {
		t.Skip("make test-tini runs this")
	}
	s := harness.NewSite(t, "")
	b := &bed{s, s.Path(source)}
	b.run(nil, "cp", "-a", filepath.Join(*sources, source), b.dir)
	s.Mkdir("bin")
	for _, name := range names {
		b.run(nil, "cp", s.Command().Path, s.Path("bin/"+name)) // no link, as a test resolves them
	}
	for _, python := range []string{"python", "python3"} { // that of Debian, which has the modules
		if err := os.Symlink("/usr/bin/python3", s.Path("bin/"+python)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// run runs a command in the sources to its end, and returns what it prints.
func (b *bed) run(env []string, args ...string) string {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = b.dir, slices.Concat(b.Env, []string{"PATH=" + b.Path("bin") + ":" + os.Getenv("PATH")}, env)
	if _, err := os.Stat(b.dir); err != nil {
		cmd.Dir = b.Dir
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.T.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// replace changes a file of the sources, which must have the text.
func (b *bed) replace(file, text, with string) {
	b.T.Helper()
	path := filepath.Join(b.dir, file)
	old, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(old), text) {
		b.T.Fatalf("%s has no %q: %v", file, text, err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(old), text, with)), 0o755); err != nil {
		b.T.Fatal(err)
	}
}

// TestTini runs the tests of tini, except that Go unblocks SIGILL and SIGTERM for the command, and
// that it does not keep SIGSEGV ignored.
func TestTini(t *testing.T) {
	b := newBed(t, "tini", "tini")
	modules, err := filepath.Abs("pymodules")
	if err != nil {
		t.Fatal(err)
	}
	b.replace("test/run_inner_tests.py", "signal.SIGTTOU, signal.SIGSEGV, signal.SIGINT", "signal.SIGTTOU, signal.SIGINT")
	b.replace("test/run_inner_tests.py", "signal.SIGTTIN, signal.SIGILL, signal.SIGTERM", "signal.SIGTTIN")
	b.run(nil, "gcc", "-w", "-o", b.Path("bin/sigconf-test"), "test/sigconf/sigconf-test.c")
	out := b.run([]string{"SOURCE_DIR=" + b.dir, "BUILD_DIR=" + b.Path("bin"), "FORCE_SUBREAPER=1", "PYTHONPATH=" + modules},
		b.Path("bin/python3"), "test/run_inner_tests.py")
	if !strings.Contains(out, "All done, tests as expected") {
		t.Errorf("tini's tests: %s", out)
	}
	t.Log(out)
}

// TestDumbInit runs the tests of dumb-init, except those that compare the text of its help and its
// messages, and that the runtime of Go keeps SIGPROF for itself. superd reaps the orphans of the
// tests, as they expect it of PID 1.
func TestDumbInit(t *testing.T) {
	b := newBed(t, "dumb-init", "dumb-init", "superd")
	b.replace("testing/__init__.py", "signal.SIGCHLD}", "signal.SIGCHLD, signal.SIGPROF}")
	// Nothing that a failed test leaves behind outlives its PID namespace
	out := b.run(nil, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "superd", "run", "--", "python3", "-m", "pytest", "-q", "-p", "no:cacheprovider",
		"-k", "not cli_test and not sighup_sigcont")
	t.Log(out)
}

// TestStart logs how long starts take, and how much memory is used, beside Debian's packages.
func TestStart(t *testing.T) {
	b := newBed(t, "tini", "tini", "superd")
	for _, command := range []string{"/usr/bin/tini -s", "/usr/bin/dumb-init", "superd run --"} {
		args := strings.Fields(command)
		const starts = 200
		begun := time.Now()
		for range starts {
			b.run(nil, append(args, "true")...)
		}
		took := time.Since(begun) / starts
		cmd := exec.CommandContext(t.Context(), args[0])
		if args[0] == "superd" {
			cmd.Path, cmd.Err = b.Path("bin/superd"), nil
		}
		cmd.Args, cmd.Env = append(args, "sleep", "1000"), b.Env // so that b finds what it leaves
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		harness.Until(t, "the command runs", func() bool { return len(b.Children(cmd.Process.Pid)) > 0 })
		time.Sleep(100 * time.Millisecond) // it settles
		t.Logf("%-20s %v a start, %d kB of memory", command, took.Round(100*time.Microsecond), b.KiB(cmd.Process.Pid, "status", "VmRSS"))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for _, pid := range b.Processes() {
			pid.Kill()
		}
	}
}
