package deps

import "iter"

// Owned returns the instance whose node it is, once it was added to a graph.
func (n *Node[T]) Owned() T { return n.owned }

// Linked reports whether an edge begins at the node, or ends at its program.
func (n *Node[T]) Linked() bool { return len(n.edges)+len(n.program.edges) > 0 }

// Published returns the status that other nodes see.
func (n *Node[T]) Published() Status { return n.published }

// HasDependents reports whether a dependent is alive, or any node is ordered after the program.
func (n *Node[T]) HasDependents() bool { return n.program.dependents > 0 || n.program.orderings > 0 }

// DependentsDown reports whether no dependent is alive that must be down before the instance.
func (n *Node[T]) DependentsDown() bool { return n.program.dependents+n.program.stoppingOrdered == 0 }

// LastDependent returns a dependent that must be down before the instance, and the number of the
// others; ok is false without one.
func (n *Node[T]) LastDependent() (one T, others int, ok bool) {
	for _, e := range n.program.edges {
		if s := e.from.published; s.Alive && (!e.ordering || s.Stopping) {
			return e.from.owned, int(n.program.dependents+n.program.stoppingOrdered) - 1, true
		}
	}
	return one, 0, false
}

// Dependents returns the instances that require the program and are alive.
func (n *Node[T]) Dependents() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, e := range n.program.edges {
			if !e.ordering && e.from.published.Alive && !yield(e.from.owned) {
				return
			}
		}
	}
}

// Edges returns the edges to the programs that the node names, requirements first. The caller must
// not change the slice.
func (n *Node[T]) Edges() []*Edge[T] { return n.edges }

// Blocker returns the edge to the program with the lowest availability that blocks the start; nil
// without one.
func (n *Node[T]) Blocker() (worst *Edge[T]) {
	if !n.Waiting() {
		return nil
	}
	for _, e := range n.edges {
		if e.Satisfied() {
			continue
		}
		if worst == nil || e.availability() < worst.availability() {
			worst = e
		}
		if e.availability() == Down && !e.ordering {
			return e
		}
	}
	return worst
}

// Satisfied reports whether the edge blocks no start.
func (e *Edge[T]) Satisfied() bool { return e.availability() >= Up }

// Ordering reports whether the edge is an ordering, not a requirement.
func (e *Edge[T]) Ordering() bool { return e.ordering }

// To returns the program at the end of the edge.
func (e *Edge[T]) To() *Program[T] { return e.to }

// availability returns the program's availability as the edge counts it: for an ordering
// availabilityCount if no node is on its way up.
func (e *Edge[T]) availability() Availability {
	if e.ordering {
		return e.to.published.forOrdered
	}
	return e.to.published.availability
}

// Worst returns the instance with the lowest availability that matters to the edge; ok is false
// without one.
func (e *Edge[T]) Worst() (worst T, ok bool) {
	var found *Node[T]
	for _, n := range e.to.nodes {
		if e.ordering && !n.published.BlocksOrdered {
			continue
		}
		if found == nil || n.published.Availability < found.published.Availability {
			found = n
		}
	}
	if found == nil {
		return worst, false
	}
	return found.owned, true
}

// Name returns the program's name.
func (p *Program[T]) Name() string { return p.name }

// Up reports whether the program satisfies the nodes that require it.
func (p *Program[T]) Up() bool { return p.published.availability == Up }

// Startable reports whether a dependent may start an instance of the program.
func (p *Program[T]) Startable() bool { return p.published.startable }

// Instances returns the instances of the program, a copy.
func (p *Program[T]) Instances() []T {
	all := make([]T, len(p.nodes))
	for i, n := range p.nodes {
		all[i] = n.owned
	}
	return all
}

// Miscount falsifies the counters of a node that has edges: tests plant defects by it. required and
// ordered are the programs of each kind by availability.
func (n *Node[T]) Miscount(change func(required, ordered []int32, orderings *int32)) {
	if r := n.requirements; r != &noRequirements {
		change(r.required[:], r.ordered[:], &r.orderings)
	}
}
