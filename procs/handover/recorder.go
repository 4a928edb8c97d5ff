// Package handover keeps what a successor gets: the records of journal and event log, and the
// descriptors in the descriptor store.
//
// A [Recorder] and its [FDKeeper] belong to the loop's goroutine, except where a method says
// otherwise. Both batch their work, and the Recorder writes it in an order that is safe whenever
// superd is killed: a descriptor is stored before the journal refers to it, and released when the
// journal does not any more.
package handover

import (
	"time"

	"superd/loop"
	"superd/procs/eventlog"
)

// RecorderOptions are what a [Recorder] needs.
type RecorderOptions struct {
	Loop    *loop.Loop
	Scope   *loop.Scope
	Journal Journal       // nil: no records for a successor
	Events  *eventlog.Log // nil: events are not recorded
	OnWrite func()        // writes other queued data when records are written; nil: nothing
}

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

// WritePause is the time, from the end of the turn that queued them, in which queued records are
// batched into one write. If superd is killed in that time, a successor has the previous state.
const WritePause = 2 * time.Millisecond

// RetryPause is the delay before a failed write to the journal is retried.
const RetryPause = time.Second

// A Recorder writes what a successor and the operator must know: the journal and the event log. It
// batches the records of a turn, and runs callbacks when the journal has them.
type Recorder struct {
	RecorderOptions
	timer    *loop.Timer // writes what is queued; nil: nothing was queued so far
	recorded recordQueue // callbacks that wait for the journal
	starts   uint64      // number of starts so far
	ended    bool        // the end of superd is recorded: no further state is
	// Called before and after records are passed on; an [FDKeeper] sets them
	beforeWrite, afterWrite func()
}

// NewRecorder returns a recorder that has no records yet. It writes after [NewFDKeeper] has got it.
func NewRecorder(o RecorderOptions) *Recorder {
	if o.Journal == nil {
		o.Journal = noopJournal{}
	}
	return &Recorder{RecorderOptions: o}
}

// HasEvents reports whether events are recorded.
func (r *Recorder) HasEvents() bool { return r.Events != nil }

// Record adds e to the event log, if there is one.
func (r *Recorder) Record(e eventlog.Event) {
	if r.Events == nil {
		return
	}
	if e.At.IsZero() {
		e.At = r.Loop.Wall()
	}
	r.Events.Queue(e)
	r.WriteSoon()
}

// RecordLater is Record for an event whose time is set. It may be called from any goroutine.
func (r *Recorder) RecordLater(e eventlog.Event) {
	if r.Events != nil {
		r.Events.Queue(e)
		r.Scope.Post(r.WriteSoon)
	}
}

// NextStart returns the number of the next start.
func (r *Recorder) NextStart() uint64 {
	r.starts++
	return r.starts
}

// SetStarts sets the number of starts so far, those of predecessors included.
func (r *Recorder) SetStarts(n uint64) { r.starts = n }

// End tells instances to record no further state, as what is to remain after superd is recorded.
func (r *Recorder) End() { r.ended = true }

// Ended reports whether the end of superd is recorded.
func (r *Recorder) Ended() bool { return r.ended }

// Put writes a record before it returns. It may be called from any goroutine.
func (r *Recorder) Put(key string, value any) error { return r.Journal.Put(key, value) }

// Queue queues the value of key for the journal, or its removal for nil.
func (r *Recorder) Queue(key string, value any) {
	r.Journal.Queue(key, value)
	r.WriteSoon()
}

// QueueFirst is Queue before all that is queued.
func (r *Recorder) QueueFirst(key string, value any) {
	r.Journal.QueueFirst(key, value)
	r.WriteSoon()
}

// WriteSoon writes all that is queued for journal and event log after WritePause. Batching lets
// spawning continue without waking the writer for each record.
func (r *Recorder) WriteSoon() {
	switch {
	case r.timer == nil:
		r.timer = r.Scope.After(WritePause, r.Write)
	case !r.timer.Active():
		r.timer.Reset(WritePause)
	}
}

// Write passes all that is queued to the writers: first descriptors to store, then the event log,
// then the journal. It does not wait for them.
func (r *Recorder) Write() {
	r.timer.Stop()
	r.beforeWrite()
	r.writeEvents()
	r.Journal.Write()
	if r.OnWrite != nil {
		r.OnWrite()
	}
	r.afterWrite()
}

// writeEvents writes the queue of the event log. It comes before the journal, since events that
// precede the journal's state are not recorded again.
func (r *Recorder) writeEvents() {
	if r.Events != nil {
		r.Events.Write()
	}
}

// Flush calls done when the current state is in the journal, or with the error; on any goroutine.
func (r *Recorder) Flush(done func(unrecorded error)) {
	r.writeEvents()
	r.Journal.Flush(done)
}

// AfterSaving is Flush, but runs f on the loop.
func (r *Recorder) AfterSaving(f func(unrecorded error)) {
	r.Flush(func(err error) { r.Scope.Post(func() { f(err) }) })
}

// AfterTurn runs f on the loop when the state at the end of this turn is in the journal, or could
// not be written.
func (r *Recorder) AfterTurn(f func()) {
	r.Scope.Post(func() { r.AfterSaving(func(error) { f() }) })
}

// AfterRecorded runs f on the loop when the state at the end of this turn is in the journal. f may
// then drop what the keeper stores: while the journal can't be written, as with a full file system,
// only the keeper has it for a successor.
func (r *Recorder) AfterRecorded(f func()) {
	r.recorded.waiting = append(r.recorded.waiting, f)
	if !r.recorded.busy {
		r.recorded.busy = true
		r.Scope.Post(r.runRecorded)
	}
}

// runRecorded runs the waiting callbacks when the journal is written. If a write fails, it retries
// after RetryPause.
func (r *Recorder) runRecorded() {
	q := &r.recorded
	all := q.waiting
	q.waiting = nil
	r.AfterSaving(func(unrecorded error) {
		if unrecorded != nil {
			q.waiting = append(all, q.waiting...)
			r.Scope.After(RetryPause, r.runRecorded)
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

// A recordQueue holds callbacks until the state as of their call is in the journal.
type recordQueue struct {
	waiting []func()
	busy    bool // a flush is under way, or a retry is pending
}
