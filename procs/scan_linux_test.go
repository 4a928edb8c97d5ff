package procs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/procfs"
)

// TestNobodyLeftNeedsProof: a tree counts as empty after two scans without a process of it, between
// which no orphan ended.
func TestNobodyLeftNeedsProof(t *testing.T) {
	other := &scanTree{}
	first := map[processKey]*scanTree{{7, 1}: nil}
	second := map[processKey]*scanTree{{7, 1}: nil, {8, 1}: nil}
	tests := []struct {
		name          string
		before, after scan
		want          bool
	}{
		{"nothing has happened", scan{zombies: first, from: 3, to: 3}, scan{zombies: first, from: 3, to: 3}, true},
		{"an orphan has ended", scan{zombies: first, from: 3, to: 3}, scan{zombies: second, from: 3, to: 3}, false},
		{"one was reaped in the first walk", scan{zombies: first, from: 3, to: 4}, scan{zombies: first, from: 4, to: 4}, false},
		{"one was reaped in the second walk", scan{zombies: first, from: 3, to: 3}, scan{zombies: first, from: 3, to: 4}, false},
		{"one has taken another's place", scan{zombies: first, from: 3, to: 3}, scan{zombies: map[processKey]*scanTree{{7, 2}: nil}, from: 3, to: 3}, false},
		{"one of another tree has ended", scan{zombies: first, from: 3, to: 3}, scan{zombies: map[processKey]*scanTree{{7, 1}: nil, {8, 1}: other}, from: 3, to: 3}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.after.follows(&tt.before, &scanTree{}); got != tt.want {
				t.Errorf("follows = %v, want %v", got, tt.want)
			}
			c := newProcessScan(&Kernel{}, "", nil)
			l := &look{tree: c.newTree("web", false), before: &tt.before, found: func([]Member) {}}
			l.tree.touched = true
			// A further scan would be answered on the loop.
			if !tt.want && (c.answer(l, &tt.after) || !l.tree.touched) {
				t.Error("the look was answered: nobody lives")
			}
		})
	}
}

// TestChase ends a chain of forks by superd's children alone, as a scan may last longer than each
// process of it.
func TestChase(t *testing.T) {
	b := newTreeBed(t, true)
	for i, script := range []string{chain, sessionChain} {
		mark := fmt.Sprintf("31.%d%03d", os.Getpid(), i)
		script = strings.ReplaceAll(script, "MARK", mark)
		tree := b.newTree("web").(*scanTree)
		main := b.start(tree, "web", "/bin/sh", "-c", script, mark, script)
		b.meets(tree, "an orphan", func(pids []int) bool { return len(pids) > 0 && pids[0] != main.Process.Pid() })
		for deadline := time.Now().Add(treePatience); len(marked(t, mark)) > 0; {
			if time.Now().After(deadline) {
				t.Errorf("%s: %v still lives", script, marked(t, mark))
				break
			}
			resume := b.kernel.pauseReaping()
			b.kernel.scan.killRace([]*scanTree{tree}, &scan{})
			resume()
		}
		b.end(tree)
	}
}

// TestOrphanTakesItsGroupAlong: one call sends SIGKILL to the group of an orphan, so that no member
// can fork meanwhile.
func TestOrphanTakesItsGroupAlong(t *testing.T) {
	b := newTreeBed(t, true)
	mark := fmt.Sprintf("32.%d", os.Getpid())
	tree := b.newTree("web")
	main := b.start(tree, "web", "/bin/sh", "-c", `setsid -f sh -c "sleep $0 & sleep $0 & wait"`, mark).Process.Pid()
	pids := b.meets(tree, "an orphan with two children", func(pids []int) bool {
		return len(pids) == 3 && len(marked(t, mark)) == 3 && !slices.Contains(pids, main)
	})
	resume := b.kernel.pauseReaping()
	for _, pid := range pids {
		if s, err := procfs.ReadStat(pid); err == nil && s.Parent == os.Getpid() {
			if !b.kernel.scan.kill(&s, time.Now().Add(treePatience)) {
				t.Errorf("kill(%+v) did not reach it", s)
			}
		}
	}
	resume()
	b.meets(tree, "nobody", many(0))
}

// nextTick waits until a new process has a later start time than the present ones: start times
// count in clock ticks.
func nextTick() {
	for now := bootTicks(); bootTicks() == now; time.Sleep(time.Millisecond) {
	}
}

// TestBereft: superd's children show that a tree is empty, without a scan, and only if it is.
func TestBereft(t *testing.T) {
	b := newTreeBed(t, true)
	if _, ok := procfs.ConsistentChildren(os.Getpid()); !ok {
		t.Skip("the kernel doesn't list children")
	}
	mark := fmt.Sprintf("33.%d", os.Getpid())
	bereft := func(tree *scanTree) bool {
		b.kernel.scan.mu.Lock()
		spawns := tree.spawns
		b.kernel.scan.mu.Unlock()
		return tree.bereft(spawns)
	}
	ended := func(pid int) {
		t.Helper()
		for deadline := time.Now().Add(treePatience); ; {
			if _, err := procfs.ReadStat(pid); err != nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %d does not end", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	// A daemon and a main process of other programs are children of superd.
	daemon, other := b.newTree("daemon").(*scanTree), b.newTree("other").(*scanTree)
	ended(b.start(daemon, "daemon", "/bin/sh", "-c", "setsid -f sleep "+mark).Process.Pid())
	nextTick()
	b.start(other, "other", "sleep", mark)

	tests := []struct {
		name, script string
		bereft       bool
	}{
		{"it leaves nothing", "true", true},
		{"it leaves a session", "setsid -f sleep " + mark, false},
		{"it leaves a process below another one", "setsid -f sh -c 'sleep " + mark + "; true'", false},
		{"it leaves one of its group", "sleep " + mark + " &", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := b.newTree("web").(*scanTree)
			ended(b.start(tree, "web", "/bin/sh", "-c", tt.script).Process.Pid())
			nextTick()
			b.start(other, "other", "sleep", mark) // younger, and known
			if got := bereft(tree); got != tt.bereft {
				t.Errorf("bereft = %v, want %v", got, tt.bereft)
			}
			if n := len(b.look(tree)); n > 0 == tt.bereft {
				t.Errorf("a walk meets %d", n)
			}
			if tree.Empty() != tt.bereft || tt.bereft && len(tree.ids) > 0 {
				t.Errorf("empty %v, %d known; want that it has settled: %v", tree.Empty(), len(tree.ids), tt.bereft)
			}
			b.end(tree)
			b.on(tree.Remove)
		})
	}
	tree := b.newTree("web").(*scanTree)
	main := b.start(tree, "web", "sleep", mark).Process.Pid()
	if bereft(tree) {
		t.Error("its main process lives")
	}
	if _, err := tree.prepareSpawn(&config.Limits{}); err != nil { // a start under way
		t.Fatal(err)
	}
	if err := unix.Kill(main, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(main)
	if bereft(tree) {
		t.Error("a start is on its way, of which the process is not known yet")
	}
	for _, tree := range []*scanTree{tree, daemon, other} {
		b.end(tree)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// BenchmarkProcessScan searches an empty tree, which takes two scans, among 1,000 processes of
// another program.
func BenchmarkProcessScan(b *testing.B) {
	bed := newTreeBed(b, true)
	crowd := bed.newTree("crowd")
	bed.start(crowd, "crowd", "/bin/sh", "-c", `i=1; while [ $i -lt 1000 ]; do sleep 60 & i=$((i+1)); done; wait`)
	bed.meets(crowd, "a crowd", func(pids []int) bool { return len(pids) >= 1000 })
	web := bed.newTree("web").(*scanTree)
	for b.Loop() {
		web.touched, web.unknown = true, 1 // so that superd's children do not suffice
		if n := len(bed.look(web)); n != 0 {
			b.Fatalf("%d live", n)
		}
	}
	bed.end(crowd)
}
