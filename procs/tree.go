package procs

import (
	"slices"

	"superd/procs/fsm"
	"superd/procs/host"
)

// A ProcessTree is the processes of one instance, or the unattributed processes.
type ProcessTree struct {
	Name    string
	State   fsm.State
	Main    int // pid of the main process; 0 without one
	Members []TreeMember

	Unattributed bool // they belong to no known instance
}

// A TreeMember is a live process of a tree. Its start time distinguishes it from a later process
// with its pid.
type TreeMember struct {
	Pid   int
	Start uint64 // clock ticks since boot

	PerhapsOf []string // instances to which an unattributed process may belong
}

// Tree finds the live processes of the instances that names select; of all without names.
// Unattributed processes that may belong to one of these come last. done runs once on the loop,
// perhaps before Tree has returned.
func (s *Supervisor) Tree(names []string, done func([]ProcessTree)) error {
	selected, err := s.selector.Instances(names)
	if err != nil {
		return err
	}
	trees := make([]ProcessTree, len(selected))
	remaining := len(selected)
	finish := func() { done(append(trees, unattributedTrees(s.Host, names, trees)...)) }
	if remaining == 0 {
		finish()
		return nil
	}
	for i, in := range slices.Clone(selected) {
		trees[i] = ProcessTree{Name: in.Name, State: in.Machine.State()}
		trees[i].Main = in.Pid()
		in.Tree.Look(func(found []host.Member) {
			for _, m := range found {
				member := TreeMember{Pid: m.Process.Pid(), Start: m.Start}
				trees[i].Members = append(trees[i].Members, member)
				m.Process.Close()
			}
			if remaining--; remaining == 0 {
				finish()
			}
		})
	}
	return nil
}

// unattributedTrees returns a tree of the unattributed processes, if there are any. With names it
// has only those that may belong to an instance in trees.
func unattributedTrees(h host.Host, names []string, trees []ProcessTree) []ProcessTree {
	b := ProcessTree{Unattributed: true}
	for _, u := range h.Unowned() {
		isNamed := func(b ProcessTree) bool { return slices.Contains(u.Instances, b.Name) }
		if len(names) == 0 || slices.ContainsFunc(trees, isNamed) {
			b.Members = append(b.Members, TreeMember{Pid: u.Pid, Start: u.Start, PerhapsOf: u.Instances})
		}
	}
	if len(b.Members) == 0 {
		return nil
	}
	return []ProcessTree{b}
}
