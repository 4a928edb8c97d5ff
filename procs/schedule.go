package procs

import (
	"fmt"
	"hash/fnv"
	"maps"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/schedule"
	"superd/procs/snapshot"
)

// schedules has the table of all schedules in force, and the progress of those that a predecessor
// saved and no instance has taken yet.
type schedules struct {
	*platform
	recorder *recorder
	table    *schedule.Table           // nil before the first schedule is in force
	saved    map[string]schedule.State // by instance
}

func newSchedules(p *platform, rec *recorder) *schedules {
	return &schedules{platform: p, recorder: rec, saved: map[string]schedule.State{}}
}

// restore sets the progress that a predecessor saved, by instance.
func (c *schedules) restore(saved map[string]schedule.State) { maps.Copy(c.saved, saved) }

// ensureTable returns the table of all schedules, and creates it on first use.
func (c *schedules) ensureTable() *schedule.Table {
	if c.table == nil {
		c.table = schedule.NewTable(c.scope, c.options.Identity.BootID, func(err error) {
			c.log.Warn("schedules notice late when the clock is set or the machine sleeps", "error", err)
		})
	}
	return c.table
}

// seed returns the seed of an instance's schedule jitter. It differs between machines.
func (c *schedules) seed(instance string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(c.options.Identity.Machine + "\x00" + instance))
	return h.Sum64()
}

// take returns the progress of the schedule that a predecessor saved for the instance, once; nil
// without any.
func (c *schedules) take(instance string) *schedule.State {
	state, ok := c.saved[instance]
	if !ok {
		return nil
	}
	c.drop(instance)
	return &state
}

// drop deletes the progress of the schedule that a predecessor saved for the instance.
func (c *schedules) drop(instance string) {
	delete(c.saved, instance)
	c.recorder.queue(snapshot.ScheduleKey(instance), nil)
}

// A scheduleState is the progress of the schedule of an instance.
type scheduleState struct {
	program *config.Program // program whose schedule is active
	scope   *loop.Scope     // nil while no schedule is active, as the instance is wanted down
	entry   *schedule.Entry
	// Progress from which an activated schedule continues; nil: it begins
	saved   *schedule.State
	dueFor  time.Time // latest time of the schedule that was due; zero before the first
	skipped int       // due times that were skipped during the current run
}

// snapshot sets the progress of the schedule in the record of its instance. sc may be nil.
func (sc *scheduleState) snapshot(v *snapshot.Instance) {
	if sc == nil {
		v.RunPending = false // has no meaning without a schedule
		return
	}
	v.Schedule, v.DueFor, v.Skipped = sc.state(), sc.dueFor, sc.skipped
}

// restoreSchedule returns the progress of the schedule in the record of an instance; nil without
// any. The schedule is not active.
func restoreSchedule(v *snapshot.Instance) *scheduleState {
	if v.Schedule == nil {
		return nil
	}
	return &scheduleState{saved: v.Schedule, dueFor: v.DueFor, skipped: v.Skipped}
}

// updateSchedule makes the program's schedule active exactly while the instance is wanted up. It is
// called whenever the desired state or the program may have changed.
func (in *instance) updateSchedule() {
	if !in.program.Scheduled() {
		in.suspendSchedule()
		in.schedule = nil
		return
	}
	if in.schedule == nil {
		in.schedule = &scheduleState{saved: in.sup.schedules.take(in.name)}
	}
	sc := in.schedule
	switch {
	case !in.machine.Desired().Up || in.membership.Leaves():
		in.suspendSchedule()
		if in.machine.Desired().By.Kind != fsm.ActorShutdown {
			sc.saved = nil
		}
		return
	case sc.scope != nil && sc.program == in.program:
		return
	}
	in.suspendSchedule()
	sc.program, sc.scope = in.program, in.scope.Child()
	spec := schedule.Spec{
		Line:   in.program.Schedule,
		Skip:   in.program.ScheduleMissed == config.MissedSkip,
		Jitter: in.program.ScheduleJitter,
		Seed:   in.sup.schedules.seed(in.name),
	}
	var err error
	if sc.entry, err = in.sup.schedules.ensureTable().Add(sc.scope, spec, sc.saved, in.onScheduleDue); err != nil {
		// Config has refused such a line
		in.sup.log.Error("schedule not set", "instance", in.name, "error", err)
	}
}

// suspendSchedule makes the schedule inactive and saves its progress.
func (in *instance) suspendSchedule() {
	sc := in.schedule
	if sc == nil || sc.scope == nil {
		return
	}
	sc.saved = sc.state()
	sc.scope.Close()
	sc.scope, sc.entry = nil, nil
}

// state returns the progress of the schedule; nil without any.
func (sc *scheduleState) state() *schedule.State {
	if sc == nil || sc.entry == nil {
		if sc == nil {
			return nil
		}
		return sc.saved
	}
	return new(sc.entry.State())
}

// onScheduleDue handles a time of the schedule that is due, or was missed.
func (in *instance) onScheduleDue(r schedule.Run) {
	sc, m := in.schedule, &in.machine
	sc.dueFor = r.At
	why := fsm.ReasonScheduleDue.With(clockTime(r.At))
	if r.MadeUp {
		why.Kind = fsm.ReasonScheduleMadeUp
	}
	switch {
	case r.MadeUp && in.program.ScheduleMissed == config.MissedSkip:
		in.recordSkip(fsm.ReasonSkippedMissed.With(
			fmt.Sprintf("schedule_missed = %q", config.MissedSkip)))
	case in.quarantine != nil:
		in.recordSkip(m.StateReason())
	case m.RunPending() || m.State() != fsm.Waiting:
		if sc.skipped++; sc.skipped == 1 {
			in.recordSkip(fsm.ReasonSkippedOverlap.With(m.StateReason().String()))
		}
	default:
		in.apply(m.ScheduleDue(why, in.conditions()))
	}
	in.save()
	in.sup.subscriptions.changed()
}

// recordSkip records that the time that is due is skipped.
func (in *instance) recordSkip(why fsm.Reason) {
	at := clockTime(in.schedule.dueFor)
	in.sup.log.Warn("scheduled run skipped", "instance", in.name, "due_at", at,
		"reason", why.String())
	e := because(eventlog.Event{Kind: eventlog.Skip}, why)
	e.Reason = "due at " + at + ": " + e.Reason
	in.record(e)
}

// recordSkipped records how many times were skipped during a run that has ended. The first one was
// recorded when it was due.
func (in *instance) recordSkipped() {
	sc := in.schedule
	if sc == nil || sc.skipped == 0 || in.machine.RunPending() {
		return
	}
	if sc.skipped > 1 {
		in.record(because(eventlog.Event{Kind: eventlog.Skip}, fsm.ReasonSkippedInAll.With(
			fmt.Sprintf("%d due times in all during one run, the last at %s",
				sc.skipped, clockTime(sc.dueFor)))))
	}
	sc.skipped = 0
}

// nextRun returns the time of the next scheduled run. ok is false unless the instance waits for its
// schedule, and if the schedule has no further time.
func (in *instance) nextRun() (at time.Time, remaining time.Duration, ok bool) {
	if !in.awaitsSchedule() || in.schedule == nil || in.schedule.entry == nil {
		return time.Time{}, 0, false
	}
	return in.schedule.entry.Next()
}

// waitReason returns the reason of the state waiting, without the time of the next run.
func (in *instance) waitReason() fsm.Reason {
	switch {
	case !in.awaitsSchedule():
		return in.blockedReason()
	case in.machine.ExitReason().Kind != fsm.ReasonNone:
		return fsm.ReasonWaitsForSchedule.With(in.machine.ExitReason().String())
	}
	return fsm.ReasonWaitsForSchedule.With("waits for its schedule")
}

// nextRunText returns the time of the next scheduled run as text.
func (in *instance) nextRunText() string {
	at, _, ok := in.nextRun()
	if !ok {
		return "its schedule has no further time"
	}
	return "next run at " + clockTime(at)
}

// awaitsSchedule reports whether the instance waits for its schedule. Other blockers matter only
// when a time of the schedule is due.
func (in *instance) awaitsSchedule() bool {
	return in.machine.State() == fsm.Waiting && in.machine.AwaitsSchedule()
}

// clockTime returns a time of a schedule as text, in local time.
func clockTime(t time.Time) string { return t.Local().Round(time.Second).Format(time.DateTime) }
