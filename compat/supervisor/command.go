package supervisor

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"superd/compat/xmlrpc"
	"superd/control"
)

// A Result is what a command has done to one process: [Success] or the code of a fault.
type Result struct {
	Group, Name string
	Status      int
	Text        string // "OK", or that of the fault
}

func resultOf(p *Process, f *xmlrpc.Fault) Result {
	r := Result{Group: p.Group, Name: p.Name, Status: Success, Text: "OK"}
	if f != nil {
		r.Status, r.Text = f.Code, f.Text
	}
	return r
}

func results(all []Result) []any {
	list := make([]any, len(all))
	for i, r := range all {
		list[i] = map[string]any{"name": r.Name, "group": r.Group, "status": r.Status, "description": r.Text}
	}
	return list
}

// StartAll starts the processes of a group that are down; "": of all groups. With wait it returns
// when they are started, or have failed.
func (s *Supervisor) StartAll(ctx context.Context, group string, wait bool) ([]Result, error) {
	return s.many(ctx, group, func(p *Process) bool { return !p.State.up() }, func(all []Process) ([]*xmlrpc.Fault, error) {
		return s.start(ctx, all, wait)
	})
}

// StopAll stops the processes of a group that are up; "": of all groups. With wait it returns when
// they are stopped.
func (s *Supervisor) StopAll(ctx context.Context, group string, wait bool) ([]Result, error) {
	return s.many(ctx, group, func(p *Process) bool { return p.State.up() }, func(all []Process) ([]*xmlrpc.Fault, error) {
		return s.stop(ctx, all, wait)
	})
}

// SignalAll sends a signal to the processes of a group that have one; "": of all groups.
func (s *Supervisor) SignalAll(ctx context.Context, group, signal string) ([]Result, error) {
	return s.many(ctx, group, (*Process).takesSignals, func(all []Process) ([]*xmlrpc.Fault, error) {
		return s.signal(ctx, all, signal)
	})
}

// takesSignals reports whether a signal is sent to a process in its state.
func (p *Process) takesSignals() bool {
	return p.State == Running || p.State == Starting || p.State == Stopping
}

// many calls f with those processes of a group that it concerns, and returns what came of each.
func (s *Supervisor) many(
	ctx context.Context, group string, concerns func(*Process) bool, f func([]Process) ([]*xmlrpc.Fault, error),
) ([]Result, error) {
	var all []Process
	var err error
	if group != "" && s.active.isGone(group, false) {
		return nil, nil // a client that has seen it in the reread stops it
	}
	if group == "" {
		all, err = s.Processes(ctx)
	} else {
		all, err = s.group(ctx, group)
	}
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(p Process) bool { return !concerns(&p) })
	if len(all) == 0 {
		return nil, nil
	}
	faults, err := f(all)
	if err != nil {
		return nil, err
	}
	list := make([]Result, len(all))
	for i := range all {
		list[i] = resultOf(&all[i], faults[i])
	}
	return list, nil
}

// Start starts a process. A process that is up is refused.
func (s *Supervisor) Start(ctx context.Context, spec string, wait bool) error {
	return s.one(ctx, spec, func(p *Process) (*xmlrpc.Fault, error) {
		if p.State.up() {
			return fault(AlreadyStarted, spec), nil
		}
		return first(s.start(ctx, []Process{*p}, wait))
	})
}

// Stop stops a process. A process that is down is refused.
func (s *Supervisor) Stop(ctx context.Context, spec string, wait bool) error {
	return s.one(ctx, spec, func(p *Process) (*xmlrpc.Fault, error) {
		if !p.State.up() {
			return fault(NotRunning, spec), nil
		}
		return first(s.stop(ctx, []Process{*p}, wait))
	})
}

// Signal sends a signal, by name or number, to a process.
func (s *Supervisor) Signal(ctx context.Context, spec, signal string) error {
	return s.one(ctx, spec, func(p *Process) (*xmlrpc.Fault, error) {
		if !p.takesSignals() {
			return fault(NotRunning, spec), nil
		}
		return first(s.signal(ctx, []Process{*p}, signal))
	})
}

// ClearLogs empties the current log files of a process. Its rotated files stay.
func (s *Supervisor) ClearLogs(ctx context.Context, spec string) error {
	return s.one(ctx, spec, func(p *Process) (*xmlrpc.Fault, error) {
		return first(s.clear(ctx, []Process{*p}))
	})
}

// ClearAllLogs empties the current log files of all processes.
func (s *Supervisor) ClearAllLogs(ctx context.Context) ([]Result, error) {
	return s.many(ctx, "", func(*Process) bool { return true }, func(all []Process) ([]*xmlrpc.Fault, error) {
		return s.clear(ctx, all)
	})
}

func (s *Supervisor) clear(ctx context.Context, all []Process) ([]*xmlrpc.Fault, error) {
	done, err := s.api.ClearLogs(ctx, instances(all), false)
	return faultsOf(all, done, err)
}

func first(faults []*xmlrpc.Fault, err error) (*xmlrpc.Fault, error) {
	if err != nil {
		return nil, err
	}
	return faults[0], nil
}

// one calls f with the process that spec names.
func (s *Supervisor) one(ctx context.Context, spec string, f func(*Process) (*xmlrpc.Fault, error)) error {
	p, err := s.Process(ctx, spec)
	if err != nil {
		return err
	}
	refused, err := f(p)
	if err == nil && refused != nil {
		err = refused
	}
	return err
}

// start returns a fault for each process; nil: it was started.
func (s *Supervisor) start(ctx context.Context, all []Process, wait bool) ([]*xmlrpc.Fault, error) {
	faults, err := s.command(ctx, "start", all, wait)
	if err != nil {
		return nil, err
	}
	var failed []string
	for i, f := range faults {
		if f != nil {
			failed = append(failed, all[i].instance)
		}
	}
	if len(failed) == 0 {
		return faults, nil
	}
	// Which fault it is depends on what has become of the process.
	statuses, err := s.api.Status(ctx, failed)
	if err != nil {
		return nil, asFault(err)
	}
	for i := range statuses {
		at := slices.IndexFunc(all, func(p Process) bool { return p.instance == statuses[i].Name })
		if at >= 0 && faults[at] != nil {
			faults[at] = fault(startFault(&statuses[i]), all[at].Spec())
		}
	}
	return faults, nil
}

// startFault returns the fault of a start that has failed. A process that ends too early is a spawn
// error for supervisord, too.
func startFault(st *control.Status) int {
	if state := stateOf(st); state == Backoff || state == Fatal {
		return SpawnError
	}
	return AbnormalTermination
}

func (s *Supervisor) stop(ctx context.Context, all []Process, wait bool) ([]*xmlrpc.Fault, error) {
	return s.command(ctx, "stop", all, wait)
}

func (s *Supervisor) command(ctx context.Context, verb string, all []Process, wait bool) ([]*xmlrpc.Fault, error) {
	done, err := s.api.Command(ctx, verb, instances(all), wait, 0)
	return faultsOf(all, done, err)
}

func (s *Supervisor) signal(ctx context.Context, all []Process, signal string) ([]*xmlrpc.Fault, error) {
	done, err := s.api.Signal(ctx, signal, instances(all))
	if e, ok := errors.AsType[*control.Error](err); ok && e.Status == http.StatusBadRequest {
		refused := make([]*xmlrpc.Fault, len(all))
		for i := range refused {
			refused[i] = fault(BadSignal, signal)
		}
		return refused, nil
	}
	return faultsOf(all, done, err)
}

func instances(all []Process) []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].instance
	}
	return names
}

// faultsOf returns the faults of a command on all, in their order.
func faultsOf(all []Process, done []control.CommandResult, err error) ([]*xmlrpc.Fault, error) {
	if err != nil {
		return nil, asFault(err)
	}
	faults := make([]*xmlrpc.Fault, len(all))
	for _, r := range done {
		at := slices.IndexFunc(all, func(p Process) bool { return p.instance == r.Name })
		if at >= 0 && !r.OK {
			faults[at] = fault(Failed, r.Message)
		}
	}
	return faults, nil
}
