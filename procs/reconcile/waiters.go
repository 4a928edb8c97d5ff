package reconcile

import (
	"fmt"
	"slices"

	"superd/procs/fsm"
	"superd/procs/instance"
)

// A Waiter waits for the result of a command for one instance.
type Waiter struct {
	Op   Op
	Done func(Result)
	Of   *[]Result // results of the command, which identify it

	// The instance is not told what the waiter waits for: while it runs it may be about to stop, as
	// when it requires another one that restarts
	Dependent bool
}

// Waiters has who waits for the results of commands.
type Waiters struct {
	queue      *Queue
	byInstance map[*instance.Instance][]*Waiter
	// Instances whose waiters are answered when reconciliation is done, in order, and as a set
	postponed    []*instance.Instance
	arePostponed map[*instance.Instance]bool
}

// NewWaiters returns an empty set of waiters for the instances of the queue. The caller sets
// [Queue.Answer].
func NewWaiters(q *Queue) *Waiters {
	return &Waiters{
		queue: q, byInstance: map[*instance.Instance][]*Waiter{}, arePostponed: map[*instance.Instance]bool{},
	}
}

// Add adds a waiter, and answers it if the instance has the result already.
func (ws *Waiters) Add(in *instance.Instance, w *Waiter) {
	ws.byInstance[in] = append(ws.byInstance[in], w)
	ws.Answer(in)
}

// Of returns the waiters of an instance.
func (ws *Waiters) Of(in *instance.Instance) []*Waiter { return ws.byInstance[in] }

// Postponed reports whether the instance's waiters are answered when reconciliation is done.
func (ws *Waiters) Postponed(in *instance.Instance) bool { return ws.arePostponed[in] }

// Take removes and returns the waiters of an instance.
func (ws *Waiters) Take(in *instance.Instance) []*Waiter {
	all := ws.byInstance[in]
	delete(ws.byInstance, in)
	return all
}

// Move makes the waiters of an instance those of its replacement.
func (ws *Waiters) Move(from, to *instance.Instance) {
	if all := ws.Take(from); len(all) > 0 {
		ws.byInstance[to] = append(all, ws.byInstance[to]...)
	}
}

// Drop removes the waiters of a command.
func (ws *Waiters) Drop(command *[]Result) {
	for in, all := range ws.byInstance {
		all = slices.DeleteFunc(all, func(w *Waiter) bool { return w.Of == command })
		if ws.byInstance[in] = all; len(all) == 0 {
			delete(ws.byInstance, in)
		}
	}
}

// pending reports whether reconciliation is still running. If so, the instance's waiters are
// answered when it is done.
func (ws *Waiters) pending(in *instance.Instance) bool {
	if !ws.queue.Busy() {
		return false
	}
	if len(ws.Of(in)) > 0 && !ws.Postponed(in) {
		ws.arePostponed[in] = true
		ws.postponed = append(ws.postponed, in)
	}
	return true
}

// AnswerPostponed answers the waiters that reconciliation has postponed.
func (ws *Waiters) AnswerPostponed() {
	all := ws.postponed
	ws.postponed = nil
	for _, in := range all {
		delete(ws.arePostponed, in)
		ws.Answer(in)
	}
}

// Answer answers the waiters of an instance whose command has its result.
func (ws *Waiters) Answer(in *instance.Instance) {
	state := in.Machine.State()
	switch state {
	case fsm.Stopping, fsm.StopPending:
		return
	case fsm.Waiting:
		// It will start, or the state of its requirements is not known yet
		if in.Membership.Conflict != nil || in.Node.IsComing() || in.Machine.RestartPending() && !in.Node.DependentsDown() || ws.pending(in) {
			return
		}
	case fsm.Spawning, fsm.Starting, fsm.Killing, fsm.TearingDown:
		if in.Unkillable() == "" {
			return
		}
	}
	mayStop := state == fsm.Running && (ws.pending(in) || in.MustEnd())
	for _, w := range ws.Take(in) {
		if in.Membership.Leaves() && w.Op != Stop || in.IsOneShot() && w.Op != Stop && state == fsm.Running {
			// The waiter waits for the replacement, or for the end of a one-shot
			ws.byInstance[in] = append(ws.byInstance[in], w)
			continue
		}
		if w.Dependent && mayStop {
			ws.byInstance[in] = append(ws.byInstance[in], w)
			continue
		}
		var ok bool
		switch w.Op {
		case Stop:
			ok = state.AtRest()
		default:
			ok = state == fsm.Running || state == fsm.Exited || in.AwaitsTrigger() && (in.Program.Accepts() || in.Machine.Outcome() == fsm.RunEndedDone)
		}
		message := in.Reason()
		if state == fsm.Running {
			message = fmt.Sprintf("running, pid %d", in.Pid())
		}
		w.Done(Result{OK: ok, State: state, Message: message})
	}
}
