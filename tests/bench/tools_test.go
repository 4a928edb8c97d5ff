package bench

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tools are the programs of the benchmark itself and the peers.
type tools struct {
	child, init, output, yardstick, superd string

	peers    string            // folder of their unpacked packages; "" if they were not available
	versions map[string]string // of Debian's packages
	missing  string            // why there are no peers
}

// newTools compiles the programs in c and fetches the peers.
func newTools(t testing.TB) *tools {
	dir := t.TempDir()
	k := &tools{versions: map[string]string{}}
	for name, path := range map[string]*string{"child": &k.child, "init": &k.init, "output": &k.output, "yardstick": &k.yardstick} {
		*path = filepath.Join(dir, name)
		cc := exec.Command("cc", "-O2", "-Wall", "-static", "-o", *path, filepath.Join("c", name+".c"))
		if out, err := cc.CombinedOutput(); err != nil {
			t.Fatalf("compile %s.c (gcc and libc6-dev are needed): %v\n%s", name, err, out)
		}
	}
	var err error
	if k.superd, err = exec.LookPath("superd"); err != nil {
		t.Fatal(err)
	}
	if *others == 0 {
		return k
	}
	peers := filepath.Join(dir, "peers")
	out, err := exec.Command("./fetch-peers.sh", peers).Output()
	if err != nil {
		k.missing = "Debian's packages could not be fetched: " + lastLine(err)
		t.Logf("the peers are missing: %s", k.missing)
		return k
	}
	k.peers = peers
	for line := range strings.Lines(string(out)) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			k.versions[name] = version
		}
	}
	return k
}

// lastLine returns the last line that a command has written to standard error, or its error.
func lastLine(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		return lines[len(lines)-1]
	}
	return err.Error()
}

// bin returns the path of a program of the peers.
func (k *tools) bin(name string) string { return filepath.Join(k.peers, "root", "usr", "bin", name) }

// libraries returns the path of the peers' libraries.
func (k *tools) libraries() string {
	found, _ := filepath.Glob(filepath.Join(k.peers, "root", "usr", "lib", "*-linux-gnu"))
	return strings.Join(found, ":")
}

// pause lets time pass.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
