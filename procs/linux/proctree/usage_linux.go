package proctree

import (
	"os"
	"time"

	"superd/internal/procfs"
	"superd/procs/host"
)

// TreeUsages returns the usage of the instances' trees without their main processes, in the order
// of mains. It reads all of /proc once, except for others, the pids of all main processes. It may
// block, so it must not run on the loop.
//
// A process belongs to the tree of the main process that it descends from, or whose session it is
// in. An orphan in a session of its own, whose parent is superd or its keeper, belongs to the
// instance in its environment tags. owner is the runtime directory in the tags of superd's own
// processes.
func TreeUsages(mains []host.MainProcess, others []int, owner string) []host.TreeUsage {
	t := treeScan{
		usages: make([]host.TreeUsage, len(mains)),
		seen:   map[int]seenProcess{},
		mains:  make(map[int]int, len(mains)),
		names:  make(map[string]int, len(mains)),
		owner:  owner,
	}
	for i, m := range mains {
		if m.Pid == 0 {
			continue
		}
		t.mains[m.Pid], t.names[m.Instance] = i, i
	}
	if len(t.mains) == 0 {
		return t.usages
	}
	pids, err := procfs.Pids()
	if err != nil {
		return t.usages
	}
	skip := make(map[int]bool, len(others))
	for _, pid := range others {
		skip[pid] = true
	}
	for _, pid := range pids {
		if skip[pid] {
			continue
		}
		if s, err := procfs.ReadStat(pid); err == nil && !s.Kernel && !s.Dead {
			t.seen[pid] = seenProcess{s.Parent, s.Session, s.CPU + s.WaitedCPU, s.RSS, unresolved}
		}
	}
	for pid, p := range t.seen {
		if i := t.treeOf(pid, 0); i >= 0 {
			t.usages[i].CPU += p.cpu
			t.usages[i].RSS += p.rss
			t.usages[i].Processes++
		}
	}
	return t.usages
}

// A seenProcess is what a scan has read of a process.
type seenProcess struct {
	parent, session int
	cpu             time.Duration
	rss             int64
	tree            int // index of its tree, noTree or unresolved
}

const (
	noTree     = -1
	unresolved = -2
)

// maxDepth bounds how many ancestors are followed: reads at different times may show a cycle.
const maxDepth = 1000

// A treeScan attributes the processes that it has seen to trees.
type treeScan struct {
	usages []host.TreeUsage
	seen   map[int]seenProcess
	mains  map[int]int    // indexes of trees, by pid
	names  map[string]int // indexes of trees, by instance
	owner  string
}

// treeOf returns the index of the tree that a process belongs to, or noTree.
func (t *treeScan) treeOf(pid, depth int) int {
	if i, ok := t.mains[pid]; ok {
		return i
	}
	p, ok := t.seen[pid]
	if !ok || depth > maxDepth {
		return noTree
	}
	if p.tree != unresolved {
		return p.tree
	}
	tree, ok := t.mains[p.session]
	switch {
	case ok:
	case p.parent == os.Getpid() || p.parent == os.Getppid():
		tree = noTree
		if tags, readable, err := readTags(pid); err == nil && readable && tags.Owner == t.owner {
			if i, ok := t.names[tags.Instance]; ok {
				tree = i
			}
		}
	default:
		tree = t.treeOf(p.parent, depth+1)
	}
	p.tree = tree
	t.seen[pid] = p
	return tree
}
