package proctree

import (
	"maps"
	"slices"
	"time"

	"superd/internal/procfs"
	"superd/procs/host"
)

const (
	// for one request: where orphans end all the time, no scan proves that a tree is empty
	maxScans = 20
	// between scans while superd is short of descriptors
	shortagePause = 50 * time.Millisecond
)

// request makes serve run. The caller holds c.mu.
func (c *Scanner) request() {
	if !c.serving {
		c.serving = true
		go c.serve()
	}
}

// serve scans until there are no requests.
func (c *Scanner) serve() {
	for pause := time.Duration(0); ; {
		time.Sleep(pause)
		c.mu.Lock()
		requests, unattributedRequests := c.memberRequests, c.unattributedRequests
		c.memberRequests, c.unattributedRequests = nil, nil
		var kills []*Tree
		for _, name := range slices.Sorted(maps.Keys(c.trees)) {
			if t := c.trees[name]; t.killing {
				kills = append(kills, t)
			}
		}
		if len(requests)+len(kills)+len(unattributedRequests) == 0 {
			c.serving = false
			c.mu.Unlock()
			return
		}
		for _, q := range requests {
			if q.spawns != q.tree.spawns {
				q.spawns, q.before = q.tree.spawns, nil
			}
		}
		c.mu.Unlock()
		requests = slices.DeleteFunc(requests, c.answerEmpty)
		if len(requests)+len(kills)+len(unattributedRequests) == 0 {
			continue
		}

		sc, err := c.scan(kills)
		unanswered := requests
		if err != nil { // short of descriptors
			pause = shortagePause
		} else {
			pause = c.serveKills(kills, sc)
			c.logUnattributed(sc, requests)
			unattributedRequests = c.answerUnattributed(unattributedRequests, sc)
			unanswered = slices.DeleteFunc(requests, func(q *memberRequest) bool { return c.answer(q, sc) })
		}
		c.mu.Lock()
		c.memberRequests = append(unanswered, c.memberRequests...)
		c.unattributedRequests = append(unattributedRequests, c.unattributedRequests...)
		if len(c.memberRequests) > 0 && err == nil {
			pause = 0
		}
		c.mu.Unlock()
	}
}

// answerEmpty reports whether it answered the request without a scan, as the tree is empty.
func (c *Scanner) answerEmpty(q *memberRequest) bool {
	if !q.tree.hasNoProcess(q.spawns) {
		return false
	}
	c.options.Post(func() { q.done(nil) })
	return true
}

// answer reports whether it answered the request from the scan.
//
// A scan that finds no process proves nothing by itself: a process may end before it is visited,
// and leave a child that came too late to be listed. But then it leaves a zombie with superd, if it
// was an orphan; and a process that is no orphan is below one or below a main process. So the tree
// is empty if a second scan finds no process either, and finds the same zombies as the first.
func (c *Scanner) answer(q *memberRequest, sc *scan) bool {
	members, err := openMembers(sc.members[q.tree])
	switch {
	case len(members) > 0:
	// short of descriptors, or the found processes have ended meanwhile
	case err != nil || len(sc.members[q.tree]) > 0:
		q.before, q.tries = nil, 0
		return false
	case q.before != nil && sc.follows(q.before, q.tree):
		c.mu.Lock()
		if q.spawns == q.tree.spawns {
			q.tree.setEmpty()
		}
		c.mu.Unlock()
	case q.tries < maxScans:
		q.before = sc
		q.tries++
		return false
	}
	c.options.Post(func() { q.done(members) })
	return true
}

// hasNoProcess reports whether superd's own children prove that no process lives in the tree, which
// has had this number of starts. A process of the tree is one of its roots, or below one, or below
// a child that superd got since the tree's first start.
func (t *Tree) hasNoProcess(spawns int32) bool {
	c := t.scanner
	c.mu.Lock()
	roots, since := slices.Clone(t.roots), t.since
	// during a kill, a process started next might be killed, too
	certain := t.mayHaveProcesses && !t.foreign && t.unregistered == 0 && t.spawns == spawns && !t.killing
	c.mu.Unlock()
	if !certain || slices.ContainsFunc(roots, isAlive) {
		return false
	}
	children, ok := procfs.ConsistentChildren(c.self)
	if !ok || slices.ContainsFunc(children, func(pid int) bool { return c.mayBelong(pid, t, since) }) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.spawns != spawns || t.killing {
		return false
	}
	t.setEmpty()
	return true
}

// mayBelong reports whether a child of superd, or a process below it, may belong to the tree.
func (c *Scanner) mayBelong(pid int, t *Tree, since uint64) bool {
	s, err := procfs.ReadStat(pid)
	if err != nil {
		return true // it is gone, and may have left a child
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.roots[keyOf(&s)]; owner != nil {
		return owner == t && !s.Dead
	}
	return s.Start >= since
}

// Unattributed calls done on the loop, perhaps before it returns, with superd's children and their
// descendants that can't be attributed to a tree. done owns them. If this process had children
// before it became superd, an unattributed process may be one of their descendants: then there are
// none.
func (c *Scanner) Unattributed(done func([]host.Member)) {
	if c.options.SparesUnattributed || !c.mayHaveUnattributed() {
		done(nil)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unattributedRequests = append(c.unattributedRequests, done)
	c.request()
}
