package instance

import (
	"fmt"
	"sync/atomic"

	"superd/config"
	"superd/logs"
	"superd/logs/sink"
	"superd/loop"
	"superd/procs/host"
	"superd/procs/snapshot"
)

// An output is the output of an instance on its way into the log, and a logger's input.
type output struct {
	in        *Instance
	Collector logs.Collector
	// By stream: the names of its FIFOs in the descriptor store
	fifoNames [2]host.FDName
	input     *loggerFIFO // a logger's input; nil before it exists and after its release
	// Invocation id of the last run that ended with output still in the pipe; "" when that is in
	// the log
	drainingRun string
	// Definition whose log options apply; nil: those of the program and of its run are mixed
	definition      *config.Program
	cancelLineWatch func() // ends the notification of new lines; nil without a watcher
}

// A loggerFIFO is the FIFO from which a logger reads.
type loggerFIFO struct {
	fd     int    // open for reading and writing
	fdName string // name in the descriptor store
	end    *loop.Deferred
}

// open opens the collector. runProgram is the definition with which the instance's run began.
func (o *output) open(runProgram *config.Program) {
	in, env := o.in, o.in.Env
	options := env.Paths.LogOptions(in.Name, in.Program)
	o.definition = in.Program
	if runProgram != in.Program { // the output of the run stays in the same files
		options = optionsDuringRun(env.Paths.LogOptions(in.Name, runProgram), options)
		o.definition = nil
	}
	o.Collector.Open(env.Store, &in.Scope, in.Name, options)
}

// snapshot sets in the instance's record which FIFOs exist, their names in the descriptor
// store, how much output was dropped, and whether output is still in the pipe.
func (o *output) snapshot(v *snapshot.Instance) {
	v.Output, v.FDName = o.Collector.FD(logs.Stdout) >= 0, o.fifoNames[logs.Stdout].String()
	v.Stderr, v.StderrFDName = o.Collector.FD(logs.Stderr) >= 0, o.fifoNames[logs.Stderr].String()
	if o.input != nil {
		v.Input, v.InputFDName = true, o.input.fdName
	}
	if d := o.Collector.Drops(); d != (logs.Drops{}) {
		v.Dropped = new(snapshot.Drops(d))
	}
	v.Drain = o.drainingRun
}

// setOptions applies the program's log options. If the current run began with other options, its
// files, sink and format stay the same until it ends, so that the output of one run is in one place
// and one format.
func (o *output) setOptions() {
	in := o.in
	if o.definition == in.Program && (in.run == nil || in.run.program == in.Program) {
		return
	}
	options := in.Env.Paths.LogOptions(in.Name, in.Program)
	o.definition = in.Program
	if r := in.run; r != nil && r.program != in.Program {
		options = optionsDuringRun(in.Env.Paths.LogOptions(in.Name, r.program), options)
		o.definition = nil
	}
	logsBefore, before := len(o.Collector.LogStreams()), o.Collector.Files()
	o.Collector.SetOptions(options)
	in.Env.Owner.OutputChanged(in, before, len(o.Collector.LogStreams()) > logsBefore)
}

// optionsDuringRun returns the log options for a run that began with other ones: those of now,
// except what must not change for the output of one run.
func optionsDuringRun(began, now logs.Options) logs.Options {
	now.Path, now.Format, now.Split, now.StderrPath = began.Path, began.Format, began.Split, began.StderrPath
	// The other options of a sink belong to that sink. A command is itself the sink.
	if now.Sink != began.Sink || began.Sink == sink.Command {
		now.Sink, now.Address, now.Identifier, now.Facility = began.Sink, began.Address, began.Identifier, began.Facility
	}
	return now
}

// SetStart saves where the output of a run begins in its log. It does nothing if that is not the
// current run.
func (o *output) SetStart(at logs.RunStart) {
	in := o.in
	if in.run != nil && in.run.invocationID == at.Run {
		in.run.ownNotifyState().outputStart[at.Stream] = at.At.String()
		in.Save()
	}
}

// drain records that output of a run may still be in the pipe: it would be lost if superd and the
// keeper were killed now.
func (o *output) drain(run string) {
	awaited := o.drainingRun != ""
	if o.drainingRun = run; !awaited {
		o.awaitDrained()
	}
}

// awaitDrained waits until the output of the last run that ended is in the log. If another run ends
// before that, it then waits for the output of that run.
func (o *output) awaitDrained() {
	run := o.drainingRun
	o.Collector.Drained(func() {
		if o.drainingRun != run {
			o.awaitDrained()
			return
		}
		o.drainingRun = ""
		o.in.Save()
	})
}

// afterRun applies the program's log options once the output of the run that has ended is in the
// log, unless another run begins before. So the instance releases the log files of an earlier
// definition, for which another one may wait.
func (o *output) afterRun() {
	if o.definition == o.in.Program {
		return
	}
	o.Collector.Drained(func() {
		if o.in.run == nil && !o.in.Closed() {
			o.setOptions()
		}
	})
}

// UnresponsiveSink returns which receiver does not take the output.
func (o *output) UnresponsiveSink() string {
	switch o.Collector.Sink() {
	case "":
		return "the log's file system does not answer"
	case sink.Command:
		return "its logger does not read"
	case sink.OwnStdout:
		return "superd's standard output is not read"
	default:
		return fmt.Sprintf("%s does not answer", o.Collector.Sink())
	}
}

// UnwatchLines ends WatchLines.
func (o *output) UnwatchLines() {
	if o.cancelLineWatch != nil {
		o.cancelLineWatch()
		o.cancelLineWatch = nil
	}
}

// WatchLines calls changed on the loop after new lines, until UnwatchLines.
func (o *output) WatchLines(changed func()) {
	if o.cancelLineWatch != nil {
		return
	}
	var posted atomic.Bool // a report is posted to the loop
	o.cancelLineWatch = o.Collector.Notify(func() {
		if posted.CompareAndSwap(false, true) {
			o.in.Scope.Post(func() {
				posted.Store(false)
				changed()
			})
		}
	})
}

// release releases the FIFOs in the descriptor store, when the instance is removed.
func (o *output) release() {
	for _, stored := range o.fifoNames {
		o.in.Env.FDs.Release(stored.String())
	}
	if o.input != nil {
		o.in.Env.FDs.Release(o.input.fdName)
	}
	o.UnwatchLines()
}
