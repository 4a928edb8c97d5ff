package proctree

import (
	"os"
	"testing"

	"superd/internal/procfs"
	"superd/procs/host"
)

// free is above every pid: the kernel's limit is 1<<22.
const free = 1<<22 + 7

// TestByNumber: the number of a session or group attributes a process only while no other process
// can have reused it.
func TestByNumber(t *testing.T) {
	self, err := procfs.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	first, second := &Tree{instance: "first"}, &Tree{instance: "second"}
	tests := []struct {
		name   string
		roots  map[host.ProcessKey]*Tree
		start  uint64 // of the process that has the number
		number int
		want   *Tree
	}{
		{"its leader is gone", map[host.ProcessKey]*Tree{{Pid: free, Start: 10}: first}, 20, free, first},
		{"it is older than the root", map[host.ProcessKey]*Tree{{Pid: free, Start: 30}: first}, 20, free, nil},
		{"between two of one number, the first", map[host.ProcessKey]*Tree{{Pid: free, Start: 10}: first, {Pid: free, Start: 30}: second}, 20, free, first},
		{"after both, the second", map[host.ProcessKey]*Tree{{Pid: free, Start: 10}: first, {Pid: free, Start: 30}: second}, 40, free, second},
		{"its leader lives", map[host.ProcessKey]*Tree{{Pid: self.Pid, Start: self.Start}: first}, self.Start, self.Pid, first},
		{"another process has the pid now", map[host.ProcessKey]*Tree{{Pid: self.Pid, Start: self.Start - 1}: first}, self.Start, self.Pid, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := register{roots: tt.roots}.clone()
			if got := r.byNumber(&procfs.Stat{Pid: free + 1, Start: tt.start}, tt.number); got != tt.want {
				t.Errorf("byNumber = %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestRemoveUnusedRoots: the number of a root that has ended is forgotten after two consecutive
// scans without a process that has it.
func TestRemoveUnusedRoots(t *testing.T) {
	const pid = 70
	tests := []struct {
		name          string
		before, after scan
		want          bool // whether it is removed
	}{
		{"no process has it", scan{from: 3, to: 3}, scan{from: 3, to: 3}, true},
		{"an orphan was reaped between", scan{from: 3, to: 4}, scan{from: 4, to: 4}, false},
		{"one of its session lives", scan{}, scan{stats: map[int]*procfs.Stat{71: {Pid: 71, Session: pid}}}, false},
		{"one of its group lives", scan{}, scan{stats: map[int]*procfs.Stat{71: {Pid: 71, Group: pid}}}, false},
		{"one of its group lived", scan{stats: map[int]*procfs.Stat{71: {Pid: 71, Group: pid}}}, scan{}, false},
		{"it lives", scan{}, scan{stats: map[int]*procfs.Stat{pid: {Pid: pid, Start: 5}}}, false},
		{"another process has its pid", scan{}, scan{stats: map[int]*procfs.Stat{pid: {Pid: pid, Start: 9, Session: pid}}}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := New(Options{})
			c.NewTree("web", false).addRoot(host.ProcessKey{Pid: pid, Start: 5})
			c.removeUnusedRoots(&tt.before, c.register.clone())
			c.removeUnusedRoots(&tt.after, c.register.clone())
			if removed := len(c.roots) == 0; removed != tt.want {
				t.Errorf("removed = %v, want %v", removed, tt.want)
			}
		})
	}
}

// TestRootsAreBounded: where kill_mode spares processes, there may be many starts between two
// scans.
func TestRootsAreBounded(t *testing.T) {
	c := New(Options{})
	other, tree := c.NewTree("other", false), c.NewTree("web", false)
	other.addRoot(host.ProcessKey{Pid: 1, Start: 1})
	last := host.ProcessKey{Pid: 3 * maxRoots}
	for pid := 2; pid <= last.Pid; pid++ {
		tree.addRoot(host.ProcessKey{Pid: pid})
	}
	if len(tree.roots) != maxRoots || len(c.roots) != maxRoots+1 || c.roots[last] != tree || c.roots[host.ProcessKey{Pid: 1, Start: 1}] != other {
		t.Errorf("%d roots of the tree, %d of all; want %d and one more, the last among them", len(tree.roots), len(c.roots), maxRoots)
	}
	tree.Remove()
	if len(c.roots) != 1 || len(tree.roots) != 0 {
		t.Errorf("%d roots after Remove, want the one of the other tree", len(c.roots))
	}
}
