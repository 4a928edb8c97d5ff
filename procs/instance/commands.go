package instance

import (
	"fmt"

	"superd/procs/fsm"
	"superd/procs/instance/beside"
)

// Reload reloads the program. Each done is called once, perhaps before Reload returns.
func (in *Instance) Reload(done ...func(beside.Outcome)) {
	if in.run != nil && in.Machine.State() == fsm.Running {
		in.run.ownBeside().Reload(done...)
		return
	}
	for _, answer := range done {
		answer(beside.Outcome{Message: "not reloaded: it is " + in.Machine.State().String()})
	}
}

// Execute executes a command beside the main process: see [beside.Commands.Execute].
func Execute(in *Instance, o beside.ExecuteOptions) (end func(), err error) {
	if in.run == nil || in.run.main.process == nil || !in.Machine.State().Serves() {
		return nil, fmt.Errorf("%s is %s: a command is executed beside a running program", in.Name, in.Machine.State())
	}
	return in.run.ownBeside().Execute(o).End, nil
}

// CheckConfiguration runs check_command, if the program has one and runs. done is called once,
// perhaps before CheckConfiguration returns.
func CheckConfiguration(in *Instance, done func(beside.Outcome)) {
	if in.run == nil || in.Machine.State() != fsm.Running {
		done(beside.Outcome{OK: true})
		return
	}
	in.run.ownBeside().CheckConfiguration(done)
}

// ownBeside returns the run's commands beside the main process, and allocates it if necessary.
func (r *run) ownBeside() *beside.Commands {
	if r.beside == nil {
		in := r.in
		r.beside = beside.New(beside.Options{
			Instance: in.Name, Run: (*port)(r), Supervisor: in.Env.Scope, Scope: &in.Scope,
			Main: &r.main.scope, Host: in.Env.Host, Reaper: in.Env.Reaper, Log: in.Env.Log,
			AfterSaving: in.Env.Records.AfterSaving,
		})
	}
	return r.beside
}
