package procs

import (
	"superd/procs/counters"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/snapshot"
)

// A selfRecord keeps the record of superd itself, which consists of what these parts have, and the
// last records.
type selfRecord struct {
	*platform
	registry   *registry
	recorder   *handover.Recorder
	shutdown   *shutdown
	config     *configState
	exitPolicy *exitPolicy
	rolls      *rolls

	totals        counters.Totals
	leavesRecords bool // see [Supervisor.LeavesRecords]
}

// save queues the record of superd itself.
func (s *selfRecord) save() {
	if !s.recorder.Ended() {
		s.recorder.Queue(snapshot.SuperdKey, s.snapshot())
	}
}

// snapshot returns the record of superd itself, from the parts that have durable fields.
func (s *selfRecord) snapshot() *snapshot.Superd {
	v := &snapshot.Superd{Shutdown: s.shutdown.snapshot()}
	s.config.snapshot(v)
	s.exitPolicy.snapshot(v)
	return v
}

// restore sets the parts to the record of a predecessor. It reports whether the predecessor's
// configuration is known.
func (s *selfRecord) restore(r *snapshot.Snapshot) (known bool) {
	s.recorder.SetStarts(r.LastStart)
	s.Schedules.Restore(r.Schedules)
	s.totals = r.Totals
	v := r.Superd
	v.Begun = v.Begun || r.Lives()
	if !s.options.Predecessor.Resumed {
		v.Shutdown = nil // it is undone
	}
	known = s.config.restore(&v, r.Configs[r.Oldest()])
	s.shutdown.restore(v.Shutdown)
	s.exitPolicy.restore(&v)
	return known
}

// count adds readings of all instances to the totals, and queues these if they differ.
func (s *selfRecord) count(readings []counters.Reading) counters.Totals {
	next, changed := s.totals.Add(readings)
	if changed && !s.recorder.Ended() {
		s.recorder.Queue(snapshot.TotalsKey, next)
	}
	s.totals = next
	return next
}

// saveEnd removes all records except the state of schedules and the programs that an operator has
// stopped: a program stopped by `superd ctl stop` stays stopped until `superd ctl start`.
func (s *selfRecord) saveEnd() {
	s.recorder.End()
	s.leavesRecords = false
	for _, in := range s.registry.instances {
		if state := in.Schedule.State(); state != nil {
			s.leavesRecords = true
			s.recorder.Queue(snapshot.ScheduleKey(in.Name), state)
		}
		desired := in.Machine.Desired()
		if before, ok := in.Machine.DesiredBeforeShutdown(); ok {
			desired = before
		}
		if in.Membership.Leaves() || desired != (fsm.Target{Up: false, By: fsm.By(fsm.ActorOperator)}) {
			s.recorder.Queue(snapshot.InstanceKey(in.Name), nil)
			continue
		}
		s.leavesRecords = true
		s.recorder.Queue(snapshot.InstanceKey(in.Name), &snapshot.Instance{
			State: fsm.Stopped.Name(), Outcome: fsm.RunEndedDown.OutcomeName(), Desired: desired.Snapshot(),
			StateReason: fsm.ReasonStopped.With(desired.By.String()).Snapshot(), Since: in.Since(),
		})
	}
	for program := range s.rolls.all {
		s.recorder.Queue(snapshot.RollKey(program), nil)
	}
	s.config.removeRecords()
	s.recorder.Queue(snapshot.TotalsKey, nil)
	s.recorder.Queue(snapshot.SuperdKey, &snapshot.Superd{Ended: true})
}
