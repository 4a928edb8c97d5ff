package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// OwnCgroup makes a cgroup v2 below that of the test. It returns its directory and an option of
// Start that starts superd in it. Call it before NewSite, so that the cgroup outlives superd. If
// the test may not make a cgroup, it is skipped.
func OwnCgroup(t testing.TB) (dir string, option func(*exec.Cmd)) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, own, _ := strings.Cut("\n"+string(membership), "\n0::")
	own, _, _ = strings.Cut(own, "\n")
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "cgroup2" {
			continue
		}
		dir, err := os.MkdirTemp(filepath.Join(fields[1], own), "superd-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if !within(func() bool { return removeCgroup(dir) }) {
				t.Errorf("cgroup %s can't be removed", dir)
			}
		})
		return dir, Under("echo $$ >'" + dir + "/cgroup.procs'")
	}
	t.Skip("no cgroup v2 to make a cgroup in")
	return "", nil
}
