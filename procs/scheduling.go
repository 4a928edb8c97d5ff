package procs

import (
	"fmt"
	"hash/fnv"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/schedule"
)

// A scheduling is what an instance has whose program has a schedule.
type scheduling struct {
	program *config.Program // whose schedule is in force
	scope   *loop.Scope     // nil: none is, while the instance is wanted down
	entry   *schedule.Entry
	before  *schedule.State // what the plan goes on with when it is in force again; nil: it begins anew
	dueFor  time.Time       // the time of the schedule that was due last, zero before the first
	skipped int             // how many times were due, and nothing was run, since the run that is under way began
}

// keepSchedule has the program's schedule in force while the instance is wanted up. It is called whenever that or the program may have changed.
func (in *instance) keepSchedule() {
	if !in.program.Scheduled() {
		in.dropSchedule()
		in.sched = nil
		return
	}
	if in.sched == nil {
		in.sched = &scheduling{before: in.sup.leftSchedule(in.name)}
	}
	sc := in.sched
	switch {
	case !in.machine.wanted.up || in.removed:
		in.dropSchedule()
		if in.machine.wanted.by != theShutdown {
			sc.before = nil
		}
		return
	case sc.scope != nil && sc.program == in.program:
		return
	}
	in.dropSchedule()
	sc.program, sc.scope = in.program, in.scope.Child()
	spec := schedule.Spec{
		Line:   in.program.Schedule,
		Skip:   in.program.ScheduleMissed == config.MissedSkip,
		Jitter: in.program.ScheduleJitter,
		Seed:   in.sup.scheduleSeed(in.name),
	}
	var err error
	if sc.entry, err = in.sup.scheduleTable().Add(sc.scope, spec, sc.before, in.due); err != nil {
		in.sup.log.Error("schedule not in force", "instance", in.name, "error", err) // config has refused such a line
	}
}

// dropSchedule has nothing become due any more. What the plan knows is kept.
func (in *instance) dropSchedule() {
	sc := in.sched
	if sc == nil || sc.scope == nil {
		return
	}
	sc.before = sc.state()
	sc.scope.Close()
	sc.scope, sc.entry = nil, nil
}

// state returns what is to be known of the plan; nil if there is nothing.
func (sc *scheduling) state() *schedule.State {
	if sc == nil || sc.entry == nil {
		if sc == nil {
			return nil
		}
		return sc.before
	}
	return new(sc.entry.State())
}

// due is told that a time of the schedule has come, or that one was missed.
func (in *instance) due(r schedule.Run) {
	sc, m := in.sched, &in.machine
	sc.dueFor = r.At
	why := "by its schedule, due at " + clockTime(r.At)
	if r.MadeUp {
		why = "by its schedule, to make up for " + clockTime(r.At)
	}
	switch {
	case r.MadeUp && in.program.ScheduleMissed == config.MissedSkip:
		in.skipDue(fmt.Sprintf("missed while the machine slept or superd did not run; schedule_missed = %q", config.MissedSkip))
	case in.held != nil:
		in.skipDue(m.cause)
	case m.owed || m.state != Waiting:
		if sc.skipped++; sc.skipped == 1 {
			in.skipDue("the run before is not over: " + m.cause)
		}
	default:
		in.do(func() []Effect { return m.scheduleDue(why) })
	}
	in.save()
	in.sup.changed()
}

// skipDue records that nothing is run for the time that was due.
func (in *instance) skipDue(why string) {
	at := clockTime(in.sched.dueFor)
	in.sup.log.Warn("scheduled run skipped", "instance", in.name, "due_at", at, "reason", why)
	in.record(eventlog.Event{Kind: eventlog.Skip, Reason: "due at " + at + ": " + why})
}

// tellSkipped records how many times were due since the run began that is over. The first one was recorded when it came.
func (in *instance) tellSkipped() {
	sc := in.sched
	if sc == nil || sc.skipped == 0 || in.machine.owed {
		return
	}
	if sc.skipped > 1 {
		in.record(eventlog.Event{Kind: eventlog.Skip, Reason: fmt.Sprintf("%d due runs in all while the one before was not over, the last at %s", sc.skipped, clockTime(sc.dueFor))})
	}
	sc.skipped = 0
}

// nextRun returns when the program runs next by itself, false while it doesn't wait for its schedule, or if that never comes.
func (in *instance) nextRun() (at time.Time, left time.Duration, ok bool) {
	if !in.awaitsSchedule() || in.sched == nil || in.sched.entry == nil {
		return time.Time{}, 0, false
	}
	return in.sched.entry.Next()
}

// waitCause tells why the instance waits, whatever the time is.
func (in *instance) waitCause() string {
	switch {
	case !in.awaitsSchedule():
		return in.waitReason()
	case in.machine.ending != "":
		return in.machine.ending
	}
	return "waits for its schedule"
}

// nextRunText says when the program runs next by itself.
func (in *instance) nextRunText() string {
	at, _, ok := in.nextRun()
	if !ok {
		return "its schedule never comes again"
	}
	return "next run at " + clockTime(at)
}

// awaitsSchedule reports whether the instance waits for its schedule. What else it may have to wait for matters when that has come.
func (in *instance) awaitsSchedule() bool {
	return in.machine.state == Waiting && in.machine.awaitsSchedule()
}

// clockTime shows a time of a schedule, by the machine's clock.
func clockTime(t time.Time) string { return t.Local().Round(time.Second).Format(time.DateTime) }

// scheduleTable returns the table of all schedules, made when the first one comes into force.
func (s *Supervisor) scheduleTable() *schedule.Table {
	if s.schedules == nil {
		s.schedules = schedule.NewTable(s.scope, s.options.BootID, func(err error) {
			s.log.Warn("a clock that is set, or a machine that sleeps, is noticed late by schedules", "error", err)
		})
	}
	return s.schedules
}

// scheduleSeed decides how late the runs of an instance are: on each machine it is another one.
func (s *Supervisor) scheduleSeed(instance string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s.options.Machine + "\x00" + instance))
	return h.Sum64()
}

// leftSchedule returns what an earlier superd has left of the instance's schedule, once; nil if there is nothing.
func (s *Supervisor) leftSchedule(instance string) *schedule.State {
	state, ok := s.leftSchedules[instance]
	if !ok {
		return nil
	}
	s.forgetSchedule(instance)
	return &state
}

// forgetSchedule is told that nobody needs any more what an earlier superd has left of the instance's schedule.
func (s *Supervisor) forgetSchedule(instance string) {
	delete(s.leftSchedules, instance)
	s.queue(scheduleKey(instance), nil)
}
