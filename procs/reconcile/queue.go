// Package reconcile moves instances toward their desired states, carries out operators' commands on
// them, and answers those who wait for the results.
//
// A [Queue] has the instances that are due, [Waiters] who waits for them. Both belong to the loop's
// goroutine.
package reconcile

import (
	"slices"

	"superd/loop"
	"superd/procs/deps"
	"superd/procs/fsm"
	"superd/procs/instance"
)

// maxReconciled bounds how many instances one turn reconciles.
const maxReconciled = 256

// A Queue has the instances to reconcile after the turn's other work.
type Queue struct {
	Scope   *loop.Scope
	OnIdle  func()                   // called when the queue is empty
	Answer  func(*instance.Instance) // answers its waiters; set when these are made
	queue   []*instance.Instance
	running bool // a batch is being reconciled
}

// Enqueue schedules the reconciliation of the instance for after the turn's other work.
func (q *Queue) Enqueue(in *instance.Instance) {
	if in.Marks.Enqueued {
		return
	}
	in.Marks.Enqueued = true
	q.queue = append(q.queue, in)
	if len(q.queue) == 1 {
		q.Scope.Post(q.run)
	}
}

// Idle reports whether no instance waits for its reconciliation.
func (q *Queue) Idle() bool { return len(q.queue) == 0 }

// run reconciles the queued instances in order, maxReconciled in a turn.
func (q *Queue) run() {
	batch := q.queue[:min(len(q.queue), maxReconciled)]
	q.queue = slices.Clone(q.queue[len(batch):])
	waiting := len(q.queue) > 0
	q.running = true
	for _, in := range batch {
		in.Marks.Enqueued = false
		if !in.Closed() {
			q.reconcile(in)
		}
	}
	q.running = false
	if waiting {
		q.Scope.Post(q.run)
	}
	if len(q.queue) == 0 {
		q.OnIdle()
	}
}

// Busy reports whether reconciliation is still running.
func (q *Queue) Busy() bool { return q.running || len(q.queue) > 0 }

// reconcile moves the instance toward its desired state, given the status of its dependencies
// (level-triggered). All ordered starts, stops and restarts happen here.
func (q *Queue) reconcile(in *instance.Instance) {
	in.Node.Publish()
	m := &in.Machine
	if m.Desired().Up && in.Node.CanStart() && !in.Quarantined() {
		q.startRequirements(in)
	}
	if t, ok := m.Reconcile(in.Conditions(), in.Node.LostRequirement); ok {
		in.Apply(t)
	}
	q.Answer(in) // the reason of a wait may have changed
}

// startRequirements starts the requirements that are startable. A program stopped by `superd ctl
// stop` stays stopped.
func (q *Queue) startRequirements(in *instance.Instance) {
	by := fsm.Actor{Kind: in.Machine.Desired().By.Kind, For: in.Name}
	for _, e := range in.Node.Edges() {
		if e.Ordering() || !e.To().Startable() {
			continue
		}
		for _, other := range e.To().Instances() {
			if other.Node.Published().Startable {
				other.Apply(other.Machine.WantUp(by, false, other.Conditions()))
			}
		}
	}
}

// StartWithRequirements starts the direct and indirect requirements of in that are wanted up and
// down by themselves, as after a failure. It is part of an operator's start of in.
func (q *Queue) StartWithRequirements(in *instance.Instance) {
	seen := map[*deps.Program[*instance.Instance]]bool{}
	for open := []*instance.Instance{in}; len(open) > 0; {
		next := open[len(open)-1]
		open = open[:len(open)-1]
		for _, e := range next.Node.Edges() {
			if e.Ordering() || seen[e.To()] || e.To().Up() {
				continue
			}
			seen[e.To()] = true
			for _, other := range e.To().Instances() {
				m := &other.Machine
				if m.Desired().Up && m.State().AtRest() && other.Node.Availability() != deps.Up && !other.Quarantined() {
					by := fsm.Actor{Kind: fsm.ActorOperator, For: in.Name}
					other.Apply(m.WantUp(by, true, other.Conditions()))
				}
				if m.Desired().Up || other.Node.Published().Startable {
					open = append(open, other)
				}
			}
		}
	}
}
