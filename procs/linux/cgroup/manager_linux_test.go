package cgroup

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/procs/host"
	"superd/procs/linux/linuxtest"
)

func TestFindCgroup(t *testing.T) {
	const (
		v2     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	)
	tests := []struct {
		name, mounts, membership string
		dir, cgroup, fails       string
	}{
		{"a service", v2, "0::/system.slice/superd.service\n", "/sys/fs/cgroup/system.slice/superd.service", "/system.slice/superd.service", ""},
		{"the root", v2, "0::/\n", "/sys/fs/cgroup", "/", ""},
		{"beside v1", hybrid, "4:memory:/user\n0::/user.slice\n", "/sys/fs/cgroup/unified/user.slice", "/user.slice", ""},
		{"a container that sees the host's path", "30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/1/x\n", "/sys/fs/cgroup/x", "/docker/1/x", ""},
		{"a mount point with a space", `30 23 0:26 / /a\040b rw - cgroup2 cgroup rw` + "\n", "0::/x\n", "/a b/x", "/x", ""},
		{"the second of two mounts", "30 23 0:26 /docker/1 /c rw - cgroup2 cgroup rw\n" + v2, "0::/docker/10\n", "/sys/fs/cgroup/docker/10", "/docker/10", ""},
		{"v1 only", "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "1:cpu:/\n", "", "", "has no cgroup v2"},
		{"not mounted", "22 27 0:21 / /proc rw - proc proc rw\n", "0::/\n", "", "", "is not mounted"},
		{"read-only", "30 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup2 rw\n", "0::/x\n", "", "", "no writable mount of cgroup v2 shows superd's cgroup /x"},
		{"another part is mounted", "30 23 0:26 /docker/1 /c rw - cgroup2 cgroup rw\n", "0::/docker/2\n", "", "", "no writable mount"},
		{"outside of the namespace", v2, "0::/../other\n", "", "", "outside of its cgroup namespace"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, cgroup, err := findCgroup(tt.mounts, tt.membership)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("findCgroup = %q, %v, want %q", dir, err, tt.fails)
				}
				return
			}
			if dir != tt.dir || cgroup != tt.cgroup || err != nil {
				t.Errorf("findCgroup = %q, %q, %v, want %q, %q", dir, cgroup, err, tt.dir, tt.cgroup)
			}
		})
	}
}

func TestCPUMax(t *testing.T) {
	for share, want := range map[float64]string{
		0.5: "50000 100000", 1: "100000 100000", 2.25: "225000 100000", 0.333: "33300 100000",
		0.01: "1000 100000", 0.005: "5000 1000000", 0.001: "1000 1000000",
	} {
		if got := cpuMax(share); got != want {
			t.Errorf("cpuMax(%v) = %q, want %q", share, got, want)
		}
	}
}

// TestNestedCgroups: a program may divide its cgroup; processes in the cgroups below belong to its
// tree.
func TestNestedCgroups(t *testing.T) {
	b := newBed(t)
	const name = "memory.max@1" // as awkward as a name can be
	tree := b.NewTree(name).(*Tree)
	b.Start(tree, name, "/bin/sh", "-c", `mkdir -p "$0/a/b" && echo $$$$ >"$0/a/b/cgroup.procs" && exec sleep 60`, tree.dir())
	b.AwaitPids(tree, "a process that has moved", func(pids []int) bool {
		return len(pids) == 1 && len(pidsIn(filepath.Join(tree.dir(), "a"))) == 1
	})
	if tree.Empty() {
		t.Error("the tree is empty, but a process lives in a nested cgroup")
	}
	if err := tree.killEach(); err != nil { // as before Linux 5.14
		t.Errorf("killEach: %v", err)
	}
	b.AwaitPids(tree, "no process", linuxtest.Count(0))
	b.Start(tree, name, "/bin/sleep", "60") // beside the nested cgroups of the last run
	b.AwaitPids(tree, "the next run", linuxtest.Count(1))
	b.End(tree)
	b.On(tree.Remove)
	tree.pending.Wait()
	if _, err := os.Stat(tree.dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Remove: %v, want no directory", err)
	}
}

// TestCgroupsOfAPredecessor: cgroups with processes are adopted, empty ones are recreated.
func TestCgroupsOfAPredecessor(t *testing.T) {
	b := newBed(t)
	tree := b.NewTree("web@1")
	pid := b.Start(tree, "web@1", "/bin/sleep", "60").Process.Pid()
	empty := b.NewTree("db").(*Tree)
	b.Start(empty, "db", "/bin/true")
	b.AwaitPids(empty, "no process", linuxtest.Count(0))

	next, err := Open(quietly(b.manager.options))
	if err != nil {
		t.Fatal(err)
	}
	var adopted, other host.Tree
	b.On(func() { adopted, other = next.NewTree("web@1", tree.Path()), next.NewTree("db", "") })
	if err := writeFile(empty.dir()+"/cgroup.kill", "1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	b.Start(other, "db", "/bin/true") // not the cgroup in which new processes are killed
	b.AwaitPids(other, "no process", linuxtest.Count(0))
	b.On(other.Remove)
	b.AwaitPids(adopted, "the same process", func(pids []int) bool { return slices.Equal(pids, []int{pid}) })
	if adopted.Path() != tree.Path() {
		t.Errorf("the tree is at %s, it was at %s", adopted.Path(), tree.Path())
	}
	b.End(adopted)
	b.On(adopted.Remove)
}

// TestProbeCgroupExists: a successor uses cgroups even if the probe cgroup of a killed superd
// exists, or a shortage prevents a new one for a time.
func TestProbeCgroupExists(t *testing.T) {
	b := newBed(t)
	if err := os.Mkdir(filepath.Join(b.manager.base, probeName), 0o755); err != nil {
		t.Fatal(err)
	}
	// With "0", mkdir fails as a fork does: EAGAIN
	for _, descendants := range []string{"max", "0"} {
		if err := writeFile(filepath.Join(b.manager.base, "cgroup.max.descendants"), descendants); err != nil {
			t.Fatal(err)
		}
		next, err := Open(quietly(b.manager.options))
		if err != nil {
			t.Errorf("with at most %s cgroups in that of superd: %v", descendants, err)
			continue
		}
		if _, err := os.Stat(next.base); err != nil {
			t.Errorf("with at most %s cgroups: %v", descendants, err)
		}
		next.reserve.close()
	}
}

// BenchmarkEmpty measures what the loop spends at the end of each run.
func BenchmarkEmpty(b *testing.B) {
	bed := newBed(b)
	tree := bed.NewTree("web")
	bed.Start(tree, "web", "/bin/sleep", "60")
	for b.Loop() {
		if tree.Empty() {
			b.Fatal("the tree is empty")
		}
	}
	bed.End(tree)
}

func BenchmarkKill(b *testing.B) {
	bed := newBed(b)
	tree := bed.NewTree("web").(*Tree)
	var total time.Duration
	for b.Loop() {
		bed.Start(tree, "web", "/bin/sleep", "60")
		at := time.Now()
		tree.Kill()
		tree.pending.Wait()
		total += time.Since(at)
		bed.AwaitPids(tree, "no process", linuxtest.Count(0))
	}
	b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/kill")
}

// TestAllEmpty: the kernel's event for the parent of all cgroups counts for each of them, once in a
// while, until a process may have been spawned there.
func TestAllEmpty(t *testing.T) {
	base := t.TempDir()
	tell := func(dir, populated string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "cgroup.events"), []byte("populated "+populated+"\nfrozen 0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &Manager{base: base, reserve: newReserve()}
	defer c.reserve.close()
	var trees []*Tree
	for i := range 3 * allEmptyPeriod {
		tree := c.NewTree(fmt.Sprint(i), "")
		if err := os.Mkdir(tree.dir(), 0o755); err != nil {
			t.Fatal(err)
		}
		tree.mayExist.Store(true)
		tell(tree.dir(), "1")
		trees = append(trees, tree)
	}
	empty := func() (n int) {
		for _, tree := range trees {
			if tree.Empty() {
				n++
			}
		}
		return n
	}
	tell(base, "1")
	if n := empty(); n != 0 {
		t.Errorf("%d trees are empty, while all are populated", n)
	}
	tell(base, "0")
	if n := empty(); n < len(trees)-allEmptyPeriod || n == len(trees) {
		t.Errorf("%d of %d trees are empty, want all but the first ones, which were asked for one by one", n, len(trees))
	}
	tell(base, "1")
	trees[len(trees)-1].noteSpawn() // a spawn there
	if trees[len(trees)-1].Empty() {
		t.Error("a tree in which somebody was born since is empty")
	}
	if !trees[len(trees)-2].Empty() {
		t.Error("a cgroup without processes does not count as empty")
	}
	c.allEmpty()
	if trees[0].Empty() {
		t.Error("a spawn in another cgroup: the earlier check still counts")
	}
}

// TestTreesOfRemovedPrograms: superd forgets a tree with its directory, not earlier: a program that
// comes back finds its old processes.
func TestTreesOfRemovedPrograms(t *testing.T) {
	b := newBed(t)
	trees := &b.manager.trees
	known := func() int {
		trees.mu.Lock()
		defer trees.mu.Unlock()
		return len(trees.by)
	}
	unborn, web := b.NewTree("unborn"), b.NewTree("web")
	b.Start(web, "web", "/bin/true")
	b.End(web)
	b.On(func() {
		held := &web.(*Tree).mu // so that the directory stays meanwhile
		held.Lock()
		defer held.Unlock()
		unborn.Remove()
		web.Remove()
		if again := b.manager.NewTree("web", ""); again != web {
			t.Error("a program that comes back before its cgroup is removed gets another tree")
		}
	})
	web.(*Tree).pending.Wait()
	if n := known(); n != 1 {
		t.Errorf("%d trees are known, want that of the program that came back", n)
	}
	b.Start(web, "web", "/bin/true")
	b.End(web)
	b.On(web.Remove)
	web.(*Tree).pending.Wait()
	if n := known(); n != 0 {
		t.Errorf("%d trees are known after the last was removed", n)
	}
}

// quietly returns the options without a log.
func quietly(o Options) Options {
	o.Log = slog.New(slog.DiscardHandler)
	return o
}
