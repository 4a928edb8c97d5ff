package proctree

import (
	"maps"
	"os"
	"slices"

	"superd/internal/procfs"
	"superd/procs/host"
)

// An unattributed is a child of superd whose tree no scan can find: it has cleared its environment,
// has a session of its own, and has closed the program's output.
type unattributed struct {
	stat      procfs.Stat
	instances []string // instances that had requested the scan that found it first
}

// Unattributed calls found on the loop, perhaps before it returns, with superd's children and their
// descendants that can't be attributed to a tree. found owns them. If this process had children
// before it became superd, an unattributed process may be one of their descendants: then it reports
// none.
func (c *Scanner) Unattributed(found func([]host.Member)) {
	if c.options.SparesUnattributed || !c.mayHaveStrangers() {
		found(nil)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks = append(c.asks, found)
	c.request()
}

// Unowned returns those of them that were found by chance and live, with the instances that they
// may belong to.
func (c *Scanner) Unowned() []host.UnattributedProcess {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []host.UnattributedProcess
	for _, key := range slices.SortedFunc(maps.Keys(c.strangers), func(a, b host.ProcessKey) int { return a.Pid - b.Pid }) {
		if s := c.strangers[key]; isAlive(key) {
			all = append(all, host.UnattributedProcess{Pid: key.Pid, Start: key.Start, Command: s.stat.Command, Instances: s.instances})
		} else {
			delete(c.strangers, key)
		}
	}
	return all
}

// mayHaveStrangers reports whether superd has a child that is no main process or hook. It reads
// only superd's own children.
func (c *Scanner) mayHaveStrangers() bool {
	children, ok := procfs.ConsistentChildren(c.self)
	return !ok || slices.ContainsFunc(children, func(pid int) bool {
		s, err := procfs.ReadStat(pid)
		if err != nil || s.Dead {
			return false
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.known[keyOf(&s)] == nil
	})
}

// isStranger reports whether a child of superd whose tree is unknown is to be logged. Children from
// before superd became superd, and ones just started, are not. Nor are children in whose family a
// process has superd's environment tags or may identify its tree later.
func (c *Scanner) isStranger(h *procfs.Stat, family []*procfs.Stat, w *scan) bool {
	// IsNew comes before the tags: a child that is not new has executed, and has its tags.
	if h.Parent != c.self || h.Dead || c.before[keyOf(h)] || c.options.IsNew(h.Pid) {
		return false
	}
	return !slices.ContainsFunc(family, func(s *procfs.Stat) bool { return w.mute[keyOf(s)] || c.isMarked(s) })
}

// isMarked reports whether superd has started the process, or an ancestor, for a program, which may
// be gone: then its kill_mode has spared the process.
func (c *Scanner) isMarked(s *procfs.Stat) bool {
	m, told, _ := readTags(s.Pid)
	return !told || m.Run != "" && m.Owner == c.options.RuntimeDir
}

// meetStrangers logs unattributed processes that a scan has found for the first time. looks are
// those that had requested the scan.
func (c *Scanner) meetStrangers(w *scan, looks []*look) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var instances []string
	for _, l := range looks {
		instances = append(instances, l.tree.instance)
	}
	slices.Sort(instances)
	instances = slices.Compact(instances)
	for _, h := range w.heads {
		if c.strangers[keyOf(h)] == nil {
			c.strangers[keyOf(h)] = &unattributed{*h, instances}
			c.options.Log.Warn("unattributed process: it cleared its environment and left its session, parents and output; the shutdown ends it, unless a kill_mode spares processes or superd inherited children",
				"pid", h.Pid, "command", h.Command, "perhaps_of", instances)
		}
	}
}

// serveAsks answers requests for unattributed processes. It returns those that must wait for
// another scan.
func (c *Scanner) serveAsks(asks []func([]host.Member), w *scan) (again []func([]host.Member)) {
	for _, found := range asks {
		members, err := openMembers(w.strangers)
		if err != nil {
			again = append(again, found) // short of descriptors
			continue
		}
		c.options.Post(func() { found(members) })
	}
	return again
}

// childrenBefore returns the children that this process had before it became superd, as after an
// exec from a shell.
func childrenBefore() map[host.ProcessKey]bool {
	before := map[host.ProcessKey]bool{}
	for pid := range procfs.Children(os.Getpid()) {
		if s, err := procfs.ReadStat(pid); err == nil {
			before[keyOf(&s)] = true
		}
	}
	return before
}
