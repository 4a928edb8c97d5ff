package procs

import (
	"slices"

	"superd/config"
	"superd/procs/deps"
)

// maxReconciled bounds how many instances one turn reconciles.
const maxReconciled = 256

// enqueue schedules reconcile for after the turn's other work.
func (in *instance) enqueue() {
	if in.enqueued {
		return
	}
	in.enqueued = true
	s := in.sup
	s.reconcileQueue = append(s.reconcileQueue, in)
	if len(s.reconcileQueue) == 1 {
		s.scope.Post(s.reconcile)
	}
}

// reconcile reconciles the queued instances in order, maxReconciled in a turn.
func (s *Supervisor) reconcile() {
	batch := s.reconcileQueue[:min(len(s.reconcileQueue), maxReconciled)]
	s.reconcileQueue = slices.Clone(s.reconcileQueue[len(batch):])
	waiting := len(s.reconcileQueue) > 0
	s.reconciling = true
	for _, in := range batch {
		in.enqueued = false
		if !in.scope.Closed() {
			in.reconcile()
		}
	}
	s.reconciling = false
	if waiting {
		s.scope.Post(s.reconcile)
	}
	if len(s.reconcileQueue) == 0 {
		queued := s.answerQueue
		s.answerQueue = nil
		for _, in := range queued {
			in.answerQueued = false
			in.answerWaiters()
		}
		s.endIfAllEnded()
		s.subscriptions.changed()
	}
}

// pending reports whether reconciliation is still running. If so, the instance's waiters are
// answered when it is done.
func (s *Supervisor) pending(in *instance) bool {
	if !s.reconciling && len(s.reconcileQueue) == 0 {
		return false
	}
	if len(in.waiters) > 0 && !in.answerQueued {
		in.answerQueued = true
		s.answerQueue = append(s.answerQueue, in)
	}
	return true
}

// reconcile moves the instance toward its desired state, given the status of its dependencies
// (level-triggered). All ordered starts, stops and restarts happen here.
func (in *instance) reconcile() {
	in.publish()
	m := &in.machine
	if m.desired.up && in.node.CanStart() && in.quarantine == nil {
		in.startRequirements()
	}
	switch m.state {
	case Waiting:
		if !m.startBlocked() || m.restartPending && in.node.DependentsDown() {
			in.do(m.unblocked)
		} else {
			in.answerWaiters() // the reason may have changed
		}
	case Spawning, Starting, Running:
		if in.node.Lost() && m.desired.up && !m.restartPending {
			cause, why := in.lostRequirement()
			in.do(func() []Effect { return m.requirementLost(cause, why) })
		}
	case StopPending:
		switch {
		case !m.mustEnd():
			in.do(m.cancelStop)
		case in.node.DependentsDown():
			in.do(m.stopNow)
		}
	}
	in.answerWaiters()
}

// startRequirements starts the requirements that are startable. A program stopped by `superd ctl
// stop` stays stopped.
func (in *instance) startRequirements() {
	by := Actor{Kind: in.machine.desired.by.Kind, For: in.name}
	for _, e := range in.node.Edges() {
		if e.Ordering() || !e.To().Startable() {
			continue
		}
		for _, other := range e.To().Instances() {
			if other.node.Published().Startable {
				other.do(func() []Effect { return other.machine.wantUp(by, false) })
			}
		}
	}
}

// startWithRequirements starts the direct and indirect requirements of in that are wanted up and
// down by themselves, as after a failure. It is part of an operator's start of in.
func (s *Supervisor) startWithRequirements(in *instance) {
	seen := map[*deps.Program[*instance]]bool{}
	for open := []*instance{in}; len(open) > 0; {
		next := open[len(open)-1]
		open = open[:len(open)-1]
		for _, e := range next.node.Edges() {
			if e.Ordering() || seen[e.To()] || e.To().Up() {
				continue
			}
			seen[e.To()] = true
			for _, other := range e.To().Instances() {
				m := &other.machine
				if m.desired.up && m.state.AtRest() && other.availability() != deps.Up && other.quarantine == nil {
					by := Actor{ActorOperator, in.name}
					other.do(func() []Effect { return m.wantUp(by, true) })
				}
				if m.desired.up || other.node.Published().Startable {
					open = append(open, other)
				}
			}
		}
	}
}

func (in *instance) isOneShot() bool { return in.program.Type == config.TypeOneshot }
