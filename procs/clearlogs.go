package procs

import (
	"superd/procs/eventlog"
	"superd/procs/fsm"
)

// ClearLogs empties the log files of the instances that names select, and with rotated removes the
// rotated ones. done runs once, on the loop, after ClearLogs has returned. It does not run after
// cancel; the files are emptied nevertheless.
func (s *Supervisor) ClearLogs(names []string, rotated bool, done func([]CommandResult)) (cancel func(), err error) {
	found, err := s.selector.Select(names)
	if err != nil {
		return nil, err
	}
	canceled, remaining := false, len(found.Instances)+1
	outcomes := make([]CommandResult, len(found.Instances))
	finish := func() {
		if remaining--; remaining == 0 && !canceled {
			done(append(outcomes, noInstanceResults(s.selector, found)...))
		}
	}
	for i, in := range found.Instances {
		in.Record(eventlog.WithReason(byOperator(eventlog.Event{Kind: eventlog.Command}),
			fsm.Reason{Kind: fsm.ReasonRequestedClear}))
		in.Output.Collector.Clear(rotated, func(err error) {
			outcomes[i] = CommandResult{Name: in.Name, OK: err == nil, State: in.Machine.State(), Message: "log cleared"}
			if err != nil {
				outcomes[i].Message = err.Error()
			}
			finish()
		})
	}
	s.Scope.Post(finish)
	return func() { canceled = true }, nil
}
