// Package enabling carries out what operators decide by `superd ctl enable` and `superd ctl
// disable`: whether programs start with superd.
//
// A decision is first in the file beside the configuration, which a boot of the machine does not
// remove, then in the active configuration, and so in the journal. It starts and stops no program.
package enabling

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"superd/config"
	"superd/config/enablement"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/selection"
)

// Options are what an enabling needs of the supervisor.
type Options struct {
	Scope    *loop.Scope
	Log      *slog.Logger
	Recorder *handover.Recorder
	Known    func() []string // names, for suggestions
	Active   func() *config.Config
	// Exclusively calls begin when no other change of the configuration is under way. begin calls
	// end once. If the file hangs, hangs is called.
	Exclusively func(file string, begin func(end func()), hangs func(error))
	// Activate makes a configuration that differs from the active one the active one.
	Activate     func(*config.Config, config.Diff)
	ShuttingDown func() bool
	// Now returns the state of a program, and whether an operator has stopped it.
	Now func(program string) (state fsm.State, stopped bool)
}

// A Result is what a decision means for one program.
type Result struct {
	Program    string
	State      fsm.State
	Message    string
	Unrecorded error // why it is not in the journal; nil: it is
}

// An Error reports that a decision could not be kept.
type Error struct {
	Err    error
	Remedy string
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// A RefusedError reports why no operator can decide whether a program starts with superd.
type RefusedError struct {
	Name string // as he gave it
	Why  string
}

func (e *RefusedError) Error() string { return e.Name + ": " + e.Why }

var errShuttingDown = errors.New("superd is shutting down: repeat it when superd runs again")

// Enable decides whether the programs that names select start with superd. done runs once, on the
// loop, after Enable has returned. It does not run after cancel; the decision is not undone. The
// error says that all of it is refused.
func (o *Options) Enable(names []string, starts bool, done func([]Result, error)) (cancel func(), err error) {
	if _, err := o.programs(names); err != nil {
		return nil, err
	}
	over := false // answered, or canceled
	answer := func(results []Result, err error) {
		if !over {
			over = true
			done(results, err)
		}
	}
	o.Scope.Post(func() {
		o.Exclusively(enablement.File(o.Active().Path), func(end func()) {
			o.enable(names, starts, func(results []Result, err error) {
				end()
				answer(results, err)
			})
		}, func(err error) { answer(nil, err) })
	})
	return func() { over = true }, nil
}

// programs returns the programs that names select: at least one. Of a group it leaves out those
// that can't be enabled.
func (o *Options) programs(names []string) (all []*config.Program, err error) {
	var refused error // of the first one
	if o.ShuttingDown() {
		return nil, errShuttingDown
	}
	active := o.Active()
	for _, name := range names {
		programs := selection.Programs(active, name)
		if len(programs) == 0 {
			if program := config.ProgramOf(name); program != name && active.Program(program) != nil {
				return nil, &RefusedError{name, "it is an instance: name its program, " + program}
			}
			return nil, &selection.UnknownNameError{Name: name, Known: o.Known()}
		}
		for _, p := range programs {
			why := p.RefuseEnablement()
			switch {
			case why != "" && p.Name == name:
				return nil, &RefusedError{name, why}
			case why != "" && refused == nil:
				refused = &RefusedError{name, fmt.Sprintf("it has no program that can be enabled or disabled: %s: %s", p.Name, why)}
			case why == "" && !slices.Contains(all, p):
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 {
		return nil, refused
	}
	return all, nil
}

// enable writes the file off the loop, then activates the configuration that has the decision.
func (o *Options) enable(names []string, starts bool, done func([]Result, error)) {
	programs, err := o.programs(names)
	if err != nil {
		done(nil, err)
		return
	}
	changes := map[string]bool{}
	for _, p := range programs {
		changes[p.Name] = starts
	}
	active := o.Active()
	go func() {
		next, save, err := active.WithEnablements(changes)
		if err == nil {
			err = save()
		}
		var diff config.Diff
		if err == nil {
			diff = config.Compare(active, next)
		}
		o.Scope.Post(func() {
			if err == nil && o.ShuttingDown() {
				err = errShuttingDown // the file has it
			}
			if err != nil {
				done(nil, &Error{Err: err, Remedy: fmt.Sprintf("or write autostart = %t below %s:%d", starts, programs[0].File, programs[0].Line)})
				return
			}
			o.activate(next, diff, changes, done)
		})
	}()
}

// activate activates next, which differs from the active configuration by what an operator has
// decided.
func (o *Options) activate(next *config.Config, diff config.Diff, changes map[string]bool, done func([]Result, error)) {
	before := o.Active()
	if diff.Differs() {
		o.Activate(next, diff)
	}
	var results []Result
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		p, starts := next.Program(name), changes[name]
		changed := p != before.Program(name)
		if changed {
			o.record(name, starts)
		}
		results = append(results, o.result(name, starts, changed))
	}
	o.Recorder.AfterSaving(func(unrecorded error) {
		for i := range results {
			results[i].Unrecorded = unrecorded
		}
		done(results, nil)
	})
}

// record records a decision in superd's log and in the event log.
func (o *Options) record(program string, starts bool) {
	reason := fsm.ReasonRequestedDisable
	if starts {
		reason = fsm.ReasonRequestedEnable
	}
	by := fsm.By(fsm.ActorOperator)
	o.Log.Info("program "+string(enablement.Of(starts)), "program", program, "by", by.String())
	o.Recorder.Record(eventlog.WithReason(eventlog.Event{
		Kind: eventlog.Command, Program: program, By: by.String(), ByKind: by.Kind.String(),
	}, fsm.Reason{Kind: reason}))
}

// result describes what a decision means for now.
func (o *Options) result(program string, starts, changed bool) Result {
	state, stopped := o.Now(program)
	r := Result{Program: program, State: state, Message: "does not start with superd"}
	if starts {
		r.Message = "starts with superd"
	}
	if !changed {
		r.Message += " as before"
	}
	if starts && stopped {
		r.Message += "; an operator has stopped it, which holds until it is started or the machine boots"
	} else {
		r.Message += "; it is " + state.String()
	}
	return r
}
