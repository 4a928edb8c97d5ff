// Package output is the way of an instance's output into its log, and the input of a logger.
//
// An [Output] owns the FIFOs of an instance, their names in the descriptor store and the collector
// that reads them. It lives on the loop.
package output

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"superd/config"
	"superd/logs"
	"superd/logs/sink"
	"superd/loop"
	"superd/procs/host"
	"superd/procs/instance/paths"
	"superd/procs/snapshot"
)

// An Env is what the outputs of all instances run on.
type Env struct {
	Host  host.Host
	Store *logs.Store
	Log   *slog.Logger
	FDs   FDs
	Paths paths.Paths
}

// FDs are the descriptors that a successor gets, by name.
type FDs interface {
	// Reserve returns a new name; "" if there is none. The names for output are preferred.
	Reserve(output bool) (name string)
	// Store stores a duplicate of fd.
	Store(name string, fd int)
	// StoreFD is Reserve and Store.
	StoreFD(fd int, output bool) (name string)
	// Release removes a descriptor when the journal does not refer to it any more.
	Release(name string)
}

// An Instance is what an output needs of its instance.
type Instance interface {
	Env() *Env
	Name() string
	Scope() *loop.Scope // open until the instance is removed
	// Programs returns the definition of the instance and that of its run; nil without a run.
	Programs() (program, ofRun *config.Program)
	// Save queues the instance's record.
	Save()
	// OutputChanged is called when the log files may be others than before, or there are more
	// streams.
	OutputChanged(before []string, moreStreams bool)
}

// An Output is the output of an instance on its way into the log, and a logger's input.
type Output struct {
	of        Instance
	Collector logs.Collector
	// By stream: the names of its FIFOs in the descriptor store
	fifoNames [2]host.FDName
	input     *input // of a logger, or a terminal; nil before it exists and after its release
	// Invocation id of the last run that ended with output still in the pipe; nil when that is in
	// the log
	drainingRun *string
	// Definition whose log options apply; nil: those of the program and of its run are mixed
	definition      *config.Program
	cancelLineWatch func() // ends the notification of new lines; nil without a watcher
}

// Open opens the collector. runProgram is the definition with which the instance's run began.
func (o *Output) Open(of Instance, runProgram *config.Program) {
	o.of = of
	env := of.Env()
	program, _ := of.Programs()
	options := env.Paths.LogOptions(of.Name(), program)
	o.definition = program
	if runProgram != program { // the output of the run stays in the same files
		options = optionsDuringRun(env.Paths.LogOptions(of.Name(), runProgram), options)
		o.definition = nil
	}
	o.Collector.Open(env.Store, of.Scope(), of.Name(), options)
}

// Snapshot sets in the instance's record which FIFOs exist, their names in the descriptor
// store, how much output was dropped, and whether output is still in the pipe.
func (o *Output) Snapshot(v *snapshot.Instance) {
	v.Output, v.FDName = o.Collector.FD(logs.Stdout) >= 0, o.fifoNames[logs.Stdout].String()
	v.Stderr, v.StderrFDName = o.Collector.FD(logs.Stderr) >= 0, o.fifoNames[logs.Stderr].String()
	if o.input != nil {
		v.Input, v.InputFDName = true, o.input.fdName
	}
	if d := o.Collector.Drops(); d != (logs.Drops{}) {
		v.Dropped = new(snapshot.Drops(d))
	}
	if o.drainingRun != nil {
		v.Drain = *o.drainingRun
	}
}

// SetOptions applies the program's log options. If the current run began with other options, its
// files, sink and format stay the same until it ends, so that the output of one run is in one place
// and one format.
func (o *Output) SetOptions() {
	program, ofRun := o.of.Programs()
	if o.definition == program && (ofRun == nil || ofRun == program) {
		return
	}
	options := o.of.Env().Paths.LogOptions(o.of.Name(), program)
	o.definition = program
	if ofRun != nil && ofRun != program {
		options = optionsDuringRun(o.of.Env().Paths.LogOptions(o.of.Name(), ofRun), options)
		o.definition = nil
	}
	logsBefore, before := len(o.Collector.LogStreams()), o.Collector.Files()
	o.Collector.SetOptions(options)
	o.of.OutputChanged(before, len(o.Collector.LogStreams()) > logsBefore)
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

// EndRun ends a run in the collector, and drains its output if that is not in the log yet.
func (o *Output) EndRun(run string) {
	o.drainTerminal()
	if drained := o.Collector.EndRun(); !drained || o.drainingRun != nil {
		o.Drain(run)
	}
}

// Drain records that output of a run may still be in the pipe: it would be lost if superd and the
// keeper were killed now.
func (o *Output) Drain(run string) {
	awaited := o.drainingRun != nil
	if o.drainingRun = &run; !awaited {
		o.awaitDrained()
	}
}

// awaitDrained waits until the output of the last run that ended is in the log. If another run ends
// before that, it then waits for the output of that run.
func (o *Output) awaitDrained() {
	run := o.drainingRun
	o.Collector.Drained(func() {
		if o.drainingRun != run {
			o.awaitDrained()
			return
		}
		o.drainingRun = nil
		o.of.Save()
	})
}

// AfterRun applies the program's log options once the output of the run that has ended is in the
// log, unless another run begins before. So the instance releases the log files of an earlier
// definition, for which another one may wait.
func (o *Output) AfterRun() {
	if program, _ := o.of.Programs(); o.definition == program {
		return
	}
	o.Collector.Drained(func() {
		if _, ofRun := o.of.Programs(); ofRun == nil && !o.of.Scope().Closed() {
			o.SetOptions()
		}
	})
}

// UnresponsiveSink returns which receiver does not take the output.
func (o *Output) UnresponsiveSink() string {
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
func (o *Output) UnwatchLines() {
	if o.cancelLineWatch != nil {
		o.cancelLineWatch()
		o.cancelLineWatch = nil
	}
}

// WatchLines calls changed on the loop after new lines, until UnwatchLines.
func (o *Output) WatchLines(changed func()) {
	if o.cancelLineWatch != nil {
		return
	}
	var posted atomic.Bool // a report is posted to the loop
	o.cancelLineWatch = o.Collector.Notify(func() {
		if posted.CompareAndSwap(false, true) {
			o.of.Scope().Post(func() {
				posted.Store(false)
				changed()
			})
		}
	})
}

// Release releases the FIFOs in the descriptor store, when the instance is removed.
func (o *Output) Release() {
	for _, stored := range o.fifoNames {
		o.of.Env().FDs.Release(stored.String())
	}
	if o.input != nil {
		o.of.Env().FDs.Release(o.input.fdName)
	}
	o.UnwatchLines()
}
