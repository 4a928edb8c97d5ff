package procs

import (
	"slices"

	"superd/config"
	"superd/loop"
	"superd/procs/deps"
	"superd/procs/fsm"
)

// maxReconciled bounds how many instances one turn reconciles.
const maxReconciled = 256

// A reconciler has the queue of instances to reconcile after the turn's other work, and that of
// instances whose waiters are answered when the first one is empty.
type reconciler struct {
	scope   *loop.Scope
	onIdle  func() // called when the queue is empty and the waiters are answered
	queue   []*instance
	answers []*instance // instances whose waiters are answered when queue is empty
	running bool        // a batch is being reconciled
}

func newReconciler(scope *loop.Scope, onIdle func()) *reconciler {
	return &reconciler{scope: scope, onIdle: onIdle}
}

// enqueue schedules the reconciliation of the instance for after the turn's other work.
func (q *reconciler) enqueue(in *instance) {
	if in.enqueued {
		return
	}
	in.enqueued = true
	q.queue = append(q.queue, in)
	if len(q.queue) == 1 {
		q.scope.Post(q.run)
	}
}

// idle reports whether no instance waits for its reconciliation.
func (q *reconciler) idle() bool { return len(q.queue) == 0 }

// run reconciles the queued instances in order, maxReconciled in a turn.
func (q *reconciler) run() {
	batch := q.queue[:min(len(q.queue), maxReconciled)]
	q.queue = slices.Clone(q.queue[len(batch):])
	waiting := len(q.queue) > 0
	q.running = true
	for _, in := range batch {
		in.enqueued = false
		if !in.scope.Closed() {
			in.reconcile()
		}
	}
	q.running = false
	if waiting {
		q.scope.Post(q.run)
	}
	if len(q.queue) == 0 {
		queued := q.answers
		q.answers = nil
		for _, in := range queued {
			in.answerQueued = false
			in.answerWaiters()
		}
		q.onIdle()
	}
}

// pending reports whether reconciliation is still running. If so, the instance's waiters are
// answered when it is done.
func (q *reconciler) pending(in *instance) bool {
	if !q.running && len(q.queue) == 0 {
		return false
	}
	if len(in.waiters) > 0 && !in.answerQueued {
		in.answerQueued = true
		q.answers = append(q.answers, in)
	}
	return true
}

// reconcile moves the instance toward its desired state, given the status of its dependencies
// (level-triggered). All ordered starts, stops and restarts happen here.
func (in *instance) reconcile() {
	in.publish()
	m := &in.machine
	if m.Desired().Up && in.node.CanStart() && in.quarantine == nil {
		in.startRequirements()
	}
	if t, ok := m.Reconcile(in.conditions(), in.lostRequirement); ok {
		in.apply(t)
	}
	in.answerWaiters() // the reason of a wait may have changed
}

// startRequirements starts the requirements that are startable. A program stopped by `superd ctl
// stop` stays stopped.
func (in *instance) startRequirements() {
	by := fsm.Actor{Kind: in.machine.Desired().By.Kind, For: in.name}
	for _, e := range in.node.Edges() {
		if e.Ordering() || !e.To().Startable() {
			continue
		}
		for _, other := range e.To().Instances() {
			if other.node.Published().Startable {
				other.apply(other.machine.WantUp(by, false, other.conditions()))
			}
		}
	}
}

// startWithRequirements starts the direct and indirect requirements of in that are wanted up and
// down by themselves, as after a failure. It is part of an operator's start of in.
func (in *instance) startWithRequirements() {
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
				if m.Desired().Up && m.State().AtRest() && other.availability() != deps.Up && other.quarantine == nil {
					by := fsm.Actor{Kind: fsm.ActorOperator, For: in.name}
					other.apply(m.WantUp(by, true, other.conditions()))
				}
				if m.Desired().Up || other.node.Published().Startable {
					open = append(open, other)
				}
			}
		}
	}
}

func (in *instance) isOneShot() bool { return in.program.Type == config.TypeOneshot }
