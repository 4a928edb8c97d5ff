package procs

import (
	"fmt"

	"superd/config"
	"superd/procs/enabling"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/instance/beside"
	"superd/procs/pty"
)

// ExecuteOptions say what [Execute] executes.
type ExecuteOptions = beside.ExecuteOptions

// Execute executes a command beside the main process of the one instance of s that name selects,
// with the program's user, directory, environment, limits and process tree. uid is the operator.
// end ends the command. It is called on the loop.
func Execute(s *Supervisor, name string, uid int, o ExecuteOptions) (end func(), err error) {
	in, err := oneInstance(s, name)
	if err != nil {
		return nil, err
	}
	s.Log.Info("command of an operator", "instance", in.Name, "uid", uid, "command", o.Command[0])
	return instance.Execute(in, o)
}

// oneInstance returns the one instance of s that name selects.
func oneInstance(s *Supervisor, name string) (*instance.Instance, error) {
	all, err := s.selector.Instances([]string{name})
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("%s selects %d instances: name one of them", name, len(all))
	}
	return all[0], nil
}

// Terminal returns the terminal of the one instance of s that name selects, and the instance's
// name. uid is the operator who attaches to it.
func Terminal(s *Supervisor, name string, uid int) (*pty.Terminal, string, error) {
	in, err := oneInstance(s, name)
	if err != nil {
		return nil, "", err
	}
	t := in.Output.Terminal()
	switch {
	case t != nil:
		s.Log.Info("operator attaches to a terminal", "instance", in.Name, "uid", uid)
		return t, in.Name, nil
	case in.Program.PTY:
		return nil, "", fmt.Errorf("%s is %s: its terminal exists from its first start on: start it",
			in.Name, in.Machine.State())
	}
	return nil, "", fmt.Errorf("%s has no terminal: write pty = true in [program.%s], and reload",
		in.Name, in.Program.Name)
}

// PauseTerminals ends the copying of all terminals where nothing is lost, before another binary is
// executed. resume continues it if that failed.
func PauseTerminals(s *Supervisor) (resume func()) {
	var paused []*pty.Terminal
	for _, in := range s.registry.instances {
		if t := in.Output.Terminal(); t != nil {
			t.Pause()
			paused = append(paused, t)
		}
	}
	return func() {
		for _, t := range paused {
			t.Resume()
		}
	}
}

// ConfigOf returns the definitions in force of the programs of s that names select.
func ConfigOf(s *Supervisor, names []string) ([]*config.Program, error) {
	return s.selector.Definitions(names)
}

// ResetFailed clears the start limit and the counters of failures of the instances of s that names
// select. One that has failed becomes stopped.
func ResetFailed(s *Supervisor, names []string) ([]CommandResult, error) {
	found, err := s.selector.Select(names)
	results := noInstanceResults(s.selector, found)
	for _, in := range found.Instances {
		in.Machine.ResetFailed()
		if in.Machine.State() == fsm.Failed {
			s.reconciler.Perform(in, OpStop)
		}
		in.Save()
		results = append(results, CommandResult{Name: in.Name, OK: true, State: in.Machine.State(),
			Message: "failures forgotten; it is " + in.Machine.State().String()})
	}
	return results, err
}

// Enable decides whether the programs of s that names select start with superd: see
// [enabling.Options.Enable].
func Enable(s *Supervisor, names []string, starts bool, done func([]CommandResult, error)) (cancel func(), err error) {
	o := &enabling.Options{
		Scope: s.Scope, Log: s.Log, Recorder: s.recorder, Known: s.selector.Known,
		Active:       func() *config.Config { return s.config.active },
		Exclusively:  s.reloads.exclusively,
		ShuttingDown: func() bool { return s.shutdown.begun },
		Activate: func(next *config.Config, diff config.Diff) {
			s.config.activate(next, func() { s.applier.applyDiff(diff) })
			s.subscriptions.Changed()
		},
		Now: func(program string) (state fsm.State, stopped bool) {
			for _, in := range s.registry.of(program) {
				if state == fsm.Stopped {
					state = in.Machine.State()
				}
				desired := in.Machine.Desired()
				stopped = stopped || !desired.Up && desired.By.Is(fsm.ActorOperator)
			}
			return state, stopped
		},
	}
	return o.Enable(names, starts, func(all []enabling.Result, err error) {
		var results []CommandResult
		for _, r := range all {
			c := CommandResult{Name: r.Program, OK: true, State: r.State, Message: r.Message}
			if r.Unrecorded != nil {
				c.MarkUnrecorded(r.Unrecorded)
			}
			results = append(results, c)
		}
		done(results, err)
	})
}
