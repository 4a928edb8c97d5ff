package procs

import (
	"slices"
)

// An availability says whether an instance, or a program with all its instances, satisfies its
// dependents.
type availability uint8

const (
	// Not up, or about to stop, and nothing restores it by itself. A dependent must be down, too.
	down availability = iota
	// It stops in order to restart. A dependent must be down until it is ready again
	returning
	// It is in backoff, or its blocker is. A dependent is not started; a running one continues
	paused
	coming // it is starting, or runs as a one-shot
	up     // a dependent may start
	availabilityCount
)

// A dependencyStatus is what other instances see of an instance.
type dependencyStatus struct {
	availability  availability
	blocksOrdered bool // it is starting: instances ordered after it wait
	startable     bool // not wanted up, and a dependent may start it
	alive         bool // it has a run, and no unkillable process
	stopping      bool // alive, and must stop
}

// A node is a program in the dependency graph, with all its instances. Changes are propagated as
// counter updates along edges: a change costs O(degree), independent of the number of programs.
type node struct {
	name      string
	instances []*instance
	single    [1]*instance  // storage of instances for one instance
	edges     []*edge       // from the instances that name the program
	orderings int32         // number of edges that are orderings
	published programStatus // status that the edges have counted

	byAvailability  [availabilityCount]int32 // instances by availability
	blockingOrdered [availabilityCount]int32 // those of them with blocksOrdered set
	startable       int32                    // startable instances
	dependents      int32                    // live instances that require the program
	// Stopping instances that are ordered after the program
	stoppingOrdered int32
}

// A programStatus is the status of a node as its edges count it.
type programStatus struct {
	availability availability // for instances that require the program
	// Availability for instances ordered after the program; availabilityCount: they need not wait
	forOrdered availability
	startable  bool
}

// An edge leads from an instance to a program that it names.
type edge struct {
	from     *instance
	to       *node
	index    int  // its index in to.edges
	ordering bool // from is ordered after to; else from requires to
}

// deps is what a machine knows about other programs. The graph updates it.
type deps struct {
	own           *node // node of its own program, which counts its dependents
	*requirements       // never nil
}

// requirements counts the programs that the machine's own program names, by their status.
type requirements struct {
	required [availabilityCount]int32 // required programs
	// Programs it is ordered after, if they are starting
	ordered   [availabilityCount]int32
	startable int32 // required programs with startable instances
	orderings int32 // all programs it is ordered after
}

// noRequirements is shared by all machines that name no other program: most of them. It is never
// changed.
var noRequirements requirements

// newDeps returns the deps of an instance of that program that names no other.
func newDeps(own *node) deps { return deps{own, &noRequirements} }

// requirementsLost reports whether a requirement is down or restarts, so that the instance must
// stop.
func (d *deps) requirementsLost() bool { return d.required[down]+d.required[returning] > 0 }

// waiting reports whether the start has to wait for another program.
func (d *deps) waiting() bool {
	return d.blocked() || d.required[coming]+d.ordered[returning]+d.ordered[coming] > 0
}

// blocked reports whether a blocker is not starting.
func (d *deps) blocked() bool {
	return d.required[returning] > 0 || d.requirementsStopped()
}

// requirementsStopped reports whether a blocker will not start by itself.
func (d *deps) requirementsStopped() bool {
	return d.required[down]+d.required[paused]+d.ordered[down]+d.ordered[paused] > 0
}

// unsatisfied returns the number of programs that block the start.
func (d *deps) unsatisfied() (count int32) {
	for l := range up {
		count += d.required[l] + d.ordered[l]
	}
	return count
}

// dependentsDown reports whether all dependents that must be down before the instance are down.
func (d *deps) dependentsDown() bool { return d.own.dependents == 0 && d.own.stoppingOrdered == 0 }

// availability returns whether the instance satisfies its dependents, or will.
func (in *instance) availability() availability {
	m := &in.machine
	switch m.state {
	case Running:
		if in.isOneShot() {
			return coming
		}
		return up
	case Exited:
		if in.isOneShot() {
			return up
		}
	case Backoff:
		return paused
	case Spawning, Starting, StopPending, Stopping, Killing:
		if !m.mustEnd() {
			return coming
		}
	case TearingDown:
		switch {
		case m.mustEnd(): // see below
		case m.outcome == RunEndedRetry:
			return paused
		case m.outcome == RunEndedRestart, m.outcome == RunEndedDone && in.isOneShot():
			return coming
		}
	case Waiting:
		switch {
		case m.mustEnd(): // see below
		case m.blocked(), m.awaitsSchedule():
			return paused
		default:
			return coming
		}
	default:
		return down
	}
	if m.mustEnd() && m.desired.up && !m.requirementsStopped() && !m.awaitsSchedule() && in.unkillable == "" && !in.retiring {
		return returning
	}
	return down
}

// isComing reports whether the instance is not up yet, but is starting or about to restart.
func (in *instance) isComing() bool {
	l := in.availability()
	return l == coming || l == returning
}

// dependencyStatus returns what other instances see of this one.
func (in *instance) dependencyStatus() dependencyStatus {
	m := &in.machine
	s := dependencyStatus{availability: in.availability(), alive: in.run != nil && in.unkillable == ""}
	s.blocksOrdered = m.desired.up && s.availability != up && !m.state.AtRest()
	explicit := m.desired.by.is(ActorOperator) || m.desired.by.Kind == ActorShutdown
	s.startable = !m.desired.up && !explicit && !in.retiring && in.quarantine == nil
	s.stopping = s.alive && m.mustEnd()
	return s
}

// publish propagates changes of the instance's status along the edges.
func (in *instance) publish() {
	was, is := in.published, in.dependencyStatus()
	if is == was {
		return
	}
	in.published = is
	n := in.machine.own
	n.count(was, -1)
	n.count(is, 1)
	n.propagate()
	if was.alive == is.alive && was.stopping == is.stopping {
		return
	}
	for _, e := range in.edges {
		if e.ordering {
			e.to.stoppingOrdered += one(is.stopping) - one(was.stopping)
		} else {
			e.to.dependents += one(is.alive) - one(was.alive)
		}
		if e.to.dependents+e.to.stoppingOrdered == 0 {
			e.to.enqueueWaiting()
		}
	}
}

func one(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// count adds by to the counters of an instance of status s.
func (n *node) count(s dependencyStatus, by int32) {
	n.byAvailability[s.availability] += by
	n.blockingOrdered[s.availability] += by * one(s.blocksOrdered)
	n.startable += by * one(s.startable)
}

// status returns the status of the program. Its availability is the lowest of its instances, down
// without any.
func (n *node) status() programStatus {
	v := programStatus{availability: lowest(&n.byAvailability), forOrdered: lowest(&n.blockingOrdered), startable: n.startable > 0}
	if v.availability == availabilityCount {
		v.availability = down
	}
	return v
}

// lowest returns the lowest availability that any instance has; availabilityCount without
// instances.
func lowest(counts *[availabilityCount]int32) availability {
	for l, n := range counts {
		if n > 0 {
			return availability(l)
		}
	}
	return availabilityCount
}

// propagate updates the counters of the instances that name the program after a change of its
// status, and enqueues them.
func (n *node) propagate() {
	was, is := n.published, n.status()
	if is == was {
		return
	}
	n.published = is
	for _, e := range n.edges {
		e.count(was, -1)
		e.count(is, 1)
		e.from.enqueue()
	}
}

// enqueueWaiting enqueues the instances of the program that may wait for their dependents to be
// down.
func (n *node) enqueueWaiting() {
	for _, in := range n.instances {
		if in.machine.state == StopPending || in.machine.state == Waiting {
			in.enqueue()
		}
	}
}

// count adds by to the counters of the edge's instance for a node of status v.
func (e *edge) count(v programStatus, by int32) {
	d := &e.from.machine.deps
	switch {
	case !e.ordering:
		d.required[v.availability] += by
		d.startable += by * one(v.startable)
	case v.forOrdered < availabilityCount:
		d.ordered[v.forOrdered] += by
	}
}

// newNode returns a program without instances.
func newNode(name string) *node {
	n := &node{name: name, published: programStatus{forOrdered: availabilityCount}}
	n.instances = n.single[:0]
	return n
}

// node returns the program of that name in the graph, and adds it if necessary.
func (s *Supervisor) node(name string) *node {
	n := s.nodes[name]
	if n == nil {
		n = newNode(name)
		s.nodes[name] = n
	}
	return n
}

// addToGraph adds the instance to the graph. Its edges follow the active configuration or, if that
// does not have the program, the last definition. So no reload makes a cycle. An instance that is
// retired while its program stays blocks no other: its node is not in the graph.
func (in *instance) addToGraph() {
	s, program := in.sup, in.program
	definition := s.config.Program(program.Name)
	var n *node
	if definition == nil || s.configured(definition, in.name) {
		n = s.node(program.Name)
	} else {
		n = newNode(program.Name)
	}
	if definition != nil {
		program = definition
	}
	in.machine.deps = newDeps(n)
	in.published = in.dependencyStatus()
	in.index = int32(len(n.instances))
	n.instances = append(n.instances, in)
	n.count(in.published, 1)
	n.propagate()
	if len(program.Invalid) == 0 { // an invalid program fails, whatever its requirements
		in.addEdges(program.Requires, false)
		in.addEdges(program.After, true)
	}
	in.publish()
	in.enqueue()
}

// addEdges adds edges from the instance to those programs.
func (in *instance) addEdges(names []string, order bool) {
	for _, name := range names {
		if len(in.edges) == 0 {
			in.machine.requirements = new(requirements)
		}
		n := in.sup.node(name)
		e := &edge{from: in, to: n, index: len(n.edges), ordering: order}
		n.edges = append(n.edges, e)
		in.edges = append(in.edges, e)
		e.count(n.published, 1)
		if order {
			in.machine.orderings++
			n.orderings++
			n.stoppingOrdered += one(in.published.stopping)
		} else {
			n.dependents += one(in.published.alive)
		}
	}
}

// removeFromGraph removes the instance from the graph.
func (in *instance) removeFromGraph() {
	for _, e := range in.edges {
		n := e.to
		last := n.edges[len(n.edges)-1]
		n.edges[e.index], last.index = last, e.index
		n.edges = slices.Delete(n.edges, len(n.edges)-1, len(n.edges))
		if e.ordering {
			n.orderings--
			n.stoppingOrdered -= one(in.published.stopping)
		} else {
			n.dependents -= one(in.published.alive)
		}
		n.enqueueWaiting()
		in.sup.dropUnusedNode(n)
	}
	in.edges = nil
	n := in.machine.own
	last := n.instances[len(n.instances)-1]
	n.instances[in.index], last.index = last, in.index
	n.instances = slices.Delete(n.instances, len(n.instances)-1, len(n.instances))
	n.count(in.published, -1)
	n.propagate()
	in.sup.dropUnusedNode(n)
	in.machine.deps = newDeps(newNode(in.program.Name))
}

// relink updates the instance's node and edges.
func (in *instance) relink() {
	in.removeFromGraph()
	in.addToGraph()
}

// dropUnusedNode drops a node without instances and edges.
func (s *Supervisor) dropUnusedNode(n *node) {
	if len(n.instances) == 0 && len(n.edges) == 0 && s.nodes[n.name] == n {
		delete(s.nodes, n.name)
	}
}

// rebuildGraph rebuilds the graph after a change of the active configuration.
func (s *Supervisor) rebuildGraph() {
	for _, in := range s.instances {
		in.edges = nil
	}
	clear(s.nodes)
	for _, in := range s.instances {
		in.addToGraph()
	}
}
