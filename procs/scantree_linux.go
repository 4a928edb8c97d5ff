package procs

import (
	"maps"
	"math"
	"slices"
	"time"

	"superd/config"
	"superd/internal/procfs"
	"superd/pidfd"
)

// A scanTree is the [Tree] of an instance that has no cgroup. Its fields are guarded by the process
// scan's mutex, or belong to the goroutine in serve.
type scanTree struct {
	processScan *processScan
	instance    string

	spawns  int  // number of starts so far
	touched bool // processes may live in it
	// lower bound of its processes' start times, in clock ticks since boot; valid while touched and
	// not foreign
	since uint64
	// starts since then whose process is not in ids: it is not known yet, there is none, or there
	// were too many
	unknown int
	foreign bool         // a predecessor may have started its processes
	ids     []processKey // its processes in processScan.known, oldest first
	fifos   []string     // paths as in /proc

	killing   bool
	killUntil time.Time
	signaled  map[processKey]bool // used by serve: processes that got SIGKILL
	// used by serve: the last scan, if it found no process of the tree
	emptyWalk *scan
}

func (c *processScan) newTree(instance string, inherited bool) *scanTree {
	t := &scanTree{processScan: c, instance: instance, touched: inherited, foreign: inherited}
	c.mu.Lock()
	defer c.mu.Unlock()
	if inherited {
		c.foreign++
	}
	c.trees[instance] = t
	c.learned = c.learned || inherited
	return t
}

// markEmpty records that no process lives in it. The caller holds c.mu.
func (t *scanTree) markEmpty() {
	if t.touched = false; t.foreign {
		t.foreign = false
		t.processScan.foreign--
	}
	t.forget(t.ids...) // their numbers may be reused
}

// bereft reports whether superd's own children prove that no process lives in the tree; spawns is
// the number of its starts then. A remaining process is one of its main processes and hooks, or
// below one, or below a child that superd got since the tree's first start.
func (t *scanTree) bereft(spawns int) bool {
	c := t.processScan
	c.mu.Lock()
	ids, since := slices.Clone(t.ids), t.since
	// during a kill, a process started next might be killed, too
	certain := t.touched && !t.foreign && t.unknown == 0 && t.spawns == spawns && !t.killing
	c.mu.Unlock()
	if !certain || slices.ContainsFunc(ids, isAlive) {
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
	t.markEmpty()
	return true
}

// mayBelong reports whether a present child of superd, or a process below it, may be of the tree.
func (c *processScan) mayBelong(pid int, t *scanTree, since uint64) bool {
	s, err := procfs.ReadStat(pid)
	if err != nil {
		return true // it is gone, and may have left others
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.known[keyOf(&s)]; owner != nil {
		return owner == t && !s.Dead
	}
	return s.Start >= since
}

// isAlive reports whether the process exists and has not ended.
func isAlive(id processKey) bool {
	s, err := procfs.ReadStat(id.pid)
	return err == nil && keyOf(&s) == id && !s.Dead
}

func (t *scanTree) isForeign() bool {
	t.processScan.mu.Lock()
	defer t.processScan.mu.Unlock()
	return t.foreign
}

// Path implements [Tree].
func (t *scanTree) Path() string { return anyPlace }

// Lack implements [Tree]. It is empty, as superd has no cgroups at all.
func (t *scanTree) Lack() string { return "" }

// adopt implements [kernelTree].
func (t *scanTree) adopt(a *RecoveredProcess) error {
	var fifos []string
	for _, o := range a.Outputs {
		fifo := o.FIFO
		if path := fifoPath(o.ReadFD); path != "" {
			fifo = path
		}
		fifos = append(fifos, fifo)
	}
	c := t.processScan
	c.mu.Lock()
	defer c.mu.Unlock()
	t.fifos, c.learned = fifos, c.learned || t.foreign
	if a.Found != nil {
		t.know(processKey{a.Process.Pid, a.Process.Start})
	}
	return nil
}

// Empty implements [Tree].
func (t *scanTree) Empty() bool {
	t.processScan.mu.Lock()
	defer t.processScan.mu.Unlock()
	return !t.touched
}

// OOMKills implements [Tree]. The kernel counts only for cgroups.
func (t *scanTree) OOMKills() int { return 0 }

// Look implements [Tree].
func (t *scanTree) Look(found func([]Member)) {
	if t.Empty() {
		found(nil)
		return
	}
	c := t.processScan
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks = append(c.looks, &look{tree: t, found: found, spawns: t.spawns})
	c.request()
}

// maxAncestors bounds how many ancestors of a process are examined: programs may nest processes
// without limit.
const maxAncestors = 64

// Has implements [Tree], by ancestors, session and group only. Reading environments could take
// long.
func (t *scanTree) Has(pid int) bool {
	c := t.processScan
	c.mu.Lock()
	defer c.mu.Unlock()
	youngest := uint64(math.MaxUint64)
	for range maxAncestors {
		s, err := procfs.ReadStat(pid)
		if err != nil || s.Start > youngest || pid == c.self {
			return false
		}
		if owner := c.known[keyOf(&s)]; owner != nil {
			return owner == t
		}
		if c.orphans[keyOf(&s)] == t || t.leads(&s) {
			return true
		}
		pid, youngest = s.Parent, s.Start
	}
	return false
}

// leads reports whether the session or group of s is that of a main process or hook of the tree.
// The caller holds c.mu.
func (t *scanTree) leads(s *procfs.Stat) bool {
	return slices.ContainsFunc(t.ids, func(id processKey) bool {
		if id.pid != s.Session && id.pid != s.Group || id.start > s.Start {
			return false
		}
		now, err := procfs.ReadStat(id.pid)
		return err != nil || keyOf(&now) == id // if the pid was reused, so were session and group
	})
}

// Kill implements [Tree]. Scans send SIGKILL to all processes while they find new ones, for
// killPause at most. So a tree that forks faster than its parents die is killed in the end.
func (t *scanTree) Kill() error {
	c := t.processScan
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.touched {
		if !t.killing {
			t.killing, t.signaled, t.emptyWalk = true, map[processKey]bool{}, nil
		}
		t.killUntil = time.Now().Add(killPause)
		c.request()
	}
	return nil
}

// Remove implements [Tree].
func (t *scanTree) Remove() {
	c := t.processScan
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trees[t.instance] == t {
		delete(c.trees, t.instance)
	}
	maps.DeleteFunc(c.orphans, func(_ processKey, other *scanTree) bool { return other == t })
	t.markEmpty()
	t.killing = false
	c.changed.Broadcast()
}

// prepareSpawn implements [kernelTree].
func (t *scanTree) prepareSpawn(limits *config.Limits) (int, error) {
	c := t.processScan
	for _, l := range limitsIn(limits) {
		return -1, limitsError(l.limit, l.controller, c.why)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.killUntil = time.Time{}
	for t.killing {
		c.changed.Wait() // the kill must not hit the new process
	}
	t.spawns++
	t.unknown++
	if !t.touched {
		t.touched, t.since, t.unknown = true, bootTicks(), 1
	}
	return -1, nil
}

// registerSpawned implements [kernelTree].
func (t *scanTree) registerSpawned(id pidfd.Identity, open []int) {
	var fifos []string
	for _, fd := range open {
		fifos = append(fifos, fifoPath(fd))
	}
	c := t.processScan
	c.mu.Lock()
	defer c.mu.Unlock()
	t.fifos = fifos
	t.unknown--
	if !t.touched { // markEmpty was called between prepareSpawn and the fork
		t.touched, t.since, t.unknown = true, id.Start, 0
	}
	t.know(processKey{id.Pid, id.Start})
}

// meet registers another main process that was in the tree already.
func (t *scanTree) meet(id pidfd.Identity) {
	t.processScan.mu.Lock()
	defer t.processScan.mu.Unlock()
	t.know(processKey{id.Pid, id.Start})
}

// makeRoom implements [kernelTree].
func (t *scanTree) makeRoom(error) bool { return false }
