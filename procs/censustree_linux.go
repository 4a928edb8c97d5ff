package procs

import (
	"maps"
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
	return t
}

// settle notes that nobody lives in it. The caller holds c.mu.
func (t *censusTree) settle() {
	if t.touched = false; t.foreign {
		t.foreign = false
		t.census.foreign--
	}
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
	t.fifos = fifos
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
	t.forget(t.ids...)
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
	t.touched = true
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
	t.know(processKey{id.Pid, id.Start})
}

// makeRoom implements [kernelTree].
func (t *censusTree) makeRoom(error) bool { return false }
