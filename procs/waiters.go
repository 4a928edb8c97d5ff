package procs

import (
	"fmt"
	"slices"

	"superd/procs/fsm"
	"superd/procs/instance"
)

// A waiter waits for the result of a command for one instance.
type waiter struct {
	op   Op
	done func(CommandResult)
	of   *[]CommandResult // results of the command, which identify it

	dependent bool // the instance restarts only because it requires another one
}

// waiters has who waits for the results of commands.
type waiters struct {
	reconciler *reconciler
	byInstance map[*instance.Instance][]*waiter
	// Instances whose waiters are answered when reconciliation is done, in order, and as a set
	postponed    []*instance.Instance
	arePostponed map[*instance.Instance]bool
}

func newWaiters(q *reconciler) *waiters {
	return &waiters{
		reconciler: q, byInstance: map[*instance.Instance][]*waiter{}, arePostponed: map[*instance.Instance]bool{},
	}
}

// add adds a waiter, and answers it if the instance has the result already.
func (ws *waiters) add(in *instance.Instance, w *waiter) {
	ws.byInstance[in] = append(ws.byInstance[in], w)
	ws.answer(in)
}

// take removes and returns the waiters of an instance.
func (ws *waiters) take(in *instance.Instance) []*waiter {
	all := ws.byInstance[in]
	delete(ws.byInstance, in)
	return all
}

// move makes the waiters of an instance those of its replacement.
func (ws *waiters) move(from, to *instance.Instance) {
	if all := ws.take(from); len(all) > 0 {
		ws.byInstance[to] = all
	}
}

// drop removes the waiters of a command.
func (ws *waiters) drop(command *[]CommandResult) {
	for in, all := range ws.byInstance {
		all = slices.DeleteFunc(all, func(w *waiter) bool { return w.of == command })
		if ws.byInstance[in] = all; len(all) == 0 {
			delete(ws.byInstance, in)
		}
	}
}

// pending reports whether reconciliation is still running. If so, the instance's waiters are
// answered when it is done.
func (ws *waiters) pending(in *instance.Instance) bool {
	if !ws.reconciler.busy() {
		return false
	}
	if len(ws.byInstance[in]) > 0 && !ws.arePostponed[in] {
		ws.arePostponed[in] = true
		ws.postponed = append(ws.postponed, in)
	}
	return true
}

// answerPostponed answers the waiters that reconciliation has postponed.
func (ws *waiters) answerPostponed() {
	all := ws.postponed
	ws.postponed = nil
	for _, in := range all {
		delete(ws.arePostponed, in)
		ws.answer(in)
	}
}

// answer answers the waiters of an instance whose command has its result.
func (ws *waiters) answer(in *instance.Instance) {
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
	for _, w := range ws.take(in) {
		if in.Membership.Leaves() && w.op != OpStop || in.IsOneShot() && w.op != OpStop && state == fsm.Running {
			// The waiter waits for the replacement, or for the end of a one-shot
			ws.byInstance[in] = append(ws.byInstance[in], w)
			continue
		}
		if w.dependent && mayStop {
			ws.byInstance[in] = append(ws.byInstance[in], w)
			continue
		}
		var ok bool
		switch w.op {
		case OpStop:
			ok = state.AtRest()
		default:
			ok = state == fsm.Running || state == fsm.Exited || in.AwaitsTrigger() && (in.Program.Accepts() || in.Machine.Outcome() == fsm.RunEndedDone)
		}
		message := in.Reason()
		if state == fsm.Running {
			message = fmt.Sprintf("running, pid %d", in.Pid())
		}
		w.done(CommandResult{OK: ok, State: state, Message: message})
	}
}
