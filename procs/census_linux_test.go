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
)

// TestNobodyLeftNeedsProof: two walks have to meet nobody, with no orphan that ends between.
func TestNobodyLeftNeedsProof(t *testing.T) {
	other := &censusTree{}
	first := map[processKey]*censusTree{{7, 1}: nil}
	second := map[processKey]*censusTree{{7, 1}: nil, {8, 1}: nil}
	tests := []struct {
		name          string
		before, after headcount
		want          bool
	}{
		{"nothing has happened", headcount{zombies: first, from: 3, to: 3}, headcount{zombies: first, from: 3, to: 3}, true},
		{"an orphan has ended", headcount{zombies: first, from: 3, to: 3}, headcount{zombies: second, from: 3, to: 3}, false},
		{"one was reaped in the first walk", headcount{zombies: first, from: 3, to: 4}, headcount{zombies: first, from: 4, to: 4}, false},
		{"one was reaped in the second walk", headcount{zombies: first, from: 3, to: 3}, headcount{zombies: first, from: 3, to: 4}, false},
		{"one has taken another's place", headcount{zombies: first, from: 3, to: 3}, headcount{zombies: map[processKey]*censusTree{{7, 2}: nil}, from: 3, to: 3}, false},
		{"one of another tree has ended", headcount{zombies: first, from: 3, to: 3}, headcount{zombies: map[processKey]*censusTree{{7, 1}: nil, {8, 1}: other}, from: 3, to: 3}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.after.follows(&tt.before, &censusTree{}); got != tt.want {
				t.Errorf("follows = %v, want %v", got, tt.want)
			}
			c := newCensus(&Kernel{}, "", nil)
			l := &look{tree: c.newTree("web", false), before: &tt.before, found: func([]Member) {}}
			l.tree.touched = true
			// A walk that follows would be answered on the loop.
			if !tt.want && (c.answer(l, &tt.after) || !l.tree.touched) {
				t.Error("the look was answered: nobody lives")
			}
		})
	}
}

// TestChase ends a chain of forks by superd's children alone: a walk may last longer than each link lives.
func TestChase(t *testing.T) {
	b := newTreeBed(t, true)
	for i, script := range []string{chain, sessionChain} {
		mark := fmt.Sprintf("31.%d%03d", os.Getpid(), i)
		script = strings.ReplaceAll(script, "MARK", mark)
		tree := b.newTree("web").(*censusTree)
		main := b.start(tree, "web", "/bin/sh", "-c", script, mark, script)
		b.meets(tree, "an orphan", func(pids []int) bool { return len(pids) > 0 && pids[0] != main.Process.Pid() })
		for deadline := time.Now().Add(treePatience); len(marked(t, mark)) > 0; {
			if time.Now().After(deadline) {
				t.Errorf("%s: %v still lives", script, marked(t, mark))
				break
			}
			b.kernel.gate.enter()
			b.kernel.census.chase([]*censusTree{tree}, &headcount{})
			b.on(b.kernel.leaveGate)
		}
		b.end(tree)
	}
}

// TestOrphanTakesItsGroupAlong: SIGKILL reaches the group of an orphan in one call, so that no member can bring forth another meanwhile.
func TestOrphanTakesItsGroupAlong(t *testing.T) {
	b := newTreeBed(t, true)
	mark := fmt.Sprintf("32.%d", os.Getpid())
	tree := b.newTree("web")
	main := b.start(tree, "web", "/bin/sh", "-c", `setsid -f sh -c "sleep $0 & sleep $0 & wait"`, mark).Process.Pid()
	pids := b.meets(tree, "an orphan with two children", func(pids []int) bool {
		return len(pids) == 3 && len(marked(t, mark)) == 3 && !slices.Contains(pids, main)
	})
	b.kernel.gate.enter()
	for _, pid := range pids {
		if s, err := readStat(pid); err == nil && s.parent == os.Getpid() {
			if !b.kernel.census.kill(&s, time.Now().Add(treePatience)) {
				t.Errorf("kill(%+v) did not reach it", s)
			}
		}
	}
	b.on(b.kernel.leaveGate)
	b.meets(tree, "nobody", many(0))
}

// nextTick waits until who is born is younger than who has been: start times have no finer unit.
func nextTick() {
	for now := bootTicks(); bootTicks() == now; time.Sleep(time.Millisecond) {
	}
}

// TestBereft: that nobody is left of a tree is told by superd's children, without a walk, and only if it is so.
func TestBereft(t *testing.T) {
	b := newTreeBed(t, true)
	if _, ok := childrenNow(os.Getpid()); !ok {
		t.Skip("the kernel doesn't list children")
	}
	mark := fmt.Sprintf("33.%d", os.Getpid())
	bereft := func(tree *censusTree) bool {
		b.kernel.census.mu.Lock()
		births := tree.births
		b.kernel.census.mu.Unlock()
		return tree.bereft(births)
	}
	ended := func(pid int) {
		t.Helper()
		for deadline := time.Now().Add(treePatience); ; {
			if _, err := readStat(pid); err != nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %d does not end", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	// Somebody else's daemon is a child of superd, and so is somebody else's main process.
	daemon, other := b.newTree("daemon").(*censusTree), b.newTree("other").(*censusTree)
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
			tree := b.newTree("web").(*censusTree)
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
	tree := b.newTree("web").(*censusTree)
	main := b.start(tree, "web", "sleep", mark).Process.Pid()
	if bereft(tree) {
		t.Error("its main process lives")
	}
	if _, err := tree.admit(&config.Limits{}); err != nil { // a start on its way
		t.Fatal(err)
	}
	if err := unix.Kill(main, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(main)
	if bereft(tree) {
		t.Error("a start is on its way, of which the process is not known yet")
	}
	for _, tree := range []*censusTree{tree, daemon, other} {
		b.end(tree)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// BenchmarkCensus looks for nobody, which takes two walks, among 1,000 processes of another program.
func BenchmarkCensus(b *testing.B) {
	bed := newTreeBed(b, true)
	crowd := bed.newTree("crowd")
	bed.start(crowd, "crowd", "/bin/sh", "-c", `i=1; while [ $i -lt 1000 ]; do sleep 60 & i=$((i+1)); done; wait`)
	bed.meets(crowd, "a crowd", func(pids []int) bool { return len(pids) >= 1000 })
	web := bed.newTree("web").(*censusTree)
	for b.Loop() {
		web.touched, web.unknown = true, 1 // so that superd's children alone don't tell
		if n := len(bed.look(web)); n != 0 {
			b.Fatalf("%d live", n)
		}
	}
	bed.end(crowd)
}
