package procs

import (
	"reflect"
	"slices"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
)

// unschedules reports whether a change removes the schedule of a one-shot.
func unschedules(before, after *config.Program) bool {
	return before.Scheduled() && after.Schedule == "" && after.Type == config.TypeOneshot
}

// change applies a changed definition of the program to the instance. A change that a live run
// cannot take causes a restart. A pending backoff continues under the new restart policy. An
// instance that is wanted down stays down.
func (in *instance) change(c *config.Change) {
	before, program := in.program, c.Program
	outdated := in.outdated(in.sup.config.active)
	if before == program && !outdated {
		return // the predecessor has applied it
	}
	blocks := func(other *instance) bool { return other != in && !other.machine.blockedByConflict }
	if files := in.sup.logOptions(in.name, program).Files(); !slices.Equal(files, in.collector.Files()) && in.sup.conflicts.owner(files, blocks) != nil {
		in.replace(program)
		return
	}
	m := &in.machine
	startsNow := !m.desired.up &&
		(program.Autostart && !before.Autostart && !m.desired.by.is(ActorOperator) ||
			program.Scheduled() && m.desired.by.is(ActorUnscheduled))
	restarts := outdated || in.run == nil && c.Restarts()
	if r := in.run; r != nil {
		diff := config.CompareProgram(r.program, program)
		restarts = restarts || diff.Restarts()
	}
	// The current run continues; the next one uses the new definition
	runContinues := restarts && in.run != nil && before.Scheduled() && program.Scheduled()
	in.sup.registry.outputs += fifosOf(program) - fifosOf(before)
	in.sup.registry.loggers += one(program.LoggerOf != "") - one(before.LoggerOf != "")
	in.program, m.program = program, program
	m.runPending = m.runPending && before.Scheduled() // it has no meaning without a schedule
	m.outdated = m.outdated || restarts && in.run != nil
	defer in.save()
	defer in.updateSchedule()
	if in.run != nil && !restarts {
		in.changeRun(program)
	}
	in.setLogOptions()
	switch {
	case in.quarantine != nil:
	case m.desired.up && m.state == Waiting && !m.runPending && unschedules(before, program):
		in.do(func() []Effect { return m.wantDown(actor(ActorUnscheduled)) })
	case startsNow && !restarts:
		in.do(func() []Effect { return m.wantUp(actor(ActorReload), false) })
	case !m.desired.up && !startsNow:
	case !restarts || runContinues:
		in.reevaluate(before)
	case len(before.Invalid) > 0 && !program.Autostart:
		in.do(func() []Effect { return m.wantDown(actor(ActorReload)) })
	case m.state == Backoff:
		in.reevaluate(before)
	default:
		in.do(func() []Effect { return m.wantRestart(actor(ActorReload), false) })
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
	case health && in.machine.state == Running:
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

// reevaluate applies a changed definition to an instance that is wanted up and whose last run has
// ended.
func (in *instance) reevaluate(before *config.Program) {
	m, p := &in.machine, in.program
	e := in.lastExit
	success := !m.notStarted && !m.failed && e != nil && e.success(p)
	start := func() { in.do(func() []Effect { return m.wantUp(actor(ActorReload), false) }) }
	if before.Scheduled() != p.Scheduled() {
		if m.state == Waiting || m.state == Exited || m.state == Failed {
			start() // or waits for the new schedule
			return
		}
		m.runPending = true // the program got a schedule during this run
	}
	switch m.state {
	case TearingDown:
		m.reevaluate(before, success)
	case Backoff:
		switch {
		case m.resourceShortage: // retried under any policy
		case success && p.Restart != config.RestartAlways:
			in.do(func() []Effect { return m.endBackoff(RunEndedDone) })
		case p.Restart == config.RestartNever:
			in.do(func() []Effect { return m.endBackoff(RunEndedFinal) })
		case p.Backoff != before.Backoff:
			m.delay = restartDelay(p.Backoff, m.restartAttempts, m.rng)
			in.restartTimer.Reset(in.sinceAt + m.delay - in.sup.loop.Now())
		}
	case Exited:
		if p.Restart == config.RestartAlways || !success && p.Restart == config.RestartOnFailure {
			start()
		}
	case Failed:
		switch {
		case p.Restart == config.RestartNever:
			if in.restartTimer != nil {
				m.makeFinal(RunEndedFinal)
				in.stayFailed()
			}
		case before.Restart == config.RestartNever, m.startLimitHit && p.StartLimit.Failures == 0:
			start()
		case m.startLimitHit && p.StartLimit.RetryAfter != before.StartLimit.RetryAfter:
			if m.outcome = m.retrySlowly(); m.outcome == RunEndedFinal {
				in.stayFailed()
				return
			}
			in.perform(Disarm)
			in.armRestart(in.sinceAt + m.delay - in.sup.loop.Now())
		}
	}
}

// stayFailed cancels the slow retry of an instance that hit its start limit.
func (in *instance) stayFailed() {
	in.perform(Disarm)
	in.sup.exitPolicy.check(in)
}
