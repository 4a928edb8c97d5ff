// Package deps is the dependency graph: which instance may start, which must stop, and because of
// which program.
//
// A [Node] is an instance's place in the graph, a [Program] all nodes of one program. A node has
// edges to the programs that it names: requirements and orderings. Each node publishes a [Status].
// Changes are propagated as counter updates along edges: a change costs O(degree), however many
// programs there are. So each question to a node is answered from its counters.
//
// The package decides nothing, and calls back only through [Owner]. It belongs to the goroutine of
// its caller.
package deps

import (
	"slices"
	"strings"
)

// A Status is what other nodes see of a node.
type Status struct {
	Availability  Availability
	BlocksOrdered bool // on its way up: nodes ordered after it wait
	Startable     bool // not wanted up, and a dependent may start it
	Alive         bool // its run is not over, and it can be stopped
	Stopping      bool // alive, and on its way down
}

// An Owner has the instances of a graph. Its methods must not change the graph.
type Owner[T any] interface {
	Changed(T)        // the answers of the instance's node may have changed
	DependentsDown(T) // perhaps no dependent of the instance's program is alive any more
}

// A Graph has the nodes of all instances.
type Graph[T any] struct {
	owner    Owner[T]
	programs []*Program[T] // sorted by name: a map takes seven times as much
}

// New returns a graph without nodes.
func New[T any](owner Owner[T]) *Graph[T] {
	return &Graph[T]{owner: owner}
}

// A Program is a program in the graph, with all its nodes. It exists, without nodes, while an edge
// leads to it.
type Program[T any] struct {
	name      string
	nodes     []*Node[T]
	single    [1]*Node[T]   // storage of nodes for a program without replicas
	edges     []*Edge[T]    // from the nodes that name it
	orderings int32         // how many of edges are orderings
	published programStatus // as its edges know it

	dependents      int32 // nodes that are alive and require it
	stoppingOrdered int32 // nodes that are stopping and ordered after it

	// Counts of nodes, of which a program has at most some config.MaxReplicas
	byAvailability  [availabilityCount]uint16
	blockingOrdered [availabilityCount]uint16 // of them, those that block orderings
	startable       uint16                    // startable nodes
}

// A programStatus is what an edge propagates of a program.
type programStatus struct {
	availability Availability // for nodes that require the program
	// For nodes ordered after it; availabilityCount: they need not wait
	forOrdered Availability
	startable  bool
}

// An Edge leads from a node to a program that it names.
type Edge[T any] struct {
	from     *Node[T]
	to       *Program[T]
	at       int  // its index in to.edges
	ordering bool // an ordering: from waits while to is on its way up; else from requires to
}

// A Node is the place of one instance in the graph. [Graph.Add] makes it usable.
type Node[T any] struct {
	owned         T
	program       *Program[T] // its own, which counts its dependents
	edges         []*Edge[T]  // to the programs that it names
	published     Status      // as other nodes know it
	index         int32       // its index in program.nodes
	*requirements             // never nil
}

// Links are the names of the programs that a node depends on.
type Links struct {
	Requires []string // started after these are ready; stopped when one of them is lost
	After    []string // started after these, where they are on their way up
}

func newProgram[T any](name string) *Program[T] {
	p := &Program[T]{name: name, published: programStatus{forOrdered: availabilityCount}}
	p.nodes = p.single[:0]
	return p
}

// program returns the program of that name, and adds it if necessary.
func (g *Graph[T]) program(name string) *Program[T] {
	i, found := g.search(name)
	if !found {
		g.programs = slices.Insert(g.programs, i, newProgram[T](name))
	}
	return g.programs[i]
}

// search returns the index of the program of that name, and whether it exists.
func (g *Graph[T]) search(name string) (i int, found bool) {
	return slices.BinarySearchFunc(g.programs, name, func(p *Program[T], name string) int {
		return strings.Compare(p.name, name)
	})
}

// Len returns the number of programs that have nodes or edges.
func (g *Graph[T]) Len() int { return len(g.programs) }

// Add adds the node of an instance of that program, which is down until the caller publishes its
// status: that may depend on the node's requirements. A detached node delays no other node, as its
// program is not in the graph.
func (g *Graph[T]) Add(n *Node[T], owned T, program string, detached bool, links Links) {
	var p *Program[T]
	if detached {
		p = newProgram[T](program)
	} else {
		p = g.program(program)
	}
	*n = Node[T]{owned: owned, program: p, requirements: &noRequirements, index: int32(len(p.nodes))}
	p.nodes = append(p.nodes, n)
	p.count(n.published, 1)
	g.propagate(p)
	g.addEdges(n, links.Requires, false)
	g.addEdges(n, links.After, true)
	g.owner.Changed(owned)
}

// addEdges adds edges from n, which is down, to those programs.
func (g *Graph[T]) addEdges(n *Node[T], names []string, order bool) {
	for _, name := range names {
		if len(n.edges) == 0 {
			n.requirements = new(requirements)
		}
		p := g.program(name)
		e := &Edge[T]{from: n, to: p, at: len(p.edges), ordering: order}
		p.edges = append(p.edges, e)
		n.edges = append(n.edges, e)
		e.count(p.published, 1)
		if order {
			n.orderings++
			p.orderings++
		}
	}
}

// Remove removes the node. It then answers as one without dependents and requirements.
func (g *Graph[T]) Remove(n *Node[T]) {
	for _, e := range n.edges {
		p := e.to
		last := p.edges[len(p.edges)-1]
		p.edges[e.at], last.at = last, e.at
		p.edges = slices.Delete(p.edges, len(p.edges)-1, len(p.edges))
		if e.ordering {
			p.orderings--
			p.stoppingOrdered -= one(n.published.Stopping)
		} else {
			p.dependents -= one(n.published.Alive)
		}
		g.dependentsDown(p)
		g.forget(p)
	}
	p := n.program
	last := p.nodes[len(p.nodes)-1]
	p.nodes[n.index], last.index = last, n.index
	p.nodes = slices.Delete(p.nodes, len(p.nodes)-1, len(p.nodes))
	p.count(n.published, -1)
	g.propagate(p)
	g.forget(p)
	*n = Node[T]{owned: n.owned, program: newProgram[T](p.name), requirements: &noRequirements}
}

// forget drops a program without nodes and edges.
func (g *Graph[T]) forget(p *Program[T]) {
	if len(p.nodes) > 0 || len(p.edges) > 0 {
		return
	}
	if i, found := g.search(p.name); found && g.programs[i] == p {
		g.programs = slices.Delete(g.programs, i, i+1)
	}
}

// Clear drops all nodes, which must be added again.
func (g *Graph[T]) Clear() {
	clear(g.programs)
	g.programs = g.programs[:0]
}

// Publish propagates the node's present status along the edges, if it has changed.
func (g *Graph[T]) Publish(n *Node[T], is Status) {
	was := n.published
	if is == was {
		return
	}
	n.published = is
	n.program.count(was, -1)
	n.program.count(is, 1)
	g.propagate(n.program)
	if was.Alive == is.Alive && was.Stopping == is.Stopping {
		return
	}
	for _, e := range n.edges {
		if e.ordering {
			e.to.stoppingOrdered += one(is.Stopping) - one(was.Stopping)
		} else {
			e.to.dependents += one(is.Alive) - one(was.Alive)
		}
		if e.to.dependents+e.to.stoppingOrdered == 0 {
			g.dependentsDown(e.to)
		}
	}
}

// dependentsDown notifies the instances of a program, which may wait until their dependents are
// down.
func (g *Graph[T]) dependentsDown(p *Program[T]) {
	for _, n := range p.nodes {
		g.owner.DependentsDown(n.owned)
	}
}

// propagate passes on changes of the program's status to the nodes that name it.
func (g *Graph[T]) propagate(p *Program[T]) {
	was, is := p.published, p.status()
	if is == was {
		return
	}
	p.published = is
	for _, e := range p.edges {
		e.count(was, -1)
		e.count(is, 1)
		g.owner.Changed(e.from.owned)
	}
}

// count adds by to the counters of a node of status s.
func (p *Program[T]) count(s Status, by int32) {
	p.byAvailability[s.Availability] += uint16(by)
	p.blockingOrdered[s.Availability] += uint16(by * one(s.BlocksOrdered))
	p.startable += uint16(by * one(s.Startable))
}

// status returns what dependents see of the program: the lowest availability of its nodes, Down
// without any, and the lowest of those on their way up.
func (p *Program[T]) status() programStatus {
	s := programStatus{
		availability: lowest(&p.byAvailability), forOrdered: lowest(&p.blockingOrdered), startable: p.startable > 0,
	}
	if s.availability == availabilityCount {
		s.availability = Down
	}
	return s
}

// lowest returns the lowest availability that any node has; availabilityCount without nodes.
func lowest(counts *[availabilityCount]uint16) Availability {
	for a, n := range counts {
		if n > 0 {
			return Availability(a)
		}
	}
	return availabilityCount
}

// count adds by to what its node knows of a program of status s.
func (e *Edge[T]) count(s programStatus, by int32) {
	r := e.from.requirements
	switch {
	case !e.ordering:
		r.required[s.availability] += by
		r.startable += by * one(s.startable)
	case s.forOrdered < availabilityCount:
		r.ordered[s.forOrdered] += by
	}
}

func one(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
