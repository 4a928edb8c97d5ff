package instance

import (
	"fmt"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/schedule"
	"superd/procs/snapshot"
)

// A scheduleState is the progress of the schedule of an instance.
type scheduleState struct {
	in      *Instance
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
		return
	}
	v.Schedule, v.DueFor, v.Skipped = sc.State(), sc.dueFor, sc.skipped
}

// restoreSchedule returns the progress of the schedule in the record of an instance; nil without
// any. The schedule is not active.
func restoreSchedule(in *Instance, v *snapshot.Instance) *scheduleState {
	if v.Schedule == nil {
		return nil
	}
	return &scheduleState{in: in, saved: v.Schedule, dueFor: v.DueFor, skipped: v.Skipped}
}

// UpdateSchedule makes the program's schedule active exactly while the instance is wanted up. It is
// called whenever the desired state or the program may have changed.
func (in *Instance) UpdateSchedule() {
	if !in.Program.Scheduled() {
		in.Schedule.suspend()
		in.Schedule = nil
		return
	}
	if in.Schedule == nil {
		in.Schedule = &scheduleState{in: in, saved: in.Env.Schedules.Take(in.Name)}
	}
	sc := in.Schedule
	switch {
	case !in.Machine.Desired().Up || in.Membership.Leaves():
		sc.suspend()
		if in.Machine.Desired().By.Kind != fsm.ActorShutdown {
			sc.saved = nil
		}
		return
	case sc.scope != nil && sc.program == in.Program:
		return
	}
	sc.suspend()
	sc.program, sc.scope = in.Program, in.Scope.Child()
	spec := schedule.Spec{
		Line:   in.Program.Schedule,
		Skip:   in.Program.ScheduleMissed == config.MissedSkip,
		Jitter: in.Program.ScheduleJitter,
	}
	var err error
	sc.entry, err = in.Env.Schedules.Add(sc.scope, in.Name, spec, sc.saved, sc.onDue)
	if err != nil {
		// Config has refused such a line
		in.Env.Log.Error("schedule not set", "instance", in.Name, "error", err)
	}
}

// suspend makes the schedule inactive and saves its progress. sc may be nil.
func (sc *scheduleState) suspend() {
	if sc == nil || sc.scope == nil {
		return
	}
	sc.saved = sc.State()
	sc.scope.Close()
	sc.scope, sc.entry = nil, nil
}

// State returns the progress of the schedule; nil without any.
func (sc *scheduleState) State() *schedule.State {
	if sc == nil {
		return nil
	}
	if sc.entry == nil {
		return sc.saved
	}
	return new(sc.entry.State())
}

// onDue handles a time of the schedule that is due, or was missed.
func (sc *scheduleState) onDue(r schedule.Run) {
	in := sc.in
	m := &in.Machine
	sc.dueFor = r.At
	why := fsm.ReasonScheduleDue.With(clockTime(r.At))
	if r.MadeUp {
		why.Kind = fsm.ReasonScheduleMadeUp
	}
	switch {
	case r.MadeUp && in.Program.ScheduleMissed == config.MissedSkip:
		sc.recordSkip(fsm.ReasonSkippedMissed.With(
			fmt.Sprintf("schedule_missed = %q", config.MissedSkip)))
	case in.Quarantine != nil:
		sc.recordSkip(m.StateReason())
	case m.RunPending() || m.State() != fsm.Waiting:
		if sc.skipped++; sc.skipped == 1 {
			sc.recordSkip(fsm.ReasonSkippedOverlap.With(m.StateReason().String()))
		}
	default:
		in.Apply(m.Trigger(why, in.Conditions()))
	}
	in.Save()
	in.Env.Owner.Changed()
}

// recordSkip records that the time that is due is skipped.
func (sc *scheduleState) recordSkip(why fsm.Reason) {
	in := sc.in
	at := clockTime(sc.dueFor)
	in.Env.Log.Warn("scheduled run skipped", "instance", in.Name, "due_at", at,
		"reason", why.String())
	e := eventlog.WithReason(eventlog.Event{Kind: eventlog.Skip}, why)
	e.Reason = "due at " + at + ": " + e.Reason
	in.Record(e)
}

// recordSkipped records how many times were skipped during a run that has ended. The first one was
// recorded when it was due. sc may be nil.
func (sc *scheduleState) recordSkipped() {
	if sc == nil || sc.skipped == 0 || sc.in.Machine.RunPending() {
		return
	}
	if sc.skipped > 1 {
		sc.in.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Skip}, fsm.ReasonSkippedInAll.With(
			fmt.Sprintf("%d due times in all during one run, the last at %s",
				sc.skipped, clockTime(sc.dueFor)))))
	}
	sc.skipped = 0
}

// next returns the time of the next scheduled run. ok is false unless the instance waits for its
// schedule, and if the schedule has no further time. sc may be nil.
func (sc *scheduleState) next() (at time.Time, remaining time.Duration, ok bool) {
	if sc == nil || sc.entry == nil || !sc.in.AwaitsTrigger() {
		return time.Time{}, 0, false
	}
	return sc.entry.Next()
}

// nextText returns the time of the next scheduled run as text.
func (sc *scheduleState) nextText() string {
	at, _, ok := sc.next()
	if !ok {
		return "its schedule has no further time"
	}
	return "next run at " + clockTime(at)
}

// clockTime returns a time of a schedule as text, in local time.
func clockTime(t time.Time) string { return t.Local().Round(time.Second).Format(time.DateTime) }
