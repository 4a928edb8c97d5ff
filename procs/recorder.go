package procs

import (
	"time"

	"superd/logs"
	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/snapshot"
)

// A Journal stores values for a successor. [superd/procs/journal.Journal] implements it.
type Journal interface {
	Put(key string, value any) error // writes before it returns; called off the loop
	// In order, after Write. value must not change any more; nil removes key. A func() []byte
	// returns JSON.
	Queue(key string, value any)
	QueueFirst(key string, value any) // as Queue, but before all that is queued
	Write()                           // writes the queue soon
	// calls done when all that was queued is written, or with the error; on any goroutine
	Flush(done func(error))
}

// A noopJournal stores nothing.
type noopJournal struct{}

func (noopJournal) Put(string, any) error  { return nil }
func (noopJournal) Queue(string, any)      {}
func (noopJournal) QueueFirst(string, any) {}
func (noopJournal) Write()                 {}
func (noopJournal) Flush(done func(error)) { done(nil) }

// writePause is the time, from the end of the turn that queued them, in which queued records are
// batched into one write. If superd is killed in that time, a successor has the previous state.
const writePause = 2 * time.Millisecond

// A recorder writes what a successor and the operator must know: the journal and the event log. It
// batches the records of a turn, and runs callbacks when the journal has them.
type recorder struct {
	*platform
	journal  Journal
	timer    *loop.Timer // writes what is queued; nil: nothing was queued so far
	recorded recordQueue // callbacks that wait for the journal
	starts   uint64      // number of starts so far
	// Called before and after records are passed on; neither is nil
	beforeWrite, afterWrite func()

	ended         bool // the end of superd is recorded: no further state is
	leavesRecords bool // see [Supervisor.LeavesRecords]
}

func newRecorder(p *platform) *recorder {
	r := &recorder{platform: p, journal: p.options.Journal}
	if r.journal == nil {
		r.journal = noopJournal{}
	}
	return r
}

// Events implements [Records].
func (r *recorder) Events() bool { return r.options.Events != nil }

// NextStart implements [Records].
func (r *recorder) NextStart() uint64 {
	r.starts++
	return r.starts
}

// Put implements [Records].
func (r *recorder) Put(key string, value any) error { return r.journal.Put(key, value) }

// QueueFirst implements [Records].
func (r *recorder) QueueFirst(key string, value any) {
	r.journal.QueueFirst(key, value)
	r.WriteSoon()
}

// Ended implements [Records].
func (r *recorder) Ended() bool { return r.ended }

// Queue queues the value of key for the journal, or its removal for nil.
func (r *recorder) Queue(key string, value any) {
	r.journal.Queue(key, value)
	r.WriteSoon()
}

// WriteSoon writes all that is queued for journal and event log after writePause. Batching lets
// spawning continue without waking the writer for each record.
func (r *recorder) WriteSoon() {
	switch {
	case r.timer == nil:
		r.timer = r.Scope.After(writePause, r.write)
	case !r.timer.Active():
		r.timer.Reset(writePause)
	}
}

// write passes all that is queued to their writers: first what beforeWrite has, then the event log,
// then the journal. It does not wait for them.
func (r *recorder) write() {
	r.timer.Stop()
	r.beforeWrite()
	r.writeEvents()
	r.journal.Write()
	if r.options.OnWrite != nil {
		r.options.OnWrite()
	}
	r.afterWrite()
}

// writeEvents writes the queue of the event log. It comes before the journal, since events that
// precede the journal's state are not recorded again.
func (r *recorder) writeEvents() {
	if r.options.Events != nil {
		r.options.Events.Write()
	}
}

// AfterSaving runs f on the loop when the current state is in the journal, or with the error.
func (r *recorder) AfterSaving(f func(unrecorded error)) {
	r.writeEvents()
	r.journal.Flush(func(err error) { r.Scope.Post(func() { f(err) }) })
}

// AfterTurn runs f on the loop when the state at the end of this turn is in the journal, or could
// not be written.
func (r *recorder) AfterTurn(f func()) {
	r.Scope.Post(func() { r.AfterSaving(func(error) { f() }) })
}

// afterRecorded runs f on the loop when the state at the end of this turn is in the journal. f may
// then drop what the keeper stores: while the journal can't be written, as with a full file system,
// only the keeper has it for a successor.
func (r *recorder) afterRecorded(f func()) {
	r.recorded.waiting = append(r.recorded.waiting, f)
	if !r.recorded.busy {
		r.recorded.busy = true
		r.Scope.Post(r.runRecorded)
	}
}

// runRecorded runs the waiting callbacks when the journal is written. If a write fails, it retries
// after recordPause.
func (r *recorder) runRecorded() {
	q := &r.recorded
	all := q.waiting
	q.waiting = nil
	r.AfterSaving(func(unrecorded error) {
		if unrecorded != nil {
			q.waiting = append(all, q.waiting...)
			r.Scope.After(recordPause, r.runRecorded)
			return
		}
		for _, f := range all {
			f()
		}
		if q.busy = len(q.waiting) > 0; q.busy {
			r.Scope.Post(r.runRecorded)
		}
	})
}

// recordPause is the delay before a failed write to the journal is retried.
const recordPause = time.Second

// A recordQueue holds callbacks until the state as of their call is in the journal.
type recordQueue struct {
	waiting []func()
	busy    bool // a flush is under way, or a retry is pending
}

// saveSelf queues the record of superd itself.
func (s *Supervisor) saveSelf() {
	if !s.recorder.ended {
		s.recorder.Queue(snapshot.SuperdKey, s.snapshot())
	}
}

// snapshot returns the record of superd itself, from the parts that have durable fields.
func (s *Supervisor) snapshot() *snapshot.Superd {
	v := &snapshot.Superd{Shutdown: s.shutdown.snapshot()}
	s.config.snapshot(v)
	s.exitPolicy.snapshot(v)
	return v
}

// restore sets the parts to the record of a predecessor. It reports whether the predecessor's
// configuration is known.
func (s *Supervisor) restore(r *snapshot.Snapshot) (known bool) {
	s.recorder.starts = r.LastStart
	s.Schedules.Restore(r.Schedules)
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

// saveEnd removes all records except the state of schedules and the programs that an operator has
// stopped: a program stopped by `superd ctl stop` stays stopped until `superd ctl start`.
func (s *Supervisor) saveEnd() {
	s.recorder.ended = true
	s.recorder.leavesRecords = false
	for _, in := range s.registry.instances {
		if state := in.Schedule.State(); state != nil {
			s.recorder.leavesRecords = true
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
		s.recorder.leavesRecords = true
		s.recorder.Queue(snapshot.InstanceKey(in.Name), &snapshot.Instance{
			State: fsm.Stopped.Name(), Outcome: fsm.RunEndedDown.OutcomeName(), Desired: desired.Snapshot(),
			StateReason: fsm.ReasonStopped.With(desired.By.String()).Snapshot(), Since: in.SinceAt,
		})
	}
	s.config.removeRecords()
	s.recorder.Queue(snapshot.SuperdKey, &snapshot.Superd{Ended: true})
}

// LeavesRecords reports whether records for a successor remain after an orderly end.
func (s *Supervisor) LeavesRecords() bool { return s.recorder.leavesRecords }

// saveDrops records the output that the collector has dropped, until no more is dropped.
func (s *Supervisor) saveDrops(c *logs.Collector) {
	in := s.registry.byName[c.Name()]
	if in == nil || &in.Output.Collector != c {
		return
	}
	was := c.Drops()
	in.Save()
	s.recorder.AfterSaving(func(unrecorded error) {
		switch {
		case unrecorded != nil: // one retry serves all drops
			s.Scope.After(recordPause, func() { s.saveDrops(c) })
		case c.DropsSaved(was):
			s.saveDrops(c)
		}
	})
}

// saveOutputStart saves where the output of a run begins in its log, then calls saved. The output
// is written only after that. So a successor finds the line that reports readiness even if this
// superd was killed after it wrote the line and before it read it. It may be called from any
// goroutine.
func (s *Supervisor) saveOutputStart(at logs.RunStart, saved func()) {
	s.Scope.Post(func() {
		if in := s.registry.byName[at.Instance]; in != nil {
			in.SetOutputStart(at)
		}
		s.recorder.writeEvents()
		s.recorder.journal.Flush(func(error) { saved() })
	})
}
