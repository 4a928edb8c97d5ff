package proctree

import (
	"maps"
	"slices"

	"superd/internal/procfs"
	"superd/procs/host"
)

// A register maps processes to trees.
type register struct {
	known   map[host.ProcessKey]*Tree // main processes and hooks; until the number is free
	orphans map[host.ProcessKey]*Tree // orphans attributed by the last scan
	byPid   map[int][]host.ProcessKey // index of known; only in a clone
}

func (r register) clone() register {
	byPid := make(map[int][]host.ProcessKey, len(r.known))
	for k := range r.known {
		byPid[k.Pid] = append(byPid[k.Pid], k)
	}
	return register{maps.Clone(r.known), maps.Clone(r.orphans), byPid}
}

// byNumber returns the tree of the main process or hook whose pid is the number of the session or
// group of s; nil if there is none. The kernel does not reuse a number while a session or group has
// it. So the number is that of the last process with that pid when s began.
func (r register) byNumber(s *procfs.Stat, number int) *Tree {
	var last host.ProcessKey
	for _, k := range r.byPid[number] {
		if k.Start <= s.Start && k.Start >= last.Start {
			last = k
		}
	}
	tree := r.known[last]
	if tree == nil {
		return nil
	}
	if now, err := procfs.ReadStat(number); err == nil && keyOf(&now) != last {
		return nil // the pid was reused, and the session or group with it
	}
	return tree
}

// forgetUnused forgets known processes that are gone and whose number no session or group has, so
// that others can get it. Two scans with no orphan's end in between must agree on that, as in
// answer.
func (c *Scanner) forgetUnused(w *scan, r register) {
	used := map[int]bool{}
	for _, s := range w.stats {
		used[s.Session], used[s.Group] = true, true
	}
	unused := map[host.ProcessKey]bool{}
	for k := range r.known {
		if s := w.stats[k.Pid]; s == nil && !used[k.Pid] || s != nil && keyOf(s) != k {
			unused[k] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range unused {
		if t := c.known[k]; t != nil && c.unused[k] && c.unusedFrom == w.to {
			t.forget(k)
		}
	}
	c.unused, c.unusedFrom = unused, w.from
}

// maxKnown bounds how many main processes and hooks of a tree are known at a time. Where kill_mode
// spares processes, there may be no look between the starts, so that none of them is forgotten.
const maxKnown = 100

// know registers a main process or hook. The caller holds c.mu.
func (t *Tree) know(id host.ProcessKey) {
	if len(t.ids) == maxKnown {
		t.forget(t.ids[0])
		t.unknown++
	}
	t.ids = append(t.ids, id)
	t.scanner.known[id] = t
	t.scanner.learned = t.scanner.learned || t.foreign
}

// forget unregisters main processes and hooks. The caller holds c.mu.
func (t *Tree) forget(ids ...host.ProcessKey) {
	for _, id := range ids {
		delete(t.scanner.known, id)
	}
	t.ids = slices.DeleteFunc(t.ids, func(id host.ProcessKey) bool { return t.scanner.known[id] != t })
}
