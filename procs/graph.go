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
	// It restarts after an end that is under way or comes. A dependent must be down until then.
	returning
	// It is in backoff, or waits for an instance that is. A dependent is not started; one that runs
	// goes on.
	paused
	coming // it is starting, or runs as a one-shot
	up     // a dependent may start
	availabilityCount
)

// A dependencyStatus is what other instances see of an instance.
type dependencyStatus struct {
	availability availability
	holding      bool // on its way up: instances ordered after it wait
	startable    bool // not wanted up, and a dependent may start it
	alive        bool // its run is not over, and it is not unkillable
	going        bool // alive, and on its way down
}

// A node is a program in the dependency graph, with all its instances. Changes are propagated as
// counter updates along edges: a change costs O(degree), however many programs there are.
type node struct {
	name      string
	instances []*instance
	only      [1]*instance  // storage of instances for a program without replicas
	edges     []*edge       // from the instances that name it
	after     int32         // how many of edges are orderings
	published programStatus // as its edges know it

	levels     [availabilityCount]int32 // instances by availability
	holding    [availabilityCount]int32 // of them, those with holding set
	startable  int32                    // startable instances
	dependents int32                    // live instances that require it
	leaving    int32                    // instances with going set that are ordered after it
}

// A programStatus is what an edge propagates of a node.
type programStatus struct {
	availability availability // for instances that require the program
	// For instances ordered after it; availabilityCount: they need not wait
	ahead     availability
	startable bool
}

// An edge leads from an instance to a program that it names.
type edge struct {
	from  *instance
	to    *node
	at    int  // its index in to.edges
	order bool // an ordering: from waits while to is on its way up; else from requires to
}

// deps is what a machine knows of other programs. The supervisor keeps it up to date.
type deps struct {
	own           *node // its own program, which counts its dependents
	*requirements       // never nil
}

// requirements counts the programs that the machine's own program names.
type requirements struct {
	required  [availabilityCount]int32 // required programs
	ahead     [availabilityCount]int32 // programs it is ordered after and that are on their way up
	startable int32                    // required programs that it may start
	follows   int32                    // programs it is ordered after
}

// noRequirements is shared by all that name no other program: most of them. It is never changed.
var noRequirements requirements

// newDeps returns the deps of an instance of that program that names no other.
func newDeps(own *node) deps { return deps{own, &noRequirements} }

// requirementsLost reports whether a requirement is down or restarts, so that the instance can't
// stay up.
func (t *deps) requirementsLost() bool { return t.required[down]+t.required[returning] > 0 }

// waiting reports whether the start has to wait for other programs.
func (t *deps) waiting() bool {
	return t.blocked() || t.required[coming]+t.ahead[returning]+t.ahead[coming] > 0
}

// blocked reports whether a program that it waits for is not on its way up.
func (t *deps) blocked() bool {
	return t.required[returning] > 0 || t.requirementsStopped()
}

// requirementsStopped reports whether a program that it waits for will not come up by what is under
// way.
func (t *deps) requirementsStopped() bool {
	return t.required[down]+t.required[paused]+t.ahead[down]+t.ahead[paused] > 0
}

// unmet returns the number of programs that it waits for.
func (t *deps) unmet() (count int32) {
	for l := range up {
		count += t.required[l] + t.ahead[l]
	}
	return count
}

// dependentsDown reports whether no dependent lives that must be down before it.
func (t *deps) dependentsDown() bool { return t.own.dependents == 0 && t.own.leaving == 0 }

// availability returns how far the instance is up.
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
	if m.mustEnd() && m.desired.up && !m.requirementsStopped() && !m.awaitsSchedule() && in.unkillable == "" && !in.removed {
		return returning
	}
	return down
}

// comes reports whether the instance is not up and will be by what is under way.
func (in *instance) comes() bool {
	l := in.availability()
	return l == coming || l == returning
}

// dependencyStatus returns what other instances see of this one.
func (in *instance) dependencyStatus() dependencyStatus {
	m := &in.machine
	s := dependencyStatus{availability: in.availability(), alive: in.run != nil && in.unkillable == ""}
	s.holding = m.desired.up && s.availability != up && !m.state.AtRest()
	byAll := m.desired.by.is(ActorOperator) || m.desired.by.Kind == ActorShutdown
	s.startable = !m.desired.up && !byAll && !in.removed && in.quarantine == nil
	s.going = s.alive && m.mustEnd()
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
	if was.alive == is.alive && was.going == is.going {
		return
	}
	for _, e := range in.edges {
		if e.order {
			e.to.leaving += one(is.going) - one(was.going)
		} else {
			e.to.dependents += one(is.alive) - one(was.alive)
		}
		if e.to.dependents+e.to.leaving == 0 {
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
	n.levels[s.availability] += by
	n.holding[s.availability] += by * one(s.holding)
	n.startable += by * one(s.startable)
}

// view returns what dependents see of the program: the lowest availability of its instances, down
// without any, and the lowest of those on their way up.
func (n *node) view() programStatus {
	v := programStatus{availability: lowest(&n.levels), ahead: lowest(&n.holding), startable: n.startable > 0}
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

// propagate passes on changes of the program's status to the instances that name it.
func (n *node) propagate() {
	was, is := n.published, n.view()
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

// enqueueWaiting enqueues the instances that may wait until their dependents are down.
func (n *node) enqueueWaiting() {
	for _, in := range n.instances {
		if in.machine.state == StopPending || in.machine.state == Waiting {
			in.enqueue()
		}
	}
}

// count adds by to what its instance knows of a node of status v.
func (e *edge) count(v programStatus, by int32) {
	t := &e.from.machine.deps
	switch {
	case !e.order:
		t.required[v.availability] += by
		t.startable += by * one(v.startable)
	case v.ahead < availabilityCount:
		t.ahead[v.ahead] += by
	}
}

// newNode returns a program without instances.
func newNode(name string) *node {
	n := &node{name: name, published: programStatus{ahead: availabilityCount}}
	n.instances = n.only[:0]
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

// addToGraph adds the instance to the graph. Its edges follow the active configuration or, for a
// program that is not there any more, the last definition: so the graph has no cycle after any
// reload. An instance that was removed while its program stays delays no other: its node is not in
// the graph.
func (in *instance) addToGraph() {
	s, program := in.sup, in.program
	table := s.config.Program(program.Name)
	var n *node
	if table == nil || s.has(table, in.name) {
		n = s.node(program.Name)
	} else {
		n = newNode(program.Name)
	}
	if table != nil {
		program = table
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
		e := &edge{from: in, to: n, at: len(n.edges), order: order}
		n.edges = append(n.edges, e)
		in.edges = append(in.edges, e)
		e.count(n.published, 1)
		if order {
			in.machine.follows++
			n.after++
			n.leaving += one(in.published.going)
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
		n.edges[e.at], last.at = last, e.at
		n.edges = slices.Delete(n.edges, len(n.edges)-1, len(n.edges))
		if e.order {
			n.after--
			n.leaving -= one(in.published.going)
		} else {
			n.dependents -= one(in.published.alive)
		}
		n.enqueueWaiting()
		in.sup.forget(n)
	}
	in.edges = nil
	n := in.machine.own
	last := n.instances[len(n.instances)-1]
	n.instances[in.index], last.index = last, in.index
	n.instances = slices.Delete(n.instances, len(n.instances)-1, len(n.instances))
	n.count(in.published, -1)
	n.propagate()
	in.sup.forget(n)
	in.machine.deps = newDeps(newNode(in.program.Name))
}

// relink moves the instance to its present place in the graph.
func (in *instance) relink() {
	in.removeFromGraph()
	in.addToGraph()
}

// forget drops a node without instances and edges.
func (s *Supervisor) forget(n *node) {
	if len(n.instances) == 0 && len(n.edges) == 0 && s.nodes[n.name] == n {
		delete(s.nodes, n.name)
	}
}

// rebuildGraph builds the graph again after a change of the active configuration.
func (s *Supervisor) rebuildGraph() {
	for _, in := range s.instances {
		in.edges = nil
	}
	clear(s.nodes)
	for _, in := range s.instances {
		in.addToGraph()
	}
}
