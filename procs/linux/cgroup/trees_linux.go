package cgroup

import "sync"

// treesByInstance holds the trees that are in use, and those whose directories are not removed yet:
// a program that is added again gets its old tree.
type treesByInstance struct {
	mu sync.Mutex // never held while blocking, as the loop takes it
	by map[string]*Tree
}

// use returns the tree of the instance; nil if there is none.
func (a *treesByInstance) use(instance string) *Tree {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.by[instance]
	if t != nil {
		t.used = true
	}
	return t
}

func (a *treesByInstance) add(t *Tree) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = map[string]*Tree{}
	}
	a.by[t.instance], t.used = t, true
}

// release records that t is unused: its instance is gone.
func (a *treesByInstance) release(t *Tree) {
	a.mu.Lock()
	t.used = false
	a.mu.Unlock()
	a.drop(t)
}

// drop forgets t if it is not in use and has no directory.
func (a *treesByInstance) drop(t *Tree) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !t.used && !t.mayExist.Load() && a.by[t.instance] == t {
		delete(a.by, t.instance)
	}
}
