package cgroup

import (
	"slices"
	"strings"
	"sync"
)

// treesByInstance holds the trees that are in use, and those whose directories are not removed yet:
// a program that is added again gets its old tree.
type treesByInstance struct {
	mu sync.Mutex // never held while blocking, as the loop takes it
	by []*Tree    // sorted by instance: a map takes seven times as much
}

// use returns the tree of the instance; nil if there is none.
func (a *treesByInstance) use(instance string) *Tree {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, found := a.search(instance)
	if !found {
		return nil
	}
	a.by[i].used = true
	return a.by[i]
}

func (a *treesByInstance) add(t *Tree) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t.used = true
	if i, found := a.search(t.instance); found {
		a.by[i] = t
	} else {
		a.by = slices.Insert(a.by, i, t)
	}
}

// search returns the index of the tree of the instance, and whether there is one. a.mu is held.
func (a *treesByInstance) search(instance string) (i int, found bool) {
	return slices.BinarySearchFunc(a.by, instance, func(t *Tree, instance string) int {
		return strings.Compare(t.instance, instance)
	})
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
	if t.used || t.mayExist.Load() {
		return
	}
	if i, found := a.search(t.instance); found && a.by[i] == t {
		a.by = slices.Delete(a.by, i, i+1)
	}
}
