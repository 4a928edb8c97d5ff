package procs

import "sync"

// treesByInstance holds the trees that are in use, and those whose directories are not removed yet:
// a program that is added again gets its old tree.
type treesByInstance struct {
	mu sync.Mutex // never held while blocking, as the loop takes it
	by map[string]*cgroupTree
}

// use returns the tree of the instance; nil if there is none.
func (a *treesByInstance) use(instance string) *cgroupTree {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.by[instance]
	if t != nil {
		t.used = true
	}
	return t
}

func (a *treesByInstance) add(t *cgroupTree) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = map[string]*cgroupTree{}
	}
	a.by[t.instance], t.used = t, true
}

// leave marks t as unused: its instance is gone.
func (a *treesByInstance) leave(t *cgroupTree) {
	a.mu.Lock()
	t.used = false
	a.mu.Unlock()
	a.drop(t)
}

// drop forgets t if it is not in use and has no directory.
func (a *treesByInstance) drop(t *cgroupTree) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !t.used && !t.made.Load() && a.by[t.instance] == t {
		delete(a.by, t.instance)
	}
}

// newTree returns the tree of the instance. place is its directory if a predecessor made it; empty
// otherwise.
func (c *cgroups) newTree(instance, place string) *cgroupTree {
	t := c.trees.use(instance)
	if t == nil || t.strange() && place == "" {
		t = &cgroupTree{groups: c, instance: instance, base: c.base}
		c.trees.add(t)
		t.takeOver(place)
	}
	return t
}
