package procs

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/journal"
	"superd/procs/snapshot"
)

// A simJournal is the simulated journal. It writes queued values in order, with a delay; a crash of
// superd loses the rest.
type simJournal struct {
	h          *history
	writeDelay time.Duration
	session    *loop.Scope
	values     map[string]any // written values
	queue      []simEntry
	// When the first value was queued without a request to write it; 0: none
	unwritten  time.Duration
	batch      []simEntry // being written
	writing    bool       // whether a batch is being written
	writeAgain bool       // whether to write the queue after the batch
	stalled    bool       // whether writes are blocked
	// Called for each value that is written; may be nil
	onWrite func(key string, value any)
	// Draws which writes fail because the file system is full; nil: none
	full *rand.Rand
	// Keys whose values were not written since the file system was full
	failedKeys map[string]bool
}

// A simEntry is a value to write, or a callback for the time when all before it is written.
type simEntry struct {
	key   string
	value any
	flush func(error)
	first bool // whether it precedes all entries without that mark
}

var errSimFull = errors.New("write journal: no space left on device")

func newSimJournal(h *history, lag time.Duration) *simJournal {
	return &simJournal{
		h: h, writeDelay: lag, session: h.v.Root().Child(),
		values: map[string]any{}, failedKeys: map[string]bool{},
	}
}

// Put implements [handover.Journal].
func (j *simJournal) Put(key string, value any) error {
	if !j.stalled {
		j.batch, j.queue, j.unwritten = j.put(j.batch), j.put(j.queue), 0
	}
	text, err := encoded(value) // encoded now, as the value may change later
	if j.values[key] = text; j.onWrite != nil {
		j.onWrite(key, text)
	}
	return err
}

// put writes the values of entries and returns the callbacks among them.
func (j *simJournal) put(entries []simEntry) (flushes []simEntry) {
	for _, e := range entries {
		if e.flush != nil {
			flushes = append(flushes, e)
			continue
		}
		j.set(e)
	}
	return flushes
}

func (j *simJournal) set(e simEntry) {
	delete(j.failedKeys, e.key)
	if j.onWrite != nil {
		j.onWrite(e.key, e.value)
	}
	if e.value == nil {
		delete(j.values, e.key)
	} else {
		j.values[e.key] = e.value
	}
}

// Queue implements [handover.Journal].
func (j *simJournal) Queue(key string, value any) {
	if j.unwritten == 0 {
		j.unwritten = j.h.v.Now()
	}
	for i := range j.queue {
		if j.queue[i].key == key {
			if value == nil {
				waiting := j.queue[i+1:]
				j.queue = append(j.queue[:i:i], values(waiting)...)
				j.queue = append(j.queue, simEntry{key: key})
				// The real journal answers when all that is queued is written, whatever its order
				j.queue = append(j.queue, flushes(waiting)...)
				return
			}
			j.queue[i].value = value
			return
		}
	}
	j.queue = append(j.queue, simEntry{key: key, value: value})
}

// values returns the entries with a value, and flushes those with a callback.
func values(entries []simEntry) []simEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(e simEntry) bool { return e.flush != nil })
}

func flushes(entries []simEntry) []simEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(e simEntry) bool { return e.flush == nil })
}

// Write implements [handover.Journal].
func (j *simJournal) Write() {
	if len(j.queue) > 0 && !j.h.defect.neverWrites {
		j.write()
	}
}

// QueueFirst implements [handover.Journal].
func (j *simJournal) QueueFirst(key string, value any) {
	j.putFirst(simEntry{key: key, value: value, first: true})
	j.write()
}

// putFirst queues a value before all others and removes a queued one of its key.
func (j *simJournal) putFirst(first simEntry) {
	same := func(e simEntry) bool { return e.key == first.key && e.flush == nil }
	j.queue = slices.DeleteFunc(j.queue, same)
	j.queue = slices.Insert(j.queue, 0, first)
}

// Flush implements [handover.Journal].
func (j *simJournal) Flush(done func(error)) {
	if len(j.queue)+len(j.batch) == 0 || j.h.defect.answersUnsaved {
		done(nil)
		return
	}
	j.queue = append(j.queue, simEntry{flush: done})
	j.write()
}

// write starts to write the queue, or schedules that after the current batch.
func (j *simJournal) write() {
	j.unwritten = 0
	if j.writing || j.stalled {
		j.writeAgain = true
		return
	}
	j.writing, j.writeAgain = true, false
	j.batch, j.queue = j.queue, nil
	j.writeSome()
}

// writeSome writes a part of the batch after a delay, then the rest.
func (j *simJournal) writeSome() {
	j.session.After(j.h.upTo(j.writeDelay), func() {
		if j.full != nil && j.full.IntN(8) == 0 {
			j.failBatch()
			return
		}
		n := len(j.batch)
		if n > 0 && j.h.chance(0.3) {
			n = 1 + j.h.rng.IntN(n)
		}
		some := j.batch[:n]
		j.batch = j.batch[n:]
		for _, e := range some {
			if e.flush != nil {
				e.flush(nil)
			} else {
				j.set(e)
			}
		}
		if len(j.batch) > 0 {
			j.writeSome()
			return
		}
		if j.writing = false; j.writeAgain {
			j.write()
		}
	})
}

// failBatch fails the batch as on a full file system: it calls its callbacks with the error and
// retries a second later. A newer value replaces one of its key that was not written.
func (j *simJournal) failBatch() {
	batch, since := j.batch, j.queue
	j.batch, j.queue = nil, nil
	var flushes []func(error)
	for _, e := range batch {
		if e.flush != nil {
			flushes = append(flushes, e.flush)
		} else {
			j.queue = append(j.queue, e)
			j.failedKeys[e.key] = true
		}
	}
	for _, e := range since {
		i := slices.IndexFunc(j.queue, func(old simEntry) bool {
			return e.flush == nil && old.flush == nil && old.key == e.key
		})
		switch {
		case e.first:
			j.putFirst(e)
		case i >= 0:
			j.queue[i] = e
		default:
			j.queue = append(j.queue, e)
		}
	}
	j.h.logf("no room in the journal")
	err := errSimFull
	if j.h.defect.ignoresWriteErrors {
		err = nil
	}
	for _, flush := range flushes {
		flush(err)
	}
	j.session.After(time.Second, func() {
		if j.writing = false; len(j.queue) > 0 {
			j.write()
		}
	})
}

// check checks that no value stays queued for long without a request to write.
func (j *simJournal) check() {
	if waits := j.h.v.Now() - j.unwritten; j.unwritten > 0 && waits > handover.WritePause {
		j.h.fail("%s waits for %v, and no write of the journal is due", j.queue[0].key, waits)
	}
}

// queued reports whether a value of the key is queued or being written.
func (j *simJournal) queued(key string) bool {
	is := func(e simEntry) bool { return e.key == key }
	return slices.ContainsFunc(j.queue, is) || slices.ContainsFunc(j.batch, is)
}

// checkReply checks that the desired state is written when the operator gets the answer.
func (j *simJournal) checkReply(name string, up bool) {
	in := inspect(j.h.sup).instance(name)
	if !in.exists() || in.leaves() || in.target() != (fsm.Target{Up: up, By: fsm.By(fsm.ActorOperator)}) {
		return // the desired state has changed since
	}
	if v, ok := j.values[snapshot.InstanceKey(name)].(*snapshot.Instance); !ok || v.Desired.Up != up {
		j.h.fail("%s: the operator was answered before the command was written", name)
	}
}

// end ends the journal with superd. It returns the content and the keys that were still to be
// written.
func (j *simJournal) end() (*journal.State, map[string]bool) {
	j.session.Close()
	return j.content()
}

// content returns the content, and the keys that are still to be written.
func (j *simJournal) content() (*journal.State, map[string]bool) {
	state := &journal.State{Values: map[string]json.RawMessage{}, Existed: true}
	for key, value := range j.values {
		text, err := encoded(value)
		if err != nil {
			j.h.fail("encode %s: %v", key, err)
		}
		state.Values[key] = text
	}
	pending := map[string]bool{}
	for _, e := range slices.Concat(j.batch, j.queue) {
		pending[e.key] = true
	}
	return state, pending
}

func encoded(value any) (json.RawMessage, error) {
	if encode, ok := value.(func() []byte); ok {
		return encode(), nil
	}
	return json.Marshal(value)
}
