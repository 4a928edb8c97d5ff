package procs

import (
	"superd/procs/deps"
	"superd/procs/fsm"
)

// A node is the place of an instance in the dependency graph.
type node = deps.Node[*instance]

// An edge leads from an instance to a program that it names.
type edge = deps.Edge[*instance]

// A graphOwner is what the dependency graph knows of instances.
type graphOwner struct{}

// Status implements [deps.Owner].
func (graphOwner) Status(in *instance) deps.Status { return in.dependencyStatus() }

// Changed implements [deps.Owner].
func (graphOwner) Changed(in *instance) { in.sup.reconciler.enqueue(in) }

// DependentsDown implements [deps.Owner]. It enqueues an instance that may wait for that.
func (graphOwner) DependentsDown(in *instance) {
	if in.machine.State() == fsm.StopPending || in.machine.State() == fsm.Waiting {
		in.sup.reconciler.enqueue(in)
	}
}

// availability returns whether the instance satisfies its dependents, or will.
func (in *instance) availability() deps.Availability {
	m := &in.machine
	switch m.State() {
	case fsm.Running:
		if in.isOneShot() {
			return deps.Coming
		}
		return deps.Up
	case fsm.Exited:
		if in.isOneShot() {
			return deps.Up
		}
	case fsm.Backoff:
		return deps.Paused
	case fsm.Spawning, fsm.Starting, fsm.StopPending, fsm.Stopping, fsm.Killing:
		if !in.mustEnd() {
			return deps.Coming
		}
	case fsm.TearingDown:
		switch {
		case in.mustEnd(): // see below
		case m.Outcome() == fsm.RunEndedRetry:
			return deps.Paused
		case m.Outcome() == fsm.RunEndedRestart, m.Outcome() == fsm.RunEndedDone && in.isOneShot():
			return deps.Coming
		}
	case fsm.Waiting:
		switch {
		case in.mustEnd(): // see below
		case in.node.Blocked(), m.AwaitsSchedule():
			return deps.Paused
		default:
			return deps.Coming
		}
	default:
		return deps.Down
	}
	if in.mustEnd() && m.Desired().Up && !in.node.Stopped() && !m.AwaitsSchedule() && in.unkillable == "" && !in.membership.Leaves() {
		return deps.Returning
	}
	return deps.Down
}

// isComing reports whether the instance is not up yet, but is starting or about to restart.
func (in *instance) isComing() bool {
	l := in.availability()
	return l == deps.Coming || l == deps.Returning
}

// dependencyStatus returns what other instances see of this one.
func (in *instance) dependencyStatus() deps.Status {
	m := &in.machine
	s := deps.Status{Availability: in.availability(), Alive: in.run != nil && in.unkillable == ""}
	s.BlocksOrdered = m.Desired().Up && s.Availability != deps.Up && !m.State().AtRest()
	explicit := m.Desired().By.Is(fsm.ActorOperator) || m.Desired().By.Kind == fsm.ActorShutdown
	s.Startable = !m.Desired().Up && !explicit && !in.membership.Leaves() && in.quarantine == nil
	s.Stopping = s.Alive && in.mustEnd()
	return s
}

// publish propagates changes of the instance's status to its dependents.
func (in *instance) publish() { in.sup.graph.Publish(&in.node) }

func one(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// addToGraph adds the instance to the graph. Its edges follow the active configuration or, if that
// does not have the program, the last definition. So no reload makes a cycle. An instance that is
// retired while its program stays blocks no other: its node is not in the graph.
func (in *instance) addToGraph() {
	s, program := in.sup, in.program
	definition := s.config.active.Program(program.Name)
	detached := definition != nil && !s.replicas.configured(definition, in.name)
	if definition != nil {
		program = definition
	}
	var links deps.Links
	if len(program.Invalid) == 0 { // an invalid program fails, whatever its requirements
		links = deps.Links{Requires: program.Requires, After: program.After}
	}
	s.graph.Add(&in.node, in, in.program.Name, detached, links)
}

// removeFromGraph removes the instance from the graph.
func (in *instance) removeFromGraph() { in.sup.graph.Remove(&in.node) }

// relink updates the instance's node and edges.
func (in *instance) relink() {
	in.removeFromGraph()
	in.addToGraph()
}
