package instance

import (
	"superd/config"
	"superd/procs/eventlog"
	"superd/procs/execprobe"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance/beside"
	"superd/procs/snapshot"
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
			Instance: in.Name, Run: (*besideRun)(r), Supervisor: in.Env.Scope, Scope: &in.Scope,
			Main: &r.main.scope, Host: in.Env.Host, Log: in.Env.Log,
			AfterSaving: in.Env.Records.AfterSaving,
		})
	}
	return r.beside
}

// A besideRun is a run as the commands beside its main process see it: a [beside.Run].
type besideRun run

func (b *besideRun) Program() *config.Program  { return b.program }
func (b *besideRun) Main() host.Process        { return b.main.process }
func (b *besideRun) Machine() *fsm.Machine     { return &b.in.Machine }
func (b *besideRun) Checks() *execprobe.Runner { return b.in.execChecks("") }
func (b *besideRun) Save()                     { b.in.Save() }
func (b *besideRun) Changed()                  { b.in.Env.Owner.Changed() }
func (b *besideRun) Record(e eventlog.Event)   { b.in.Record(e) }

func (b *besideRun) Reloaded(end *snapshot.ReloadEnd) { b.in.ownProblems().LastReload = end }

func (b *besideRun) Spec(command []string, output func(uid uint32) (int, error)) *host.SpawnSpec {
	return commandSpec((*run)(b), command, output)
}

func (b *besideRun) WhenNotifyDrained(f func()) { (*run)(b).whenNotifyDrained(f) }

func (b *besideRun) ResumeReloading() {
	if b.reloadTimer == nil {
		(*run)(b).beginProgramReload(b.in.Env.Loop.Now())
	}
}

func (b *besideRun) PostStarted() { (*run)(b).becameReady() }

func (b *besideRun) PostStartFailed(reason fsm.Reason) {
	b.in.Apply(b.in.Machine.FailRun(fsm.StartTimeout, reason))
}

func (b *besideRun) Reload(done ...func(beside.Outcome)) { b.in.Reload(done...) }
