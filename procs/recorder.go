package procs

import (
	"sync/atomic"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/fsm"
)

// A Journal stores values for a successor. [superd/procs/journal.Journal] implements it.
type Journal interface {
	Put(key string, value any) error // writes before it returns; called off the loop
	// in order, after Write; value must not change any more; nil removes key
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

// queue queues the value of key for the journal, or its removal for nil.
func (r *recorder) queue(key string, value any) {
	r.journal.Queue(key, value)
	r.writeSoon()
}

// writeSoon writes all that is queued for journal and event log after writePause. Batching lets
// spawning continue without waking the writer for each record.
func (r *recorder) writeSoon() {
	switch {
	case r.timer == nil:
		r.timer = r.scope.After(writePause, r.write)
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

// afterSaving runs f on the loop when the current state is in the journal, or with the error.
func (r *recorder) afterSaving(f func(unrecorded error)) {
	r.writeEvents()
	r.journal.Flush(func(err error) { r.scope.Post(func() { f(err) }) })
}

// afterTurn runs f on the loop when the state at the end of this turn is in the journal, or could
// not be written.
func (r *recorder) afterTurn(f func()) {
	r.scope.Post(func() { r.afterSaving(func(error) { f() }) })
}

// afterRecorded runs f on the loop when the state at the end of this turn is in the journal. f may
// then drop what the keeper stores: while the journal can't be written, as with a full file system,
// only the keeper has it for a successor.
func (r *recorder) afterRecorded(f func()) {
	r.recorded.waiting = append(r.recorded.waiting, f)
	if !r.recorded.busy {
		r.recorded.busy = true
		r.scope.Post(r.runRecorded)
	}
}

// runRecorded runs the waiting callbacks when the journal is written. If a write fails, it retries
// after recordPause.
func (r *recorder) runRecorded() {
	q := &r.recorded
	all := q.waiting
	q.waiting = nil
	r.afterSaving(func(unrecorded error) {
		if unrecorded != nil {
			q.waiting = append(all, q.waiting...)
			r.scope.After(recordPause, r.runRecorded)
			return
		}
		for _, f := range all {
			f()
		}
		if q.busy = len(q.waiting) > 0; q.busy {
			r.scope.Post(r.runRecorded)
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

// save queues the instance's record.
func (in *instance) save() {
	if in.scope.Closed() || in.sup.recorder.ended {
		return
	}
	in.sup.recorder.queue(instanceKey(in.name), in.saved())
}

// saved returns the instance's record. It shares no mutable data.
func (in *instance) saved() *savedInstance {
	v := &savedInstance{
		Config: in.sup.config.number, Removed: in.membership.Leaves(), Quarantined: in.quarantine != nil,
		Since: in.sinceAt, LastCompletedStart: in.lastCompletedStart, Drain: in.drainingRun, Tree: in.tree.Path(),
	}
	v.setMachine(in.machine.Snapshot())
	if sc := in.schedule; sc != nil {
		v.Schedule, v.DueFor, v.Skipped = sc.state(), sc.dueFor, sc.skipped
	} else {
		v.RunPending = false // has no meaning without a schedule
	}
	v.Output, v.FDName = in.collector.FD(logs.Stdout) >= 0, in.fifoNames[logs.Stdout].String()
	v.Stderr, v.StderrFDName = in.collector.FD(logs.Stderr) >= 0, in.fifoNames[logs.Stderr].String()
	if d := in.collector.Drops(); d != (logs.Drops{}) {
		v.Dropped = &d
	}
	if in.inputFIFO != nil {
		v.Input, v.InputFDName = true, in.inputFIFO.fdName
	}
	if in.membership.Leaves() {
		v.Definition = validDefinition(in.program)
	}
	if in.execProbe != nil {
		v.Probes = in.execProbe.tree.Path()
	}
	if desired := in.replacementTarget; desired != nil {
		v.ReplacementTarget = new(desired.Snapshot())
	}
	if t := in.restartTimer; t != nil {
		v.Due = new(t.Due())
	}
	if e := in.lastExit; e != nil {
		v.Exit = &savedExit{Known: e.Known, Code: e.Code, Signal: e.signal, At: e.at}
	}
	if in.run != nil {
		v.Run = in.run.saved(in)
	}
	return v
}

func (r *run) saved(in *instance) *savedRun {
	v := &savedRun{
		ID: r.invocationID, Outdated: in.machine.Outdated(), HadProcess: r.hadProcess, StartedAt: r.startedAt, ReadyAt: r.readyAt, StartDeadline: r.startDeadline, Group: int(r.group), OOMKills: int(r.oomKills), EnvSum: r.envSum,
		StopDeadline: r.stopDeadline, TeardownDeadline: r.teardownDeadline, PreStarted: r.preStarted, PostStopped: r.postStopped,
	}
	v.StopLimit, v.Notify, v.Ready, v.StatusText, v.Watchdog = r.stopLimit, r.notifyFDName, r.readyFDName, r.statusText, r.watchdogPeriod
	if r.readyAt == 0 {
		v.PrintsFrom, v.StderrFrom = r.outputStart[logs.Stdout], r.outputStart[logs.Stderr]
	}
	if r.reloadTimer.Active() {
		v.Reloading = new(r.reloadTimer.Due())
	}
	if r.ownStopTimer.Active() {
		v.Leaving = new(r.ownStopTimer.Due())
	}
	if v.Health = r.savedHealth; r.monitor != nil {
		v.Health = r.monitor.saved()
	}
	if r.program != in.program {
		v.Definition = validDefinition(r.program)
	}
	if r.process != nil {
		v.Main = savedIdentity(r.id, r.fdName.String())
	}
	if h := r.hook; h != nil {
		v.Hook = &savedHook{At: h.at, Stopped: h.stopped || h.killWhenStarted, Due: h.due, Timeout: h.timeout}
		if h.failed != nil {
			v.Hook.Failed = h.failed.Error()
		}
		if h.process != nil {
			v.Hook.Process = savedIdentity(h.id, h.fdName)
		}
	}
	return v
}

// saveDrops records the output that the collector has dropped, until no more is dropped.
func (s *Supervisor) saveDrops(c *logs.Collector) {
	in := s.registry.byName[c.Name()]
	if in == nil || &in.collector != c {
		return
	}
	was := c.Drops()
	in.save()
	s.recorder.afterSaving(func(unrecorded error) {
		switch {
		case unrecorded != nil: // one retry serves all drops
			s.scope.After(recordPause, func() { s.saveDrops(c) })
		case c.DropsSaved(was):
			s.saveDrops(c)
		}
	})
}

func savedIdentity(id pidfd.Identity, storedName string) *savedProcess {
	return &savedProcess{Pid: id.Pid, Start: id.Start, Inode: id.Inode, FDName: storedName}
}

// validDefinition returns a program's definition without its mistakes: a program that was started
// has none.
func validDefinition(p *config.Program) *config.Program {
	table := *p
	table.Invalid = nil
	return &table
}

// A startRecord is the journal's record of a start that is about to happen. A worker writes it.
type startRecord struct {
	in      *instance
	key     string
	value   savedStart
	written atomic.Bool
	// The descriptors created for it are in the store; owned by the worker until it returns
	stored bool
}

// newStartRecord returns the start record of the run's main process, or of its current hook.
func (in *instance) newStartRecord(r *run) *startRecord {
	in.sup.recorder.starts++
	record := &startRecord{in: in, key: startKey(in.name, in.sup.recorder.starts), value: savedStart{Run: r.invocationID, Config: r.config, number: in.sup.recorder.starts}}
	record.value.Schedule = in.schedule.state()
	if r.hook != nil {
		record.value.Hook, record.value.PostStop = new(r.hook.at), in.machine.State() == fsm.TearingDown
	}
	return record
}

// logIntent records that a process is about to be started, not older than after (clock ticks since
// boot). It is called off the loop. After an error the process must not be started.
func (record *startRecord) logIntent(after uint64) error {
	record.written.Store(true)
	record.value.After = after
	return record.in.sup.recorder.journal.Put(record.key, &record.value)
}

// logSpawned records the process that was started. It is called off the loop. After an error a
// successor finds the process by its environment tags.
func (record *startRecord) logSpawned(id pidfd.Identity, at time.Duration) error {
	record.value.Process, record.value.At = savedIdentity(id, ""), at
	return record.in.sup.recorder.journal.Put(record.key, &record.value)
}

// startedAt returns when the process was forked, if that is recorded. That may be before the loop's
// turn began.
func (record *startRecord) startedAt() time.Duration {
	now := record.in.sup.loop.Now()
	if record.value.At == 0 {
		return now
	}
	return min(record.value.At, now)
}

// complete calls apply, which handles the result of the start, and removes the start record once
// the new state is saved. If the failed start was the last step of a removed instance, its start
// record is removed first: alone, it would be a start without a definition.
func (record *startRecord) complete(apply func()) {
	record.in.lastCompletedStart = record.value.number
	apply()
	switch {
	case !record.written.Load():
	case record.in.scope.Closed():
		record.in.sup.recorder.journal.QueueFirst(record.key, nil)
		record.in.sup.recorder.writeSoon()
	default:
		record.in.sup.recorder.queue(record.key, nil)
	}
}

// saveSelf queues the record of superd itself.
func (s *Supervisor) saveSelf() {
	if !s.recorder.ended {
		s.recorder.queue(superdKey, s.savedSelf())
	}
}

func (s *Supervisor) savedSelf() *savedSuperd {
	v := &savedSuperd{Config: s.config.number, Before: s.config.before, Begun: s.exitPolicy.begun}
	if s.shutdown.begun {
		v.Shutdown = &savedShutdown{Why: s.shutdown.why.Snapshot(), RequestedAt: s.shutdown.requestedAt,
			Hurry: s.shutdown.hurry, Status: s.exitPolicy.status}
	}
	return v
}

// saveEnd removes all records except the state of schedules and the programs that an operator has
// stopped: a program stopped by `superd ctl stop` stays stopped until `superd ctl start`.
func (s *Supervisor) saveEnd() {
	s.recorder.ended = true
	s.recorder.leavesRecords = false
	for _, in := range s.registry.instances {
		if state := in.schedule.state(); state != nil {
			s.recorder.leavesRecords = true
			s.recorder.queue(scheduleKey(in.name), state)
		}
		desired := in.machine.Desired()
		if before, ok := in.machine.DesiredBeforeShutdown(); ok {
			desired = before
		}
		if in.membership.Leaves() || desired != (fsm.Target{Up: false, By: fsm.By(fsm.ActorOperator)}) {
			s.recorder.queue(instanceKey(in.name), nil)
			continue
		}
		s.recorder.leavesRecords = true
		s.recorder.queue(instanceKey(in.name), &savedInstance{
			State: fsm.Stopped.Name(), Outcome: fsm.RunEndedDown.OutcomeName(), Desired: desired.Snapshot(),
			StateReason: fsm.ReasonStopped.With(desired.By.String()).Snapshot(), Since: in.sinceAt,
		})
	}
	s.config.removeRecords()
	s.recorder.queue(superdKey, &savedSuperd{Ended: true})
}

// LeavesRecords reports whether records for a successor remain after an orderly end.
func (s *Supervisor) LeavesRecords() bool { return s.recorder.leavesRecords }
