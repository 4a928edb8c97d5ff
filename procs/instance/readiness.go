package instance

import (
	"time"

	"superd/config"
	"superd/internal/words"
	"superd/procs/instance/readiness"
)

// spawnedMain steps the machine after the start of a main process.
func (r *run) spawnedMain() {
	in := r.in
	ready := r.program.Ready == nil && len(r.program.PostStart) == 0 && !launching(r)
	if ready {
		r.readyAt = in.Env.Loop.Now()
	}
	in.Apply(in.Machine.Spawned(ready, in.Conditions()))
}

// awaitReady waits for the readiness of the main process until deadline. It replaces a wait under
// way.
func (r *run) awaitReady(deadline time.Duration) {
	in := r.in
	if r.readiness != nil {
		r.readiness.End()
	}
	r.readiness = readiness.Start(readiness.Options{
		Instance: in.Name, Run: (*port)(r), Tree: in.Tree, Scope: r.main.scope.Child(),
		StartedAt: r.main.startedAt, Launching: launching(r), Listens: r.listener != nil,
		Output: &in.Output.Collector, OutputStart: r.outputStart,
		Host: in.Env.Host, Prober: in.Env.Prober, Log: in.Env.Log,
	}, deadline)
	if launching(r) && r.main.launch == commandEnded {
		r.readiness.SearchMain()
	}
}

// endReadiness ends the wait for readiness.
func (r *run) endReadiness() {
	r.readiness.End()
	r.readiness = nil
	if r.readyFDName != "" {
		r.in.Env.FDs.Release(r.readyFDName)
		r.readyFDName = ""
	}
}

func (p *port) TakeReadyFD() int {
	fd := p.readyFD
	if fd >= 0 {
		p.readyFD = -1
	}
	return fd
}

func (p *port) ConditionMet() {
	if len(p.program.PostStart) > 0 {
		(*run)(p).endReadiness()
		(*run)(p).ownBeside().PostStart(0)
		return
	}
	p.PostStarted()
}

func (p *port) PostStarted() {
	in := p.in
	p.readyAt = in.Env.Loop.Now()
	after := p.readyAt - p.main.startedAt
	in.Env.Log.Info("program ready", "instance", in.Name, "pid", p.main.process.Pid(), "after", words.Round(after))
	in.Apply(in.Machine.Ready(after))
}

// awaitsLine reports whether a program becomes ready by a line of its output.
func awaitsLine(p *config.Program) bool { return p.Ready != nil && p.Ready.Line != "" }
