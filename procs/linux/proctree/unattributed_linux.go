package proctree

import (
	"maps"
	"slices"

	"superd/internal/procfs"
	"superd/procs/host"
)

// Unowned returns the unattributed processes that scans have found and that live, with the
// instances that they may belong to.
func (c *Scanner) Unowned() []host.UnattributedProcess {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []host.UnattributedProcess
	for _, key := range slices.SortedFunc(maps.Keys(c.unattributed), func(a, b host.ProcessKey) int { return a.Pid - b.Pid }) {
		if u := c.unattributed[key]; isAlive(key) {
			all = append(all, host.UnattributedProcess{Pid: key.Pid, Start: key.Start, Command: u.stat.Command, Instances: u.instances})
		} else {
			delete(c.unattributed, key)
		}
	}
	return all
}

// mayHaveUnattributed reports whether superd has a child that is no main process or hook. It only
// reads superd's own children.
func (c *Scanner) mayHaveUnattributed() bool {
	children, ok := procfs.ConsistentChildren(c.self)
	return !ok || slices.ContainsFunc(children, func(pid int) bool {
		s, err := procfs.ReadStat(pid)
		if err != nil || s.Dead {
			return false
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.roots[keyOf(&s)] == nil
	})
}

// logUnattributed logs unattributed processes that a scan has found for the first time. requests
// are those that led to the scan.
func (c *Scanner) logUnattributed(sc *scan, requests []*memberRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var instances []string
	for _, q := range requests {
		instances = append(instances, q.tree.instance)
	}
	slices.Sort(instances)
	instances = slices.Compact(instances)
	for _, h := range sc.unattributedRoots {
		if c.unattributed[keyOf(h)] == nil {
			c.unattributed[keyOf(h)] = &unattributed{*h, instances}
			c.options.Log.Warn("unattributed process: it cleared its environment and left its session, parents and output; the shutdown ends it, unless a kill_mode spares processes or superd inherited children",
				"pid", h.Pid, "command", h.Command, "perhaps_of", instances)
		}
	}
}

// answerUnattributed answers requests for unattributed processes. It returns those that must wait
// for another scan.
func (c *Scanner) answerUnattributed(requests []func([]host.Member), sc *scan) (unanswered []func([]host.Member)) {
	for _, done := range requests {
		members, err := openMembers(sc.unattributed)
		if err != nil {
			unanswered = append(unanswered, done) // short of descriptors
			continue
		}
		c.options.Post(func() { done(members) })
	}
	return unanswered
}
