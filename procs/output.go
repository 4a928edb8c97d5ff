package procs

import (
	"fmt"

	"superd/logs"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/instance"
)

// An Output is the output of one instance.
type Output struct {
	Instance  string
	Collector *logs.Collector

	in *instance.Instance // nil in a test
}

// Clear empties the log files, and with rotated removes the rotated ones. done runs on the loop.
func (o Output) Clear(rotated bool, done func(CommandResult)) {
	if o.in != nil {
		o.in.Record(eventlog.WithReason(byOperator(eventlog.Event{Kind: eventlog.Command}),
			fsm.Reason{Kind: fsm.ReasonRequestedClear}))
	}
	o.Collector.Clear(rotated, func(err error) {
		result := CommandResult{Name: o.Instance, OK: err == nil, Message: "log cleared"}
		if err != nil {
			result.Message = err.Error()
		}
		if o.in != nil {
			result.State = o.in.Machine.State()
		}
		done(result)
	})
}

// Outputs returns the output of the instances that names select, sorted. A name that selects
// nothing is an [selection.UnknownNameError] or, with noneToo, ignored.
func (s *Supervisor) Outputs(names []string, noneToo bool) ([]Output, error) {
	selected, err := s.selector.Instances(names)
	if err != nil && noneToo {
		selected = s.selector.Match(names).Instances
	} else if err != nil {
		return nil, err
	}
	all := make([]Output, len(selected))
	for i, in := range selected {
		all[i] = Output{in.Name, &in.Output.Collector, in}
	}
	return all, nil
}

// Collector returns the output of the one instance that name selects.
func (s *Supervisor) Collector(name string) (*logs.Collector, error) {
	selected, err := s.selector.Instances([]string{name})
	if err != nil {
		return nil, err
	}
	switch len(selected) {
	case 1:
		return &selected[0].Output.Collector, nil
	case 0: // a program or a glob, without instances
		return nil, fmt.Errorf("select %q: %s", name, s.selector.NoInstances(name))
	}
	return nil, fmt.Errorf("select %q: %d instances have this name; name one, such as %s", name, len(selected), selected[0].Name)
}
