package procs

import (
	"maps"
	"math"
	"slices"
	"time"

	"superd/config"
	"superd/pidfd"
)

// A censusTree is the [Tree] of an instance that has no cgroup. Its fields belong to the census: c.mu guards them, or the goroutine
// that serves has them for itself.
type censusTree struct {
	census   *census
	instance string

	births  int          // starts so far
	touched bool         // somebody may live in it
	since   uint64       // nobody in it is older, in clock ticks since boot; while it is touched and not foreign
	unknown int          // starts since then of which the process is not in ids: it is not known yet, there is none, or there were too many
	foreign bool         // an earlier superd may have started them
	ids     []processKey // those in census.known, oldest first
	fifos   []string     // as /proc shows them

	killing   bool
	killUntil time.Time
	signaled  map[processKey]bool // serve's: who has got SIGKILL
	emptyWalk *headcount          // serve's: the last walk, if it met nobody of the tree
}

func (c *census) newTree(instance string, inherited bool) *censusTree {
	t := &censusTree{census: c, instance: instance, touched: inherited, foreign: inherited}
	c.mu.Lock()
	defer c.mu.Unlock()
	if inherited {
		c.foreign++
	}
	c.trees[instance] = t
	c.learned = c.learned || inherited
	return t
}

// settle notes that nobody lives in it. The caller holds c.mu.
func (t *censusTree) settle() {
	if t.touched = false; t.foreign {
		t.foreign = false
		t.census.foreign--
	}
	t.forget(t.ids...) // others may get their numbers
}

// bereft reports that nobody lives in the tree, if superd's own children tell; births is the number of its starts then. Whoever is left of it is one of
// its main processes and hooks, or below one, or below a child that has come to superd since the tree's first start.
func (t *censusTree) bereft(births int) bool {
	c := t.census
	c.mu.Lock()
	ids, since := slices.Clone(t.ids), t.since
	certain := t.touched && !t.foreign && t.unknown == 0 && t.births == births && !t.killing // or who is born next might be killed with them
	c.mu.Unlock()
	if !certain || slices.ContainsFunc(ids, isAlive) {
		return false
	}
	children, ok := childrenNow(c.self)
	if !ok || slices.ContainsFunc(children, func(pid int) bool { return c.mayBelong(pid, t, since) }) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.births != births || t.killing {
		return false
	}
	t.settle()
	return true
}

// mayBelong reports whether a child of superd that has just been one, or what is below it, may be of the tree.
func (c *census) mayBelong(pid int, t *censusTree, since uint64) bool {
	s, err := readStat(pid)
	if err != nil {
		return true // it is gone, and may have left others
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.known[s.key()]; owner != nil {
		return owner == t && !s.dead
	}
	return s.start >= since
}

// isAlive reports whether the process is there and has not ended.
func isAlive(id processKey) bool {
	s, err := readStat(id.pid)
	return err == nil && s.key() == id && !s.dead
}

func (t *censusTree) isForeign() bool {
	t.census.mu.Lock()
	defer t.census.mu.Unlock()
	return t.foreign
}

// Place implements [Tree].
func (t *censusTree) Place() string { return anyPlace }

// adopt implements [kernelTree].
func (t *censusTree) adopt(a *Adoptee) error {
	var fifos []string
	for _, o := range a.Outputs {
		fifo := o.FIFO
		if path := fifoPath(o.ReadFD); path != "" {
			fifo = path
		}
		fifos = append(fifos, fifo)
	}
	c := t.census
	c.mu.Lock()
	defer c.mu.Unlock()
	t.fifos, c.learned = fifos, c.learned || t.foreign
	if a.Found != nil {
		t.know(processKey{a.Process.Pid, a.Process.Start})
	}
	return nil
}

// Empty implements [Tree].
func (t *censusTree) Empty() bool {
	t.census.mu.Lock()
	defer t.census.mu.Unlock()
	return !t.touched
}

// OOMKills implements [Tree]. The kernel tells it of cgroups only.
func (t *censusTree) OOMKills() int { return 0 }

// Look implements [Tree].
func (t *censusTree) Look(found func([]Member)) {
	if t.Empty() {
		found(nil)
		return
	}
	c := t.census
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks = append(c.looks, &look{tree: t, found: found, births: t.births})
	c.request()
}

// maxAncestors is how many of a process's ancestors are asked whose tree they are in: it may bring forth as many as it likes.
const maxAncestors = 64

// Has implements [Tree]: by ancestors, session and group alone. To look into environments could take long.
func (t *censusTree) Has(pid int) bool {
	c := t.census
	c.mu.Lock()
	defer c.mu.Unlock()
	youngest := uint64(math.MaxUint64)
	for range maxAncestors {
		s, err := readStat(pid)
		if err != nil || s.start > youngest || pid == c.self {
			return false
		}
		if owner := c.known[s.key()]; owner != nil {
			return owner == t
		}
		if c.orphans[s.key()] == t || t.leads(&s) {
			return true
		}
		pid, youngest = s.parent, s.start
	}
	return false
}

// leads reports whether the session or group of s is that of a main process or hook of the tree. The caller holds c.mu.
func (t *censusTree) leads(s *procStat) bool {
	return slices.ContainsFunc(t.ids, func(id processKey) bool {
		if id.pid != s.session && id.pid != s.group || id.start > s.start {
			return false
		}
		now, err := readStat(id.pid)
		return err != nil || now.key() == id // who has the pid now has the number, too
	})
}

// Kill implements [Tree]: everybody gets SIGKILL soon and as long as somebody new is met, so that those who fork faster than their
// parents die are met in the end.
func (t *censusTree) Kill() error {
	c := t.census
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
func (t *censusTree) Remove() {
	c := t.census
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trees[t.instance] == t {
		delete(c.trees, t.instance)
	}
	maps.DeleteFunc(c.orphans, func(_ processKey, other *censusTree) bool { return other == t })
	t.settle()
	t.killing = false
	c.changed.Broadcast()
}

// admit implements [kernelTree].
func (t *censusTree) admit(limits *config.Limits) (int, error) {
	c := t.census
	for _, l := range limitsIn(limits) {
		return -1, limitsError(l.limit, l.controller, c.why)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.killUntil = time.Time{}
	for t.killing {
		c.changed.Wait() // who is born now is not meant
	}
	t.births++
	t.unknown++
	if !t.touched {
		t.touched, t.since, t.unknown = true, bootTicks(), 1
	}
	return -1, nil
}

// born implements [kernelTree].
func (t *censusTree) born(id pidfd.Identity, open []int) {
	var fifos []string
	for _, fd := range open {
		fifos = append(fifos, fifoPath(fd))
	}
	c := t.census
	c.mu.Lock()
	defer c.mu.Unlock()
	t.fifos = fifos
	t.unknown--
	if !t.touched { // a look has come before the fork
		t.touched, t.since, t.unknown = true, id.Start, 0
	}
	t.know(processKey{id.Pid, id.Start})
}

// meet tells of another main process, which the tree has had already.
func (t *censusTree) meet(id pidfd.Identity) {
	t.census.mu.Lock()
	defer t.census.mu.Unlock()
	t.know(processKey{id.Pid, id.Start})
}

// makeRoom implements [kernelTree].
func (t *censusTree) makeRoom(error) bool { return false }
