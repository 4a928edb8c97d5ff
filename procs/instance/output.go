package instance

import (
	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/host"
	"superd/procs/instance/output"
)

// An outputInstance is an instance as its output sees it: an [output.Instance].
type outputInstance struct{ in *Instance }

func (o outputInstance) Env() *output.Env {
	e := o.in.Env
	if e.outputs == nil {
		e.outputs = &output.Env{Host: e.Host, Store: e.Store, Log: e.Log, FDs: e.FDs, Paths: e.Paths}
	}
	return e.outputs
}

func (o outputInstance) Name() string       { return o.in.Name }
func (o outputInstance) Scope() *loop.Scope { return &o.in.Scope }
func (o outputInstance) Save()              { o.in.Save() }

func (o outputInstance) Programs() (program, ofRun *config.Program) {
	if o.in.run != nil {
		ofRun = o.in.run.program
	}
	return o.in.Program, ofRun
}

func (o outputInstance) OutputChanged(before []string, moreStreams bool) {
	o.in.Env.Owner.OutputChanged(o.in, before, moreStreams)
}

// attachOutput takes over the read ends of the FIFOs that were created for the start.
func attachOutput(in *Instance, record *startRecord, child host.Child) {
	if in.Output.Attach(child, record.value.FDNames, record.stored) && in.noOutput != "" {
		in.noOutput = ""
	}
}

// SetOutputStart saves where the output of a run begins in its log. It does nothing if that is not
// the current run.
func SetOutputStart(in *Instance, at logs.RunStart) {
	if in.run != nil && in.run.invocationID == at.Run {
		in.run.ownNotifyState().outputStart[at.Stream] = at.At.String()
		in.Save()
	}
}

// recordTail records the last lines of the run once they are in its log.
func recordTail(r *run) {
	in := r.in
	if !in.Env.Records.HasEvents() {
		return
	}
	e := eventlog.Event{At: in.Env.Loop.Wall(), Kind: eventlog.Output, Instance: in.Name, Program: in.Program.Name, Run: r.invocationID}
	in.Output.Collector.Tail(func(end []byte, cut bool) {
		if e.Output = eventlog.LastLines(string(end), cut, eventlog.TailLines); e.Output != nil {
			in.Env.Records.RecordLater(e)
		}
	})
}
