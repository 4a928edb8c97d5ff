package proctree

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"superd/internal/procfs"
	"superd/procs/host"
)

// follows reports whether no orphan has ended since before began, other trees' orphans excepted.
func (sc *scan) follows(before *scan, tree *Tree) bool {
	return before.from == sc.to && maps.Equal(before.zombiesOf(tree), sc.zombiesOf(tree))
}

// zombiesOf returns the zombies that may belong to the tree.
func (sc *scan) zombiesOf(tree *Tree) map[host.ProcessKey]bool {
	zombies := map[host.ProcessKey]bool{}
	for key, t := range sc.zombies {
		if t == nil || t == tree {
			zombies[key] = true
		}
	}
	return zombies
}

// maxChildrenReads bounds how often a scan reads the list of superd's children at its end.
const maxChildrenReads = 5

// scan visits all processes and attributes them to trees. The error is a shortage.
func (c *Scanner) scan(kills []*Tree) (*scan, error) {
	sc := &scan{kills: kills, stats: map[int]*procfs.Stat{}, orphans: map[int]*Tree{}, from: c.reaped.Load()}
	pids, err := procfs.Pids()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	register := c.register.clone()
	if c.outsidersStale {
		c.outsidersStale, c.outsiders = false, nil
	}
	c.mu.Unlock()
	for _, pid := range pids {
		if _, err := c.visit(sc, pid, register); err != nil {
			return nil, err
		}
	}
	for range maxChildrenReads { // processes that became superd's children meanwhile
		any := false
		for pid := range procfs.Children(c.self) {
			isNew, err := c.visit(sc, pid, register)
			if err != nil {
				return nil, err
			}
			any = any || isNew
		}
		if !any {
			break
		}
	}
	sc.to = c.reaped.Load()
	c.attribute(sc, register)
	if awaited := sc.unreadable; c.await(awaited) {
		c.attribute(sc, register)
		// the next scan awaits those that have become unreadable since
		maps.DeleteFunc(sc.unreadable, func(key host.ProcessKey, _ bool) bool { return !awaited[key] })
	}
	c.unreadable = sc.unreadable
	c.removeUnusedRoots(sc, register)
	return sc, nil
}

// visit reads a process and, if it is an orphan, attributes it at once: a moment later it may be
// gone. isNew means that the scan had not visited it before. The error is a shortage.
func (c *Scanner) visit(sc *scan, pid int, r register) (isNew bool, err error) {
	if sc.stats[pid] != nil {
		return false, nil
	}
	s, err := procfs.ReadStat(pid)
	if err != nil {
		return true, shortage(err)
	}
	sc.stats[pid] = &s
	if s.Parent == c.self && r.roots[keyOf(&s)] == nil {
		tree := r.orphans[keyOf(&s)]
		if tree == nil {
			tree, _ = c.treeOf(&s, r)
		}
		if tree != nil {
			sc.orphans[pid] = tree
			if !s.Dead && slices.Contains(sc.kills, tree) && kill(&s) {
				tree.killed[keyOf(&s)] = true
			}
		}
	}
	return true, nil
}

// await waits until the processes can be read, for at most tagsTimeout. It skips those that were
// unreadable in the last scan, too. It reports whether it has waited.
func (c *Scanner) await(unreadable map[host.ProcessKey]bool) bool {
	waits := maps.Clone(unreadable)
	maps.DeleteFunc(waits, func(key host.ProcessKey, _ bool) bool { return c.unreadable[key] })
	if len(waits) == 0 {
		return false
	}
	for until := time.Now().Add(tagsTimeout); len(waits) > 0 && time.Now().Before(until); time.Sleep(time.Millisecond) {
		maps.DeleteFunc(waits, func(key host.ProcessKey, _ bool) bool {
			_, readable, _ := readTags(key.Pid)
			return readable
		})
	}
	return true
}

// attribute sets what sc has by tree: members, zombies, and those without a tree.
func (c *Scanner) attribute(sc *scan, r register) {
	sc.members, sc.zombies, sc.unreadable = map[*Tree][]procfs.Stat{}, map[host.ProcessKey]*Tree{}, map[host.ProcessKey]bool{}
	sc.unattributedRoots, sc.unattributed = nil, nil
	// by pid: the root or orphan that it is below, or is itself; nil: it is not below superd
	headOf := map[int]*procfs.Stat{}
	var findHead func(s *procfs.Stat) *procfs.Stat
	findHead = func(s *procfs.Stat) *procfs.Stat {
		if h, ok := headOf[s.Pid]; ok {
			return h
		}
		headOf[s.Pid] = nil // ends a cycle, as reads at different times may show one
		var h *procfs.Stat
		parent := c.parentIn(sc, s)
		switch {
		case s.Parent == c.self || r.roots[keyOf(s)] != nil:
			h = s
		case parent != nil:
			h = findHead(parent)
		}
		headOf[s.Pid] = h
		return h
	}
	families := map[*procfs.Stat][]*procfs.Stat{}
	for _, pid := range slices.Sorted(maps.Keys(sc.stats)) {
		s := sc.stats[pid]
		h := findHead(s)
		switch {
		case h == nil:
		case !s.Dead:
			families[h] = append(families[h], s)
		case s == h && r.roots[keyOf(s)] == nil:
			sc.zombies[keyOf(s)] = sc.orphans[s.Pid]
		}
	}
	orphans := map[host.ProcessKey]*Tree{}
	for h, family := range families {
		tree := r.roots[keyOf(h)]
		if tree == nil {
			tree = sc.orphans[h.Pid]
			for i := 0; tree == nil && i < len(family); i++ {
				tree = c.treeOfVisited(sc, family[i], r)
			}
			if tree == nil {
				if c.isUnattributed(h, family, sc) {
					sc.unattributedRoots = append(sc.unattributedRoots, h)
					for _, s := range family {
						sc.unattributed = append(sc.unattributed, *s)
					}
				}
				continue
			}
			orphans[keyOf(h)] = tree
		}
		for _, s := range family {
			sc.members[tree] = append(sc.members[tree], *s)
		}
	}
	c.attributeOutsiders(sc, headOf, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orphans = orphans
}

// treeOfVisited is treeOf for a scan that has visited all processes. It notes unreadable ones.
func (c *Scanner) treeOfVisited(sc *scan, s *procfs.Stat, r register) *Tree {
	tree, readable := c.treeOf(s, r)
	if !readable {
		sc.unreadable[keyOf(s)] = true
	}
	return tree
}

// attributeOutsiders adds to sc.members the processes of a predecessor's trees that are not below
// superd or a root.
func (c *Scanner) attributeOutsiders(sc *scan, headOf map[int]*procfs.Stat, r register) {
	c.mu.Lock()
	foreign := c.foreign
	c.mu.Unlock()
	if foreign == 0 {
		c.outsiders = nil
		return
	}
	seen := make(map[host.ProcessKey]*Tree, len(sc.stats))
	var treeOf func(s *procfs.Stat) *Tree
	treeOf = func(s *procfs.Stat) *Tree {
		key := keyOf(s)
		tree, ok := seen[key]
		if ok {
			return tree
		}
		seen[key] = nil // ends a cycle
		if tree, ok = c.outsiders[key]; !ok && s.Pid != c.keeper {
			tree = c.treeOfVisited(sc, s, r)
		}
		if parent := sc.stats[s.Parent]; tree == nil && parent != nil && parent.Start <= s.Start && parent.Pid != c.self {
			tree = treeOf(parent)
		}
		if tree != nil && !tree.isForeign() {
			tree = nil
		}
		seen[key] = tree
		return tree
	}
	for _, pid := range slices.Sorted(maps.Keys(sc.stats)) {
		s := sc.stats[pid]
		if headOf[pid] != nil || s.Dead || pid == c.self || pid == c.keeper {
			continue
		}
		if tree := treeOf(s); tree != nil {
			sc.members[tree] = append(sc.members[tree], *s)
		} else if sc.unreadable[keyOf(s)] {
			delete(seen, keyOf(s))
		}
	}
	c.outsiders = seen
}

// parentIn returns the parent of s. It reads s again if the parent has ended since, as s then has
// another one.
func (c *Scanner) parentIn(sc *scan, s *procfs.Stat) *procfs.Stat {
	for range 2 {
		if s.Parent == c.self {
			return nil
		}
		if p := sc.stats[s.Parent]; p != nil && p.Start <= s.Start {
			return p
		}
		now, err := procfs.ReadStat(s.Pid)
		if err != nil || now.Start != s.Start {
			return nil
		}
		*s = now
	}
	return nil
}

// treeOf returns the tree to which an orphan, or a process below one, belongs. readable is false
// if that can't be determined at present.
func (c *Scanner) treeOf(s *procfs.Stat, r register) (tree *Tree, readable bool) {
	for _, number := range []int{s.Session, s.Group} {
		if t := r.byNumber(s, number); t != nil {
			return t, true
		}
	}
	if s.Dead {
		return nil, true
	}
	tags, tagsReadable, _ := readTags(s.Pid)
	if t := c.byTags(tags); t != nil {
		return t, true
	}
	tree, readable = c.byFIFO(s.Pid)
	return tree, tree != nil || tagsReadable && readable
}

// byTags returns the tree that the tags name; nil if there is none.
func (c *Scanner) byTags(tags Tags) *Tree {
	if tags.Run == "" || tags.Owner != c.options.RuntimeDir {
		return nil
	}
	name := tags.Instance
	if tags.Probe {
		name += host.ProbeSuffix
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trees[name]
}

// byFIFO returns the tree whose FIFO is among the descriptors of a process; nil if there is none.
// readable is false while the process still has superd's descriptors.
func (c *Scanner) byFIFO(pid int) (tree *Tree, readable bool) {
	c.mu.Lock()
	fifos := map[string]*Tree{}
	for _, t := range c.trees {
		for _, fifo := range t.fifos {
			fifos[fifo] = t
		}
		if t.hasPlainFIFO {
			fifos[c.fifoDir+t.instance] = t
		}
	}
	c.mu.Unlock()
	// Between its fork and its exec, and during a part of the exec, a child of superd still runs
	// superd's binary and has superd's descriptors.
	own, err := os.Readlink("/proc/self/exe")
	if exe, e := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || e != nil || exe == own {
		return nil, !isShortage(e)
	}
	if s, err := procfs.ReadStat(pid); err != nil || s.InExec {
		return nil, err != nil && !isShortage(err)
	}
	for target := range procfs.OpenFiles(pid) {
		if t := fifos[target]; t != nil {
			return t, true
		}
	}
	return nil, true
}

// removeUnusedRoots removes roots that are gone and whose number no session or group has: others
// may get it. Two scans with no orphan's end in between must agree on that, as in answer.
func (c *Scanner) removeUnusedRoots(sc *scan, r register) {
	used := map[int]bool{}
	for _, s := range sc.stats {
		used[s.Session], used[s.Group] = true, true
	}
	unusedRoots := map[host.ProcessKey]bool{}
	for k := range r.roots {
		if s := sc.stats[k.Pid]; s == nil && !used[k.Pid] || s != nil && keyOf(s) != k {
			unusedRoots[k] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range unusedRoots {
		if t := c.roots[k]; t != nil && c.unusedRoots[k] && c.unusedRootsFrom == sc.to {
			t.removeRoots(k)
		}
	}
	c.unusedRoots, c.unusedRootsFrom = unusedRoots, sc.from
}

// isUnattributed reports whether a child of superd without a tree is unattributed. Earlier children
// of this process and ones just started are not. Nor is a child if a process of its family, those
// below it and itself, has superd's environment tags or may identify the tree later.
func (c *Scanner) isUnattributed(h *procfs.Stat, family []*procfs.Stat, sc *scan) bool {
	// IsNew comes before the tags: a child that is not new has executed, and has its tags.
	if h.Parent != c.self || h.Dead || c.before[keyOf(h)] || c.options.IsNew(h.Pid) {
		return false
	}
	return !slices.ContainsFunc(family, func(s *procfs.Stat) bool { return sc.unreadable[keyOf(s)] || c.hasTags(s) })
}

// hasTags reports whether superd started the process or an ancestor. The program may be gone: then
// its kill_mode spared the process.
func (c *Scanner) hasTags(s *procfs.Stat) bool {
	tags, readable, _ := readTags(s.Pid)
	return !readable || tags.Run != "" && tags.Owner == c.options.RuntimeDir
}
