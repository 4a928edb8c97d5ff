package instance

import (
	"superd/procs/deps"
	"superd/procs/fsm"
)

// A node is the place of an instance in the dependency graph.
type node struct{ deps.Node[*Instance] }

// An edge leads from an instance to a program that it names.
type edge = deps.Edge[*Instance]

// Availability returns whether the instance satisfies its dependents, or will.
func (n *node) Availability() deps.Availability {
	in := n.Owned()
	m := &in.Machine
	switch m.State() {
	case fsm.Running:
		if in.IsOneShot() {
			return deps.Coming
		}
		return deps.Up
	case fsm.Exited:
		if in.IsOneShot() {
			return deps.Up
		}
	case fsm.Backoff:
		return deps.Paused
	case fsm.Spawning, fsm.Starting, fsm.StopPending, fsm.Stopping, fsm.Killing:
		if !in.MustEnd() {
			return deps.Coming
		}
	case fsm.TearingDown:
		switch {
		case in.MustEnd(): // see below
		case m.Outcome() == fsm.RunEndedRetry:
			return deps.Paused
		case m.Outcome() == fsm.RunEndedRestart, m.Outcome() == fsm.RunEndedDone && in.IsOneShot():
			return deps.Coming
		}
	case fsm.Waiting:
		switch {
		case in.MustEnd(): // see below
		case n.Blocked(), m.AwaitsTrigger(), lacksSocket(in):
			return deps.Paused
		default:
			return deps.Coming
		}
	default:
		return deps.Down
	}
	if in.MustEnd() && m.Desired().Up && !n.Stopped() && !m.AwaitsTrigger() && in.unkillable == "" && !in.Membership.Leaves() {
		return deps.Returning
	}
	return deps.Down
}

// IsComing reports whether the instance is not up yet, but is starting or about to restart.
func (n *node) IsComing() bool {
	l := n.Availability()
	return l == deps.Coming || l == deps.Returning
}

// status returns what other instances see of this one.
func (n *node) status() deps.Status {
	in := n.Owned()
	m := &in.Machine
	s := deps.Status{Availability: n.Availability(), Alive: in.run != nil && in.unkillable == ""}
	s.BlocksOrdered = m.Desired().Up && s.Availability != deps.Up && !m.State().AtRest()
	explicit := m.Desired().By.Is(fsm.ActorOperator) || m.Desired().By.Kind == fsm.ActorShutdown
	s.Startable = !m.Desired().Up && !explicit && !in.Membership.Leaves() && in.Quarantine == nil
	s.Stopping = s.Alive && in.MustEnd()
	return s
}

// Publish propagates changes of the instance's status to its dependents.
func (n *node) Publish() { n.Owned().Env.Graph.Publish(&n.Node, n.status()) }

// Join adds the instance again to a graph that has been emptied.
func (n *node) Join() { joinGraph(n.Owned()) }

// joinGraph adds an instance to the graph. Its edges follow the active configuration or, if that
// does not have the program, the last definition. So no reload makes a cycle. An instance that is
// retired while its program stays blocks no other: its node is not in the graph.
func joinGraph(in *Instance) {
	program := in.Program
	definition, has := in.Env.Config.Definition(program.Name, in.Name)
	detached := definition != nil && !has
	if definition != nil {
		program = definition
	}
	var links deps.Links
	if len(program.Invalid) == 0 { // an invalid program fails, whatever its requirements
		links = deps.Links{Requires: program.Requires, After: program.After}
	}
	in.Env.Graph.Add(&in.Node.Node, in, in.Program.Name, detached, links)
	in.Node.Publish()
}

// leave removes the instance from the graph.
func (n *node) leave() { n.Owned().Env.Graph.Remove(&n.Node) }

// Relink updates the instance's node and edges.
func (n *node) Relink() {
	n.leave()
	n.Join()
}
