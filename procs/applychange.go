package procs

import (
	"reflect"
	"slices"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/fsm"
)

// change applies a changed definition of the program to the instance. A change that a live run
// cannot take causes a restart. A pending backoff continues under the new restart policy. An
// instance that is wanted down stays down.
func (in *instance) change(c *config.Change) {
	before, program := in.program, c.Program
	outdated := in.outdated(in.sup.config.active)
	if before == program && !outdated {
		return // the predecessor has applied it
	}
	blocks := func(other *instance) bool { return other != in && other.conflict == nil }
	if files := in.sup.logOptions(in.name, program).Files(); !slices.Equal(files, in.collector.Files()) && in.sup.conflicts.owner(files, blocks) != nil {
		in.replace(program)
		return
	}
	restarts := outdated || in.run == nil && c.Restarts()
	if r := in.run; r != nil {
		diff := config.CompareProgram(r.program, program)
		restarts = restarts || diff.Restarts()
	}
	in.sup.registry.redefine(in, program)
	in.machine.Redefine(program, restarts)
	defer in.save()
	defer in.updateSchedule()
	if in.run != nil && !restarts {
		in.changeRun(program)
	}
	in.setLogOptions()
	if in.quarantine != nil {
		return
	}
	change := fsm.Change{Before: before, Restarts: restarts, Exit: in.lastExit.exit()}
	if t, ok := in.machine.Reevaluate(change, in.conditions(), in.sup.rng); ok {
		in.apply(t)
	}
}

// setLogOptions applies the program's log options. If the current run began with other options, its
// files, sink and format stay the same until it ends, so that the output of one run is in one place
// and one format.
func (in *instance) setLogOptions() {
	if in.logDefinition == in.program && (in.run == nil || in.run.program == in.program) {
		return
	}
	o := in.sup.logOptions(in.name, in.program)
	in.logDefinition = in.program
	if r := in.run; r != nil && r.program != in.program {
		o = duringRun(in.sup.logOptions(in.name, r.program), o)
		in.logDefinition = nil
	}
	logsBefore, before := len(in.collector.LogStreams()), in.collector.Files()
	in.collector.SetOptions(o)
	if len(in.collector.LogStreams()) > logsBefore {
		in.sup.subscriptions.instancesChanged()
	}
	if !in.sup.conflicts.claim(in, before, in.collector.Files()) {
		return
	}
	if conflict := in.conflict; conflict != nil {
		in.sup.conflicts.release(conflict) // the conflict may be over
	}
	in.sup.conflicts.release(in)
}

// duringRun returns the log options for a run that began with other ones: those of now, except what
// must not change for the output of one run.
func duringRun(began, now logs.Options) logs.Options {
	now.Path, now.Format, now.Split, now.StderrPath = began.Path, began.Format, began.Split, began.StderrPath
	// The other options of a sink belong to that sink. A command is itself the sink.
	if now.Sink != began.Sink || began.Sink == logs.Command {
		now.Sink, now.Address, now.Identifier, now.Facility = began.Sink, began.Address, began.Identifier, began.Facility
	}
	return now
}

// changeRun gives the current run a definition that needs no restart. It moves the run's deadlines
// by the difference of the time-outs.
func (in *instance) changeRun(program *config.Program) {
	r := in.run
	shift := func(t *loop.Timer, by time.Duration) {
		if t.Active() && by != 0 {
			t.Reset(t.Due() + by - in.sup.loop.Now())
		}
	}
	start, stop := program.StartTimeout-r.program.StartTimeout, program.StopTimeout-r.program.StopTimeout
	if h := r.hook; h != nil { // hooks are identified by their index, so the lists must not change
		h.timeout += start
		if h.timer.Active() {
			h.due += start
			shift(h.timer, start)
		}
		own := program.Clone()
		own.PreStart, own.PostStop = r.program.PreStart, r.program.PostStop
		program = own
	}
	// A newline on a descriptor is awaited without an interval, and only once.
	ready := !reflect.DeepEqual(r.program.Ready, program.Ready) && (program.Ready == nil || program.Ready.FD == 0)
	health := !reflect.DeepEqual(r.program.Health, program.Health)
	if r.program = program; r.hook == nil { // else the definition is no configuration's
		r.config = in.sup.config.number
	}
	if !r.awaitsKill {
		shift(r.startTimer, start)
	}
	if w := r.readiness; w != nil {
		r.startDeadline += start
		shift(w.due, start)
	}
	shift(r.reloadTimer, start)
	shift(r.ownStopTimer, stop)
	switch {
	case ready && r.readiness != nil:
		in.awaitReady(r.startDeadline)
	case health && in.machine.State() == fsm.Running:
		in.startMonitoring()
	}
	if r.stopTimer.Active() {
		r.stopDeadline += stop
		shift(r.stopTimer, stop)
	}
	if t := r.teardown; t != nil && t.due.Active() {
		r.teardownDeadline += stop
		shift(t.due, stop)
	}
}
