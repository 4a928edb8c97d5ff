package proctree

import (
	"maps"
	"math"
	"slices"
	"time"

	"superd/config"
	"superd/internal/procfs"
	"superd/pidfd"
	"superd/procs/host"
)

// A Tree is the [host.Tree] of an instance that has no cgroup. Its fields are guarded by the
// process scan's mutex, or belong to the goroutine in serve.
type Tree struct {
	scanner  *Scanner
	instance string

	spawns  int  // number of starts so far
	touched bool // processes may live in it
	// lower bound of its processes' start times, in clock ticks since boot; valid while touched and
	// not foreign
	since uint64
	// starts since then whose process is not in ids: it is not known yet, there is none, or there
	// were too many
	unknown int
	foreign bool              // a predecessor may have started its processes
	ids     []host.ProcessKey // its processes in scanner.known, oldest first
	fifos   []string          // paths as in /proc

	killing   bool
	killUntil time.Time
	signaled  map[host.ProcessKey]bool // used by serve: processes that got SIGKILL
	// used by serve: the last scan, if it found no process of the tree
	emptyWalk *scan
}

// NewTree returns the tree of an instance. If it is inherited, processes of a predecessor may live
// in it.
func (c *Scanner) NewTree(instance string, inherited bool) *Tree {
	t := &Tree{scanner: c, instance: instance, touched: inherited, foreign: inherited}
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
func (t *Tree) markEmpty() {
	if t.touched = false; t.foreign {
		t.foreign = false
		t.scanner.foreign--
	}
	t.forget(t.ids...) // their numbers may be reused
}

// bereft reports whether superd's own children prove that no process lives in the tree; spawns is
// the number of its starts then. A remaining process is one of its main processes and hooks, or
// below one, or below a child that superd got since the tree's first start.
func (t *Tree) bereft(spawns int) bool {
	c := t.scanner
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
func (c *Scanner) mayBelong(pid int, t *Tree, since uint64) bool {
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

func (t *Tree) isForeign() bool {
	t.scanner.mu.Lock()
	defer t.scanner.mu.Unlock()
	return t.foreign
}

// Path implements [host.Tree].
func (t *Tree) Path() string { return host.ScanPath }

// Lack implements [host.Tree]. It is empty, as superd has no cgroups at all.
func (t *Tree) Lack() string { return "" }

// Adopt adopts a predecessor's processes. It is called off the loop.
func (t *Tree) Adopt(a *host.RecoveredProcess) error {
	var fifos []string
	for _, o := range a.Outputs {
		fifo := o.FIFO
		if path := fifoPath(o.ReadFD); path != "" {
			fifo = path
		}
		fifos = append(fifos, fifo)
	}
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	t.fifos, c.learned = fifos, c.learned || t.foreign
	if a.Found != nil {
		t.know(host.ProcessKey{Pid: a.Process.Pid, Start: a.Process.Start})
	}
	return nil
}

// Empty implements [host.Tree].
func (t *Tree) Empty() bool {
	t.scanner.mu.Lock()
	defer t.scanner.mu.Unlock()
	return !t.touched
}

// OOMKills implements [host.Tree]. The kernel counts only for cgroups.
func (t *Tree) OOMKills() int { return 0 }

// Look implements [host.Tree].
func (t *Tree) Look(found func([]host.Member)) {
	if t.Empty() {
		found(nil)
		return
	}
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks = append(c.looks, &look{tree: t, found: found, spawns: t.spawns})
	c.request()
}

// Has implements [host.Tree], by ancestors, session and group only. Reading environments could take
// long.
func (t *Tree) Has(pid int) bool {
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	youngest := uint64(math.MaxUint64)
	for range procfs.MaxAncestors {
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
func (t *Tree) leads(s *procfs.Stat) bool {
	return slices.ContainsFunc(t.ids, func(id host.ProcessKey) bool {
		if id.Pid != s.Session && id.Pid != s.Group || id.Start > s.Start {
			return false
		}
		now, err := procfs.ReadStat(id.Pid)
		return err != nil || keyOf(&now) == id // if the pid was reused, so were session and group
	})
}

// Kill implements [host.Tree]. Scans send SIGKILL to all processes while they find new ones, for
// KillPause at most. So a tree that forks faster than its parents die is killed in the end.
func (t *Tree) Kill() error {
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.touched {
		if !t.killing {
			t.killing, t.signaled, t.emptyWalk = true, map[host.ProcessKey]bool{}, nil
		}
		t.killUntil = time.Now().Add(host.KillPause)
		c.request()
	}
	return nil
}

// Remove implements [host.Tree].
func (t *Tree) Remove() {
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trees[t.instance] == t {
		delete(c.trees, t.instance)
	}
	maps.DeleteFunc(c.orphans, func(_ host.ProcessKey, other *Tree) bool { return other == t })
	t.markEmpty()
	t.killing = false
	c.changed.Broadcast()
}

// PrepareSpawn prepares the tree for a new process, or refuses limits. The descriptor is -1: there
// is no cgroup. It is called off the loop.
func (t *Tree) PrepareSpawn(limits *config.Limits) (int, error) {
	c := t.scanner
	if err := c.options.Refuse(limits); err != nil {
		return -1, err
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
		t.touched, t.since, t.unknown = true, procfs.BootTicks(), 1
	}
	return -1, nil
}

// RegisterSpawned registers a new main process or hook, and the FIFOs that are its output. It is
// called off the loop.
func (t *Tree) RegisterSpawned(id pidfd.Identity, open []int) {
	var fifos []string
	for _, fd := range open {
		fifos = append(fifos, fifoPath(fd))
	}
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	t.fifos = fifos
	t.unknown--
	if !t.touched { // markEmpty was called between PrepareSpawn and the fork
		t.touched, t.since, t.unknown = true, id.Start, 0
	}
	t.know(host.ProcessKey{Pid: id.Pid, Start: id.Start})
}

// AddMain registers another main process that was in the tree already.
func (t *Tree) AddMain(id pidfd.Identity) {
	t.scanner.mu.Lock()
	defer t.scanner.mu.Unlock()
	t.know(host.ProcessKey{Pid: id.Pid, Start: id.Start})
}

// MakeRoom does nothing: a tree without a cgroup prevents no fork.
func (t *Tree) MakeRoom(error) bool { return false }
