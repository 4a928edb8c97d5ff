package procs

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"superd/logs"
	"superd/pidfd"
	"superd/procs/eventlog"
)

// An Op is what an operator asks for.
type Op uint8

// The operator's commands.
const (
	OpStart Op = iota
	OpStop
	OpRestart
)

// operator is who gives commands, as reasons name him.
const operator = "the operator"

// An Outcome tells what became of a command for one instance.
type Outcome struct {
	Name    string
	OK      bool
	State   State
	Message string // what happened, in plain words
}

// A waiter waits for what a command leads to in one instance.
type waiter struct {
	op   Op
	done func(Outcome)
	of   *[]Outcome // the command it is part of
}

// Command gives op to the instances that names select. With wait, done runs when each of them has come to what was
// asked for or can't; without, at once. done runs once, on the loop, not before Command has returned; after cancel it
// doesn't run any more, while the command itself stands.
func (s *Supervisor) Command(op Op, names []string, wait bool, done func([]Outcome)) (cancel func(), err error) {
	found, err := s.choose(names)
	if err != nil {
		return nil, err
	}
	selected := slices.Clone(found.instances)                             // a stop may remove instances
	if op != OpStop && slices.ContainsFunc(selected, (*instance).stays) { // who only goes is not meant beside others
		selected = slices.DeleteFunc(selected, func(in *instance) bool { return !in.stays() })
	}
	outcomes := make([]Outcome, len(selected))
	if op != OpStop { // there is nothing to be stopped
		outcomes = append(outcomes, s.vacant(found)...)
	}
	left, canceled := len(selected), false
	finish := func() {
		if left == 0 && !canceled {
			done(outcomes)
		}
	}
	for i, in := range selected {
		settle := func(o Outcome) {
			o.Name = in.name
			outcomes[i] = o
			left--
			if left == 0 {
				s.afterSaving(finish)
			}
		}
		if refusal := s.refuses(op, in); refusal != "" {
			settle(Outcome{State: in.machine.state, Message: refusal})
			continue
		}
		in.record(eventlog.Event{Kind: eventlog.Command, By: operator, Reason: op.String()})
		if already := in.already(op); already != "" {
			in.command(op)
			settle(Outcome{OK: true, State: in.machine.state, Message: already})
			continue
		}
		in.command(op)
		if !wait {
			settle(Outcome{OK: true, State: in.machine.state, Message: "asked to " + op.String()})
			continue
		}
		w := &waiter{op: op, done: settle, of: &outcomes}
		in.waiters = append(in.waiters, w)
		in.settleWaiters()
	}
	if left == 0 && len(selected) == 0 {
		s.scope.Post(finish)
	}
	cancel = func() {
		canceled = true
		for _, in := range selected {
			in.forget(&outcomes)
			if next := s.byName[in.name]; next != nil { // it has got its waiters
				next.forget(&outcomes)
			}
		}
	}
	return cancel, nil
}

// forget has nobody wait any more for what becomes of a command.
func (in *instance) forget(command *[]Outcome) {
	in.waiters = slices.DeleteFunc(in.waiters, func(w *waiter) bool { return w.of == command })
}

// stays reports whether the instance, or one that takes its place, is in the configuration.
func (in *instance) stays() bool { return !in.removed || in.next != nil }

// String returns the command's name: start, stop or restart.
func (op Op) String() string { return [...]string{"start", "stop", "restart"}[op] }

// refuses returns why op is not to be had for in just now; empty when it is.
func (s *Supervisor) refuses(op Op, in *instance) string {
	switch {
	case op == OpStop:
		return ""
	case s.shutdown != nil:
		return "superd is shutting down"
	case in.held != nil:
		return in.machine.cause
	case in.removed && in.next == nil:
		return "it was removed from the configuration and is stopping"
	}
	return ""
}

// already returns what to say when there is nothing to wait for.
func (in *instance) already(op Op) string {
	switch {
	case in.removed, in.held != nil:
	case op == OpStart && in.machine.state == Running && !in.isOneShot():
		return fmt.Sprintf("already running, pid %d", in.run.process.Pid())
	case op == OpStop && in.machine.state.AtRest():
		return "was " + in.machine.state.String() + " already"
	}
	return ""
}

// command performs op without waiting. Every command is legal in every state.
func (in *instance) command(op Op) {
	if in.removed {
		// What is stopping here is history; the command is for what takes its place.
		in.nextWish = &wish{op != OpStop, operator}
		in.save()
		return
	}
	if in.held != nil {
		in.endHeld()
		return
	}
	switch op {
	case OpStart:
		in.do(func() []Effect { return in.machine.wantUp(operator, true) })
		in.sup.revive(in)
	case OpStop:
		in.do(func() []Effect { return in.machine.wantDown(operator) })
	case OpRestart:
		in.do(func() []Effect { return in.machine.wantAgain(operator, true) })
		in.sup.revive(in)
	}
}

// settleWaiters tells those whose command has come to its end.
func (in *instance) settleWaiters() {
	state := in.machine.state
	switch state {
	case Stopping, Lingering:
		return
	case Waiting:
		// It comes, or it is not known yet what becomes of those for whom it waits.
		if in.hinderer != nil || in.level() == coming || in.machine.again && !in.machine.lastLeft() || in.sup.unclear(in) {
			return
		}
	case Spawning, Starting, Killing, Clearing:
		if in.stuck == "" {
			return
		}
	}
	waiters := in.waiters
	in.waiters = nil
	for _, w := range waiters {
		if in.removed && w.op != OpStop || in.isOneShot() && w.op != OpStop && state == Running {
			in.waiters = append(in.waiters, w) // for what takes its place; for the end of a one-shot
			continue
		}
		var ok bool
		switch w.op {
		case OpStop:
			ok = state.AtRest()
		default:
			ok = state == Running || state == Exited || in.awaitsSchedule() && in.machine.verdict == EndDone
		}
		message := in.reason()
		if state == Running {
			message = fmt.Sprintf("running, pid %d", in.run.process.Pid())
		}
		w.done(Outcome{OK: ok, State: state, Message: message})
	}
}

// Signal sends sig to the main process of the instances that names select.
func (s *Supervisor) Signal(names []string, sig syscall.Signal) ([]Outcome, error) {
	found, err := s.choose(names)
	if err != nil {
		return nil, err
	}
	outcomes := s.vacant(found)
	for _, in := range found.instances {
		outcome := Outcome{Name: in.name, State: in.machine.state}
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
				s.log.Info("signal sent", "instance", in.name, "pid", pid, "signal", signalName(sig), "by", operator)
				in.record(eventlog.Event{Kind: eventlog.Command, By: operator, Reason: "signal " + signalName(sig)})
			}
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// vacant tells of names that stand for nothing now that there is nothing to be done for them.
func (s *Supervisor) vacant(found selection) []Outcome {
	var outcomes []Outcome
	for _, name := range found.vacant {
		outcomes = append(outcomes, Outcome{Name: name, State: Stopped, Message: s.vacancy(name)})
	}
	return outcomes
}

// Capture returns the output of the one instance that name selects.
func (s *Supervisor) Capture(name string) (*logs.Capture, error) {
	selected, err := s.selectInstances([]string{name})
	if err != nil {
		return nil, err
	}
	switch len(selected) {
	case 1:
		return &selected[0].capture, nil
	case 0: // a program, or a glob of some
		return nil, fmt.Errorf("select %q: %s", name, s.vacancy(name))
	}
	return nil, fmt.Errorf("select %q: %d instances have this name; name one, such as %s", name, len(selected), selected[0].name)
}
