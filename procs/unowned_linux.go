package procs

import (
	"maps"
	"os"
	"slices"

	"superd/internal/procfs"
)

// An unattributed is a child of superd whose tree no scan can find: it has cleared its environment,
// has a session of its own, and has closed the program's output.
type unattributed struct {
	stat      procfs.Stat
	instances []string // instances that had requested the scan that found it first
}

// Unattributed implements [System]. With cgroups there are none, as no process leaves a cgroup by
// accident. If this process had children before it became superd, an unattributed process may be
// one of their descendants: then it reports none.
func (k *Kernel) Unattributed(found func([]Member)) {
	c := k.scan
	if k.cgroups != nil || c.sparesUnattributed || !c.mayHaveStrangers() {
		found(nil)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks = append(c.asks, found)
	c.request()
}

// Unowned implements [System].
func (k *Kernel) Unowned() []UnattributedProcess {
	c := k.scan
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []UnattributedProcess
	for _, key := range slices.SortedFunc(maps.Keys(c.strangers), func(a, b processKey) int { return a.pid - b.pid }) {
		if s := c.strangers[key]; isAlive(key) {
			all = append(all, UnattributedProcess{Pid: key.pid, Start: key.start, Command: s.stat.Command, Instances: s.instances})
		} else {
			delete(c.strangers, key)
		}
	}
	return all
}

// mayHaveStrangers reports whether superd has a child that is no main process or hook. It reads
// only superd's own children.
func (c *processScan) mayHaveStrangers() bool {
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
func (c *processScan) isStranger(h *procfs.Stat, family []*procfs.Stat, w *scan) bool {
	if h.Parent != c.self || h.Dead || c.before[keyOf(h)] || slices.ContainsFunc(family, func(s *procfs.Stat) bool { return w.mute[keyOf(s)] || c.isMarked(s) }) {
		return false
	}
	g := &c.kernel.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.isNew(h.Pid)
}

// isMarked reports whether superd has started the process, or an ancestor, for a program, which may
// be gone: then its kill_mode has spared the process.
func (c *processScan) isMarked(s *procfs.Stat) bool {
	m, told, _ := readTags(s.Pid)
	return !told || m.run != "" && m.owner == c.runtimeDir
}

// meetStrangers logs unattributed processes that a scan has found for the first time. looks are
// those that had requested the scan.
func (c *processScan) meetStrangers(w *scan, looks []*look) {
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
			c.kernel.log.Warn("a process can't be attributed to a program: it has cleared its environment and left its session, parents and output; it is ended when superd shuts down, unless a kill_mode spares processes or superd had children before it was superd",
				"pid", h.Pid, "command", h.Command, "perhaps_of", instances)
		}
	}
}

// serveAsks answers requests for unattributed processes. It returns those that must wait for
// another scan.
func (c *processScan) serveAsks(asks []func([]Member), w *scan) (again []func([]Member)) {
	for _, found := range asks {
		members, err := openMembers(w.strangers)
		if err != nil {
			again = append(again, found) // short of descriptors
			continue
		}
		c.kernel.loop.Post(func() { found(members) })
	}
	return again
}

// childrenBefore returns the children that this process had before it became superd, as after an
// exec from a shell.
func childrenBefore() map[processKey]bool {
	before := map[processKey]bool{}
	for pid := range procfs.Children(os.Getpid()) {
		if s, err := procfs.ReadStat(pid); err == nil {
			before[keyOf(&s)] = true
		}
	}
	return before
}
