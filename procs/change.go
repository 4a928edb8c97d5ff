package procs

import (
	"reflect"
	"slices"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
)

// byChange is who wants something because a program's table was changed.
const byChange = "the configuration: changed"

// byUnscheduled is who wants a one-shot down that waited for its schedule when that was taken out: it has had its turn.
const byUnscheduled = "the configuration: it has no schedule any more"

// unschedules reports whether a change takes the schedule out of a one-shot.
func unschedules(before, after *config.Program) bool {
	return before.Scheduled() && after.Schedule == "" && after.Type == config.TypeOneshot
}

// byRemoval is who has an instance leave that the configuration does not have any more.
const byRemoval = "the configuration: removed"

// change gives the instance its program's new table. What can't be applied to what lives takes a restart; a wait in back-off
// goes on, by the new rules; what is to be down stays down.
func (in *instance) change(c *config.Change) {
	before, program := in.program, c.Program
	outdated := in.outdated(in.sup.config)
	if before == program && !outdated {
		return // the superd before has done it
	}
	taken := func(other *instance) bool { return other != in && !other.machine.hindered }
	if files := in.sup.logOptions(in.name, program).Files(); !slices.Equal(files, in.capture.Files()) && in.sup.writer(files, taken) != nil {
		in.replace(program)
		return
	}
	m := &in.machine
	startsNow := !m.wanted.up && (program.Autostart && !before.Autostart && m.wanted.by != operator || program.Scheduled() && m.wanted.by == byUnscheduled)
	restarts := outdated || in.run == nil && c.Restarts()
	if r := in.run; r != nil {
		lives := config.CompareProgram(r.program, program)
		restarts = restarts || lives.Restarts()
	}
	goesOn := restarts && in.run != nil && before.Scheduled() && program.Scheduled() // the next run is by the new table
	in.sup.outputs += fifosOf(program) - fifosOf(before)
	in.sup.loggers += one(program.LoggerOf != "") - one(before.LoggerOf != "")
	in.program, m.program = program, program
	m.owed = m.owed && before.Scheduled() // without a schedule it says nothing
	m.stale = m.stale || restarts && in.run != nil
	defer in.save()
	defer in.keepSchedule()
	if in.run != nil && !restarts {
		in.changeRun(program)
	}
	in.setLogOptions()
	switch {
	case in.held != nil:
	case m.wanted.up && m.state == Waiting && !m.owed && unschedules(before, program):
		in.do(func() []Effect { return m.wantDown(byUnscheduled) })
	case startsNow && !restarts:
		in.do(func() []Effect { return m.wantUp(byChange, false) })
	case !m.wanted.up && !startsNow:
	case !restarts || goesOn:
		in.judgeAnew(before)
	case len(before.Invalid) > 0 && !program.Autostart:
		in.do(func() []Effect { return m.wantDown(byChange) })
	case m.state == Backoff:
		in.judgeAnew(before)
	default:
		in.do(func() []Effect { return m.wantAgain(byChange, false) })
	}
}

// setLogOptions puts the program's log options in force. Files, sink and format stay as they are as long as a run lasts that was
// begun with others: its output is in one place, in one format.
func (in *instance) setLogOptions() {
	if in.logsBy == in.program && (in.run == nil || in.run.program == in.program) {
		return
	}
	o := in.sup.logOptions(in.name, in.program)
	in.logsBy = in.program
	if r := in.run; r != nil && r.program != in.program {
		o = duringRun(in.sup.logOptions(in.name, r.program), o)
		in.logsBy = nil
	}
	logsBefore, before := len(in.capture.Apart()), in.capture.Files()
	in.capture.SetOptions(o)
	if len(in.capture.Apart()) > logsBefore {
		in.sup.tellAdded()
	}
	if !in.occupy(before, in.capture.Files()) {
		return
	}
	if h := in.hinderer; h != nil {
		h.makeRoom() // it may not have to wait for that one any more
	}
	in.makeRoom()
}

// duringRun returns the options for the output of a run that was begun with others: those of now, less what its output can't change.
func duringRun(began, now logs.Options) logs.Options {
	now.Path, now.Format, now.Split, now.StderrPath = began.Path, began.Format, began.Split, began.StderrPath
	if now.Sink != began.Sink || began.Sink == logs.Command { // what else says where a sink is, is for that sink; a command is the sink itself
		now.Sink, now.Address, now.Identifier, now.Facility = began.Sink, began.Address, began.Identifier, began.Facility
	}
	return now
}

// changeRun gives the present run a table that takes no restart. Its deadlines move by as much as the time-outs differ.
func (in *instance) changeRun(program *config.Program) {
	r := in.run
	shift := func(t *loop.Timer, by time.Duration) {
		if t.Active() && by != 0 {
			t.Reset(t.Due() + by - in.sup.loop.Now())
		}
	}
	start, stop := program.StartTimeout-r.program.StartTimeout, program.StopTimeout-r.program.StopTimeout
	if h := r.hook; h != nil { // they are told apart by their numbers
		h.timeout += start
		if h.limit.Active() {
			h.due += start
			shift(h.limit, start)
		}
		own := program.Clone()
		own.PreStart, own.PostStop = r.program.PreStart, r.program.PostStop
		program = own
	}
	// A newline on a descriptor is waited for without any interval, and only once.
	ready := !reflect.DeepEqual(r.program.Ready, program.Ready) && (program.Ready == nil || program.Ready.FD == 0)
	health := !reflect.DeepEqual(r.program.Health, program.Health)
	if r.program = program; r.hook == nil { // else it is no configuration's
		r.config = in.sup.configNumber
	}
	shift(r.startLimit, start)
	if w := r.readiness; w != nil {
		r.startDeadline += start
		shift(w.due, start)
	}
	switch {
	case ready && r.readiness != nil:
		in.awaitReady(r.startDeadline)
	case health && in.machine.state == Running:
		in.attend()
	}
	if r.stopTimer.Active() {
		r.stopDeadline += stop
		shift(r.stopTimer, stop)
	}
	if c := r.clearing; c != nil && c.due.Active() {
		r.clearBy += stop
		shift(c.due, stop)
	}
}

// judgeAnew has an instance that is wanted up, and has ended, do what its table as it is now says of that end.
func (in *instance) judgeAnew(before *config.Program) {
	m, p := &in.machine, in.program
	e := in.lastExit
	success := !m.notStarted && !m.amiss && e != nil && e.success(p)
	start := func() { in.do(func() []Effect { return m.wantUp(byChange, false) }) }
	if before.Scheduled() != p.Scheduled() {
		if m.state == Waiting || m.state == Exited || m.state == Failed {
			start() // or wait for the schedule that it has got
			return
		}
		m.owed = true // it has got a schedule, and a run is under way
	}
	switch m.state {
	case Clearing:
		m.reconsider(before, success)
	case Backoff:
		switch {
		case m.starved: // that is tried again whatever the policy
		case success && p.Restart != config.RestartAlways:
			in.do(func() []Effect { return m.rest(EndDone) })
		case p.Restart == config.RestartNever:
			in.do(func() []Effect { return m.rest(EndFinal) })
		case p.Backoff != before.Backoff:
			m.delay = restartDelay(p.Backoff, m.attempts, m.rng)
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
				m.conclude(EndFinal)
				in.tryNoMore()
			}
		case before.Restart == config.RestartNever, m.gaveUp && p.StartLimit.Failures == 0:
			start()
		case m.gaveUp && p.StartLimit.RetryAfter != before.StartLimit.RetryAfter:
			if m.verdict = m.slowly(); m.verdict == EndFinal {
				in.tryNoMore()
				return
			}
			in.perform(Disarm)
			in.armRestart(in.sinceAt + m.delay - in.sup.loop.Now())
		}
	}
}

// tryNoMore has an instance that has given up stay down.
func (in *instance) tryNoMore() {
	in.perform(Disarm)
	in.sup.endedForGood(in)
}
