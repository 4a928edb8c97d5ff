package procs

import (
	"maps"
	"slices"
)

// A register tells to which trees processes belong.
type register struct {
	known   map[processKey]*censusTree // main processes and hooks, until nobody has their number
	orphans map[processKey]*censusTree // those whose tree was found out by the last walk
	byPid   map[int][]processKey       // of the known; only in a clone
}

func (r register) clone() register {
	byPid := make(map[int][]processKey, len(r.known))
	for k := range r.known {
		byPid[k.pid] = append(byPid[k.pid], k)
	}
	return register{maps.Clone(r.known), maps.Clone(r.orphans), byPid}
}

// byNumber returns the tree of the main process or hook after which the session or group of s has its number; nil if there is none.
// As long as somebody is in a session or group, nobody else gets its number: so it is of the last who had that pid when s began.
func (r register) byNumber(s *procStat, number int) *censusTree {
	var last processKey
	for _, k := range r.byPid[number] {
		if k.start <= s.start && k.start >= last.start {
			last = k
		}
	}
	tree := r.known[last]
	if tree == nil {
		return nil
	}
	if now, err := readStat(number); err == nil && now.key() != last {
		return nil // who has the pid now has the number, too
	}
	return tree
}

// forgetUnused forgets those known who are gone and whose number is that of nobody's session or group any more, so that others can get it.
// Two walks without an orphan's end between have to find that, as in answer.
func (c *census) forgetUnused(w *headcount, r register) {
	used := map[int]bool{}
	for _, s := range w.stats {
		used[s.session], used[s.group] = true, true
	}
	unused := map[processKey]bool{}
	for k := range r.known {
		if s := w.stats[k.pid]; s == nil && !used[k.pid] || s != nil && s.key() != k {
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

// maxKnown bounds how many main processes and hooks of a tree are known at a time. Where kill_mode leaves things alone, nobody may look
// between the starts, and nothing be forgotten.
const maxKnown = 100

// know notes a main process or hook. The caller holds c.mu.
func (t *censusTree) know(id processKey) {
	if len(t.ids) == maxKnown {
		t.forget(t.ids[0])
		t.unknown++
	}
	t.ids = append(t.ids, id)
	t.census.known[id] = t
	t.census.learned = t.census.learned || t.foreign
}

// forget is the opposite. The caller holds c.mu.
func (t *censusTree) forget(ids ...processKey) {
	for _, id := range ids {
		delete(t.census.known, id)
	}
	t.ids = slices.DeleteFunc(t.ids, func(id processKey) bool { return t.census.known[id] != t })
}
