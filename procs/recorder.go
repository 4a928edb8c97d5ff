package procs

import (
	"time"

	"superd/loop"
)

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
	registry *registry
	journal  Journal
	timer    *loop.Timer // writes what is queued; nil: nothing was queued so far
	recorded recordQueue // callbacks that wait for the journal
	starts   uint64      // number of starts so far
	// Called before and after records are passed on; neither is nil
	beforeWrite, afterWrite func()

	ended         bool // the end of superd is recorded: no further state is
	leavesRecords bool // see [Supervisor.LeavesRecords]
}

func newRecorder(p *platform, reg *registry) *recorder {
	r := &recorder{platform: p, registry: reg, journal: p.options.Journal}
	if r.journal == nil {
		r.journal = noopJournal{}
	}
	return r
}

// Events implements [instance.Records].
func (r *recorder) Events() bool { return r.options.Events != nil }

// NextStart implements [instance.Records].
func (r *recorder) NextStart() uint64 {
	r.starts++
	return r.starts
}

// Put implements [instance.Records].
func (r *recorder) Put(key string, value any) error { return r.journal.Put(key, value) }

// QueueFirst implements [instance.Records].
func (r *recorder) QueueFirst(key string, value any) {
	r.journal.QueueFirst(key, value)
	r.WriteSoon()
}

// Ended implements [instance.Records].
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
