package procs

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"superd/internal/signame"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/instance/beside"
	"superd/procs/reconcile"
	"superd/procs/selection"
)

// Command applies op to the instances that names select. With wait, done runs when each of them has
// reached the desired state or cannot reach it; without, at once. A restart with wait also waits
// for the live dependents that it stops, and has results for them.
//
// done runs once, on the loop, after Command has returned. It does not run after cancel; the
// command itself is not undone.
func (s *Supervisor) Command(op Op, names []string, wait bool, done func([]CommandResult)) (cancel func(), err error) {
	found, err := s.selector.Select(names)
	if err != nil {
		return nil, err
	}
	found.Instances = slices.Clone(found.Instances) // a copy, as a stop may remove instances
	// Instances that are being removed count only if no other is selected
	stays := func(in *instance.Instance) bool { return in.Membership.Stays() }
	if op != OpStop && slices.ContainsFunc(found.Instances, stays) {
		found.Instances = slices.DeleteFunc(found.Instances, func(in *instance.Instance) bool { return !stays(in) })
	}
	if op == OpRestart {
		return s.restart(found, wait, done), nil
	}
	return s.command(op, found, wait, nil, done), nil
}

// command is Command for selected instances, without checks before a restart. refused has the
// instances that are not restarted. found is not used by others.
func (s *Supervisor) command(op Op, found selection.Selected, wait bool, refused map[*instance.Instance]beside.Outcome, done func([]CommandResult)) (cancel func()) {
	selected := found.Instances
	var dependents []*instance.Instance
	if op == OpRestart && wait {
		isRefused := func(in *instance.Instance) bool { _, ok := refused[in]; return ok }
		dependents = s.liveDependents(slices.DeleteFunc(slices.Clone(selected), isRefused))
	}
	outcomes := make([]CommandResult, len(selected)+len(dependents))
	if op != OpStop { // a program without instances is already stopped
		outcomes = append(outcomes, noInstanceResults(s.selector, found)...)
	}
	remaining, canceled := len(selected)+len(dependents), false
	finish := func(unrecorded error) {
		if remaining != 0 || canceled {
			return
		}
		if unrecorded != nil {
			for i := range outcomes[:len(selected)] {
				outcomes[i].MarkUnrecorded(unrecorded)
			}
		}
		done(outcomes)
	}
	for i, in := range selected {
		setResult := func(o CommandResult) {
			o.Name = in.Name
			outcomes[i] = o
			remaining--
			if remaining == 0 {
				s.recorder.AfterSaving(finish)
			}
		}
		if refusal := s.refusal(in, op); refusal != "" {
			setResult(CommandResult{State: in.Machine.State(), Message: refusal})
			continue
		}
		if o, ok := refused[in]; ok {
			setResult(CommandResult{State: in.Machine.State(), Message: "not restarted: " + o.Message, Output: o.Output})
			continue
		}
		in.Record(eventlog.WithReason(byOperator(eventlog.Event{Kind: eventlog.Command}), op.Reason()))
		if f := s.options.tests.onCommand; f != nil {
			f(in, op)
		}
		if already := op.NoopMessage(in); already != "" {
			s.reconciler.Perform(in, op)
			setResult(CommandResult{OK: true, State: in.Machine.State(), Message: already})
			continue
		}
		s.reconciler.Perform(in, op)
		if !wait {
			setResult(CommandResult{OK: true, State: in.Machine.State(), Message: op.String() + " requested"})
			continue
		}
		s.waiters.Add(in, &reconcile.Waiter{Op: op, Done: setResult, Of: &outcomes})
	}
	for i, in := range dependents {
		s.waiters.Add(in, &reconcile.Waiter{Op: op, Of: &outcomes, Dependent: true, Done: func(o CommandResult) {
			o.Name = in.Name
			outcomes[len(selected)+i] = o
			remaining--
			if remaining == 0 {
				s.recorder.AfterSaving(finish)
			}
		}})
	}
	if remaining == 0 && len(selected) == 0 {
		s.Scope.Post(func() { finish(nil) })
	}
	return func() {
		canceled = true
		s.waiters.Drop(&outcomes)
	}
}

// liveDependents returns the live instances that require one of the restarted, directly or
// indirectly. They restart with it.
func (s *Supervisor) liveDependents(restarted []*instance.Instance) (found []*instance.Instance) {
	seen := map[*instance.Instance]bool{}
	for _, in := range restarted {
		seen[in] = true
	}
	for open := restarted; len(open) > 0; open = open[1:] {
		if s.refusal(open[0], OpRestart) != "" {
			continue
		}
		for in := range open[0].Node.Dependents() {
			if !seen[in] && in.Machine.Desired().Up {
				seen[in] = true
				found, open = append(found, in), append(open, in)
			}
		}
	}
	return found
}

// refusal returns why op is not possible at present; empty if it is.
func (s *Supervisor) refusal(in *instance.Instance, op Op) string {
	switch {
	case op == OpStop:
		return ""
	case in.Closed():
		return "it was removed or replaced meanwhile"
	case s.shutdown.begun:
		return "superd is shutting down"
	case in.Quarantined():
		return in.Machine.StateReason().String()
	case !in.Membership.Stays():
		return "it is removed from the configuration and stopping"
	}
	return ""
}

// Signal sends sig to the main process of the instances that names select.
func (s *Supervisor) Signal(names []string, sig syscall.Signal) ([]CommandResult, error) {
	found, err := s.selector.Select(names)
	if err != nil {
		return nil, err
	}
	outcomes := noInstanceResults(s.selector, found)
	for _, in := range found.Instances {
		outcome := CommandResult{Name: in.Name, State: in.Machine.State()}
		switch process := in.MainProcess(); {
		case process == nil:
			outcome.Message = "not running"
		default:
			pid := process.Pid()
			switch err := process.Signal(sig); {
			case errors.Is(err, pidfd.ErrGone):
				outcome.Message = fmt.Sprintf("process %d has just ended", pid)
			case err != nil:
				outcome.Message = err.Error()
			default:
				outcome.OK = true
				outcome.Message = fmt.Sprintf("%s sent to process %d", signame.Name(sig), pid)
				s.Log.Info("signal sent", "instance", in.Name, "pid", pid, "signal", signame.Name(sig),
					"by", fsm.By(fsm.ActorOperator).String())
				in.Record(eventlog.WithReason(byOperator(eventlog.Event{Kind: eventlog.Command}),
					fsm.ReasonRequestedSignal.With(signame.Name(sig))))
			}
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// byOperator returns e with the operator as its actor.
func byOperator(e eventlog.Event) eventlog.Event {
	by := fsm.By(fsm.ActorOperator)
	e.By, e.ByKind = by.String(), by.Kind.String()
	return e
}

// noInstanceResults returns results for the selected names of programs and groups without
// instances.
func noInstanceResults(e *selection.Selector, found selection.Selected) []CommandResult {
	var outcomes []CommandResult
	for _, name := range found.Empty {
		outcomes = append(outcomes, CommandResult{Name: name, State: fsm.Stopped, Message: e.NoInstances(name)})
	}
	return outcomes
}
