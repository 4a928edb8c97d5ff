package procs

import (
	"slices"

	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/instance/beside"
	"superd/procs/selection"
)

// ReloadPrograms makes the instances that names select read their configuration again. done runs
// once, on the loop, after ReloadPrograms has returned, when all have done so or have failed. It
// does not run after cancel; the reloads go on.
func (s *Supervisor) ReloadPrograms(names []string, done func([]CommandResult)) (cancel func(), err error) {
	found, err := s.selector.Select(names)
	if err != nil {
		return nil, err
	}
	selected, canceled := slices.Clone(found.Instances), false
	outcomes := make([]CommandResult, len(selected))
	remaining := len(selected) + 1
	finish := func() {
		if remaining--; remaining > 0 {
			return
		}
		s.recorder.AfterSaving(func(error) {
			if !canceled {
				done(append(outcomes, noInstanceResults(s.selector, found)...))
			}
		})
	}
	for i, in := range selected {
		in.Record(eventlog.WithReason(byOperator(eventlog.Event{Kind: eventlog.Command}),
			fsm.Reason{Kind: fsm.ReasonRequestedReload}))
		in.Reload(func(o beside.Outcome) {
			outcomes[i] = CommandResult{Name: in.Name, OK: o.OK, State: in.Machine.State(), Message: o.Message, Output: o.Output}
			finish()
		})
	}
	s.Scope.Post(finish)
	return func() { canceled = true }, nil
}

// restart is Command for restarts. Before, it checks the configuration of the programs that have a
// check_command and run: those with a mistake are not restarted. Nor is one that the operator stops
// during the checks.
func (s *Supervisor) restart(found selection.Selected, wait bool, done func([]CommandResult)) (cancel func()) {
	var cancelCommand func() // nil: it has not begun
	refused, stops := map[*instance.Instance]beside.Outcome{}, map[*instance.Instance]uint32{}
	canceled, remaining := false, 1
	proceed := func() {
		if remaining--; remaining > 0 {
			return
		}
		for in, before := range stops {
			if in.Marks.Stops != before {
				refused[in] = beside.Outcome{Message: "it was stopped meanwhile"}
			}
		}
		if cancelCommand = s.command(OpRestart, found, wait, refused, done); canceled {
			cancelCommand()
		}
	}
	for _, in := range found.Instances {
		if s.refusal(in, OpRestart) != "" {
			continue
		}
		stops[in] = in.Marks.Stops
		remaining++
		instance.CheckConfiguration(in, func(o beside.Outcome) {
			if !o.OK {
				refused[in] = o
			}
			proceed()
		})
	}
	proceed()
	return func() {
		if canceled = true; cancelCommand != nil {
			cancelCommand()
		}
	}
}
