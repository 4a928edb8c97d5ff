package procs

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"superd/logs"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
)

// An Op is an operator's command.
type Op uint8

// The operator's commands.
const (
	OpStart Op = iota
	OpStop
	OpRestart
)

// A CommandResult is the result of a command for one instance.
type CommandResult struct {
	Name    string
	OK      bool
	State   fsm.State
	Message string // what happened, as text

	// Why the command is not in the journal: a crash of superd would undo it; nil: it is. OK is
	// then false, although the command was carried out.
	Unrecorded error
}

// A waiter waits for the result of a command for one instance.
type waiter struct {
	op   Op
	done func(CommandResult)
	of   *[]CommandResult // results of the command, which identify it

	dependent bool // the instance restarts only because it requires another one
}

// Command applies op to the instances that names select. With wait, done runs when each of them has
// reached the desired state or cannot reach it; without, at once. A restart with wait also waits
// for the live dependents that it stops, and has results for them.
//
// done runs once, on the loop, after Command has returned. It does not run after cancel; the
// command itself is not undone.
func (s *Supervisor) Command(op Op, names []string, wait bool, done func([]CommandResult)) (cancel func(), err error) {
	found, err := s.selector.selection(names)
	if err != nil {
		return nil, err
	}
	selected := slices.Clone(found.instances) // a copy, as a stop may remove instances
	// Instances that are being removed count only if no other is selected
	stays := func(in *instance) bool { return in.membership.Stays() }
	if op != OpStop && slices.ContainsFunc(selected, stays) {
		selected = slices.DeleteFunc(selected, func(in *instance) bool { return !stays(in) })
	}
	var dependents []*instance
	if op == OpRestart && wait {
		dependents = liveDependents(selected)
	}
	outcomes := make([]CommandResult, len(selected)+len(dependents))
	if op != OpStop { // a program without instances is already stopped
		outcomes = append(outcomes, s.selector.noInstanceResults(found)...)
	}
	remaining, canceled := len(selected)+len(dependents), false
	finish := func(unrecorded error) {
		if remaining != 0 || canceled {
			return
		}
		if unrecorded != nil {
			for i := range outcomes[:len(selected)] {
				outcomes[i].markUnrecorded(unrecorded)
			}
		}
		done(outcomes)
	}
	for i, in := range selected {
		setResult := func(o CommandResult) {
			o.Name = in.name
			outcomes[i] = o
			remaining--
			if remaining == 0 {
				s.recorder.afterSaving(finish)
			}
		}
		if refusal := in.refusal(op); refusal != "" {
			setResult(CommandResult{State: in.machine.State(), Message: refusal})
			continue
		}
		in.record(because(byOperator(eventlog.Event{Kind: eventlog.Command}), op.reason()))
		if already := in.noopMessage(op); already != "" {
			in.command(op)
			setResult(CommandResult{OK: true, State: in.machine.State(), Message: already})
			continue
		}
		in.command(op)
		if !wait {
			setResult(CommandResult{OK: true, State: in.machine.State(), Message: op.String() + " requested"})
			continue
		}
		w := &waiter{op: op, done: setResult, of: &outcomes}
		in.waiters = append(in.waiters, w)
		in.answerWaiters()
	}
	for i, in := range dependents {
		in.waiters = append(in.waiters, &waiter{op: op, of: &outcomes, dependent: true, done: func(o CommandResult) {
			o.Name = in.name
			outcomes[len(selected)+i] = o
			remaining--
			if remaining == 0 {
				s.recorder.afterSaving(finish)
			}
		}})
		in.answerWaiters()
	}
	if remaining == 0 && len(selected) == 0 {
		s.scope.Post(func() { finish(nil) })
	}
	cancel = func() {
		canceled = true
		for _, in := range slices.Concat(selected, dependents) {
			in.dropWaiters(&outcomes)
			// The replacement has the waiters by now
			if next := s.registry.byName[in.name]; next != nil {
				next.dropWaiters(&outcomes)
			}
		}
	}
	return cancel, nil
}

// markUnrecorded marks a successful result as not in the journal. A failed one keeps its message.
func (o *CommandResult) markUnrecorded(cause error) {
	if o.OK {
		o.OK, o.Unrecorded = false, cause
		o.Message += ", " + unrecordedText(cause)
	}
}

// unrecordedText returns the consequence of a command that is not in the journal.
func unrecordedText(cause error) string {
	return fmt.Sprintf("but not recorded, so a crash of superd undoes it: %v", cause)
}

// liveDependents returns the live instances that require one of the restarted, directly or
// indirectly. They restart with it.
func liveDependents(restarted []*instance) (found []*instance) {
	seen := map[*instance]bool{}
	for _, in := range restarted {
		seen[in] = true
	}
	for open := restarted; len(open) > 0; open = open[1:] {
		if open[0].refusal(OpRestart) != "" {
			continue
		}
		for in := range open[0].node.Dependents() {
			if !seen[in] && in.machine.Desired().Up {
				seen[in] = true
				found, open = append(found, in), append(open, in)
			}
		}
	}
	return found
}

// dropWaiters removes the waiters of a command.
func (in *instance) dropWaiters(command *[]CommandResult) {
	in.waiters = slices.DeleteFunc(in.waiters, func(w *waiter) bool { return w.of == command })
}

// String returns the command's name: start, stop or restart.
func (op Op) String() string { return [...]string{"start", "stop", "restart"}[op] }

func (op Op) reason() fsm.Reason {
	return fsm.Reason{Kind: [...]fsm.ReasonKind{fsm.ReasonRequestedStart, fsm.ReasonRequestedStop, fsm.ReasonRequestedRestart}[op]}
}

// refusal returns why op is not possible at present; empty if it is.
func (in *instance) refusal(op Op) string {
	switch {
	case op == OpStop:
		return ""
	case in.sup.shutdown.begun:
		return "superd is shutting down"
	case in.quarantine != nil:
		return in.machine.StateReason().String()
	case !in.membership.Stays():
		return "it is removed from the configuration and stopping"
	}
	return ""
}

// noopMessage returns the result of a command that has nothing to wait for; empty otherwise.
func (in *instance) noopMessage(op Op) string {
	switch {
	case in.membership.Leaves(), in.quarantine != nil:
	case op == OpStart && in.machine.State() == fsm.Running && !in.isOneShot():
		return fmt.Sprintf("already running, pid %d", in.run.process.Pid())
	case op == OpStop && in.machine.State().AtRest():
		return "already " + in.machine.State().String()
	}
	return ""
}

// command carries out op without waiting. Every command is legal in every state.
func (in *instance) command(op Op) {
	if in.membership.Leaves() {
		// The command applies to the replacement
		in.replacementTarget = &fsm.Target{Up: op != OpStop, By: fsm.By(fsm.ActorOperator)}
		in.save()
		return
	}
	if in.quarantine != nil {
		in.killQuarantined()
		return
	}
	switch op {
	case OpStart:
		in.apply(in.machine.WantUp(fsm.By(fsm.ActorOperator), true, in.conditions()))
		in.startWithRequirements()
	case OpStop:
		in.apply(in.machine.WantDown(fsm.By(fsm.ActorOperator), in.conditions()))
	case OpRestart:
		in.apply(in.machine.WantRestart(fsm.By(fsm.ActorOperator), true, in.conditions()))
		in.startWithRequirements()
	}
}

// answerWaiters answers the waiters whose command has its result.
func (in *instance) answerWaiters() {
	state := in.machine.State()
	switch state {
	case fsm.Stopping, fsm.StopPending:
		return
	case fsm.Waiting:
		// It will start, or the state of its requirements is not known yet
		if in.conflict != nil || in.isComing() || in.machine.RestartPending() && !in.node.DependentsDown() || in.sup.reconciler.pending(in) {
			return
		}
	case fsm.Spawning, fsm.Starting, fsm.Killing, fsm.TearingDown:
		if in.unkillable == "" {
			return
		}
	}
	mayStop := state == fsm.Running && (in.sup.reconciler.pending(in) || in.mustEnd())
	waiters := in.waiters
	in.waiters = nil
	for _, w := range waiters {
		if in.membership.Leaves() && w.op != OpStop || in.isOneShot() && w.op != OpStop && state == fsm.Running {
			// The waiter waits for the replacement, or for the end of a one-shot
			in.waiters = append(in.waiters, w)
			continue
		}
		if w.dependent && mayStop {
			in.waiters = append(in.waiters, w)
			continue
		}
		var ok bool
		switch w.op {
		case OpStop:
			ok = state.AtRest()
		default:
			ok = state == fsm.Running || state == fsm.Exited || in.awaitsSchedule() && in.machine.Outcome() == fsm.RunEndedDone
		}
		message := in.reason()
		if state == fsm.Running {
			message = fmt.Sprintf("running, pid %d", in.run.process.Pid())
		}
		w.done(CommandResult{OK: ok, State: state, Message: message})
	}
}

// Signal sends sig to the main process of the instances that names select.
func (s *Supervisor) Signal(names []string, sig syscall.Signal) ([]CommandResult, error) {
	found, err := s.selector.selection(names)
	if err != nil {
		return nil, err
	}
	outcomes := s.selector.noInstanceResults(found)
	for _, in := range found.instances {
		outcome := CommandResult{Name: in.name, State: in.machine.State()}
		switch run := in.run; {
		case run == nil || run.process == nil:
			outcome.Message = "not running"
		default:
			pid := run.process.Pid()
			switch err := run.process.Signal(sig); {
			case errors.Is(err, pidfd.ErrGone):
				outcome.Message = fmt.Sprintf("process %d has just ended", pid)
			case err != nil:
				outcome.Message = err.Error()
			default:
				outcome.OK = true
				outcome.Message = fmt.Sprintf("%s sent to process %d", signalName(sig), pid)
				s.log.Info("signal sent", "instance", in.name, "pid", pid, "signal", signalName(sig),
					"by", fsm.By(fsm.ActorOperator).String())
				in.record(because(byOperator(eventlog.Event{Kind: eventlog.Command}),
					fsm.ReasonRequestedSignal.With(signalName(sig))))
			}
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// Collector returns the output of the one instance that name selects.
func (s *Supervisor) Collector(name string) (*logs.Collector, error) {
	selected, err := s.selector.instances([]string{name})
	if err != nil {
		return nil, err
	}
	switch len(selected) {
	case 1:
		return &selected[0].collector, nil
	case 0: // a program or a glob, without instances
		return nil, fmt.Errorf("select %q: %s", name, s.selector.noInstancesText(name))
	}
	return nil, fmt.Errorf("select %q: %d instances have this name; name one, such as %s", name, len(selected), selected[0].name)
}
