// Package journal is a map that survives the supervisor: the last value of each key, in a file that is only appended to.
//
// The file holds a record a line: CRC-32C, space, JSON. A record counts when its line is whole; so whatever instant the
// process is killed at, what is read back are the records up to that instant. Nothing is synced: when the machine goes
// down, so do the programs of which the journal tells. A file that has outgrown what it says is written anew beside and
// renamed; in memory there is nothing but what waits to be written.
//
// [Journal.Put] writes before it returns, for who must know that a record is there before he goes on. [Journal.Queue]
// leaves it to a goroutine, for the loop, which must not wait for a disk; [Journal.Write] wakes that.
package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	writeBytes = 64 << 10    // about as much is written at a time
	restBytes  = 16 << 10    // a buffer may have that is kept
	retryPause = time.Second // after a write that failed
	restPause  = time.Second // without a write, after which the file may be compacted: whoever writes much is in a hurry
)

// An Appender encodes itself faster than encoding/json does.
type Appender interface {
	AppendJSON(b []byte) []byte // appends one JSON value without line ends
}

// A Journal is open for writing. Its methods may be called from any goroutine.
type Journal struct {
	log   *slog.Logger
	ended chan struct{} // the writing goroutine has

	io   sync.Mutex // held while the file is used; taken before mu
	file *file

	lines sync.Pool // of *[]byte, for those who call Put

	mu      sync.Mutex
	more    sync.Cond      // for the writing goroutine
	work    bool           // there is some
	rested  bool           // nothing was written for restPause
	busy    bool           // it has taken what was queued and is not through with it
	queue   []entry        //
	places  map[string]int // in queue, by key
	queued  uint64         // calls of Queue so far
	flushes []func()       // to be called when queue has been handled
	closed  bool

	failed  bool        // the last attempt to write what was queued; guarded by io, as are
	buffer  []byte      // what is written
	resting *time.Timer // until nothing was written for restPause; nil: the file was never outgrown
}

// An entry waits to be written.
type entry struct {
	key    string // "": something newer was written, or is queued elsewhere
	value  any
	number uint64 // of the call of Queue
	first  bool   // it is before all others that are not
}

var errClosed = errors.New("the journal is closed")

// Threads is how many threads a journal may keep waiting in the kernel, beside those that call Put.
const Threads = 1

// Open returns the journal in dir, written anew, and what the last superd left in it. boot is the machine's boot id.
//
// log is told of damage, and when there is no room for a new file: then the old one is written on. The error is a
// *VersionError where the format is a newer one.
func Open(dir, boot string, log *slog.Logger) (*Journal, *State, error) {
	file, state, err := openFile(dir, boot, log)
	if err != nil {
		return nil, nil, err
	}
	if state.Damaged > 0 {
		log.Warn("lines of the journal passed over: they are damaged", "lines", state.Damaged, "path", file.path)
	}
	j := &Journal{log: log, ended: make(chan struct{}), file: file, places: map[string]int{}}
	j.more.L = &j.mu
	go j.run()
	return j, state, nil
}

// Put records the value of key, nil for none any more, before it returns: by a write, so it must not be called on the
// loop. value is encoded by its AppendJSON, else as JSON. What was queued before goes with it, in front of it, lest the record be there without
// what led to it. After an error the record is not in the file and never gets there; else what was queued for the key before the call is void.
func (j *Journal) Put(key string, value any) error {
	space, _ := j.lines.Get().(*[]byte)
	if space == nil {
		space = new([]byte)
	}
	defer j.lines.Put(space)
	line, err := appendRecord((*space)[:0], key, value)
	*space = line
	if err != nil {
		return fmt.Errorf("record %s: %w", key, err)
	}
	j.mu.Lock()
	before := j.queued
	j.mu.Unlock()

	j.io.Lock()
	defer j.io.Unlock()
	j.mu.Lock()
	var newer entry // was queued since
	if i, ok := j.places[key]; ok && j.queue[i].number > before {
		newer = j.queue[i]
		j.queue[i] = entry{first: newer.first}
	}
	batch := j.take()
	j.mu.Unlock()
	rest, err := j.writeAll(batch, line)
	j.tell(len(batch), err)
	if newer.key != "" {
		rest = append(rest, newer)
	}
	j.tidy(err != nil)
	j.giveBack(rest, newer.key != "" || err != nil)
	if err != nil {
		return fmt.Errorf("record %s: %w", key, err)
	}
	return nil
}

// Queue has the value of key, nil for none any more, recorded after the next call of Write or Flush at the latest. It does not wait and does
// no I/O. value is encoded later, on another goroutine, so it must not change any more.
//
// What is queued is written in order. A newer value of a key that still waits takes the older one's place, so that no
// more waits than there are keys. What can't be written is tried again until it can; log is told once.
func (j *Journal) Queue(key string, value any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.queued++
	e := entry{key: key, value: value, number: j.queued}
	i, ok := j.places[key]
	if ok && !j.queue[i].first {
		j.queue[i] = e
		return
	}
	if ok {
		j.queue[i] = entry{first: true}
	}
	j.places[key] = len(j.queue)
	j.queue = append(j.queue, e)
}

// Write has what is queued written, by the goroutine: whoever queues much calls it once in a while.
func (j *Journal) Write() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queue) > 0 {
		j.wake()
	}
}

// QueueFirst has the value of key recorded soon, before all that waits, and instead of what waits for the key. It is for what later values
// speak of: such a value may take the place of one that waits already.
func (j *Journal) QueueFirst(key string, value any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.queued++
	j.insertFirst(entry{key, value, j.queued, true})
	j.wake()
}

// insertFirst puts an entry behind those that come first, instead of an older one of its key. mu is held.
func (j *Journal) insertFirst(e entry) {
	if i, ok := j.places[e.key]; ok {
		j.queue[i] = entry{first: j.queue[i].first}
	}
	n := 0
	for n < len(j.queue) && j.queue[n].first {
		n++
	}
	j.queue = slices.Insert(j.queue, n, e)
	for i, e := range j.queue[n:] {
		if e.key != "" {
			j.places[e.key] = n + i
		}
	}
}

// Flush calls done when everything that was queued before is in the file, or could not be written: at once, or on
// another goroutine.
func (j *Journal) Flush(done func()) {
	j.mu.Lock()
	if len(j.queue) == 0 && !j.busy || j.closed {
		j.mu.Unlock()
		done()
		return
	}
	j.flushes = append(j.flushes, done)
	j.wake()
	j.mu.Unlock()
}

// Idle reports whether all that was queued is in the file, which may be compacted just now.
func (j *Journal) Idle() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.queue) == 0 && !j.busy
}

// Close writes what is queued, for at most patience. Later calls of Put fail, others do nothing.
func (j *Journal) Close(patience time.Duration) {
	j.mu.Lock()
	j.closed = true
	j.wake()
	j.mu.Unlock()
	select {
	case <-j.ended:
	case <-time.After(patience):
	}
}

// wake has the writing goroutine look. mu is held.
func (j *Journal) wake() {
	j.work = true
	j.more.Signal()
}

// run writes what is queued.
func (j *Journal) run() {
	defer close(j.ended)
	for {
		j.mu.Lock()
		for !j.work && !j.closed {
			j.more.Wait()
		}
		j.work = false
		closed := j.closed
		j.mu.Unlock()
		j.writeQueue()
		if closed {
			j.io.Lock()
			j.file.close()
			j.io.Unlock()
			return
		}
	}
}

// writeQueue writes what is queued, as far as that goes, and compacts the file when it is time.
func (j *Journal) writeQueue() {
	j.io.Lock()
	j.mu.Lock()
	flushes := j.flushes
	j.flushes = nil
	batch := j.take()
	rested := j.rested && len(batch) == 0
	j.rested = false
	j.mu.Unlock()
	rest, err := j.writeAll(batch, nil)
	j.tidy(rested || err != nil)
	closed := j.giveBack(rest, false)
	j.tell(len(batch), err)
	j.io.Unlock()

	if err != nil && !closed {
		time.AfterFunc(retryPause, func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.wake()
		})
	}
	for _, done := range flushes {
		done()
	}
}

// tidy has a file that has outgrown its limit be compacted: now, or when nothing has been written for a while from now on. io is held.
func (j *Journal) tidy(now bool) {
	switch {
	case !j.file.outgrown():
	case now || j.file.overgrown():
		j.file.compact()
	case j.resting == nil:
		j.resting = time.AfterFunc(restPause, func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.rested = true
			j.wake()
		})
	default:
		j.resting.Reset(restPause)
	}
}

// take returns what waits, to be written. io and mu are held.
func (j *Journal) take() []entry {
	batch := j.queue
	j.queue, j.busy = nil, len(batch) > 0
	clear(j.places)
	return batch
}

// giveBack ends what take has begun: rest could not be written. look has the writing goroutine look. io is held.
func (j *Journal) giveBack(rest []entry, look bool) (closed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.putBack(rest)
	j.busy = false
	if look {
		j.wake()
	}
	return j.closed
}

// tell has the log told when writing n entries has failed, and when it succeeds again. io is held.
func (j *Journal) tell(n int, err error) {
	switch {
	case n == 0:
		return
	case err != nil && !j.failed:
		j.log.Warn("journal not written: if superd is killed now, the next one will not know the latest states; tried again each second",
			"error", err)
	case err == nil && j.failed:
		j.log.Info("journal is written again")
	}
	j.failed = err != nil
}

// writeAll writes the entries, and last behind them, and returns those from the first on that could not be written. io is held.
func (j *Journal) writeAll(batch []entry, last []byte) (rest []entry, err error) {
	defer func() {
		if cap(j.buffer) > restBytes {
			j.buffer = nil // after much, or a large value
		}
	}()
	lines, written := j.buffer[:0], 0
	for i, e := range batch {
		if e.key != "" {
			if lines, err = appendRecord(lines, e.key, e.value); err != nil {
				j.log.Error("value not recorded", "key", e.key, "error", err)
			}
		}
		if i == len(batch)-1 {
			lines, last = append(lines, last...), nil
		} else if len(lines) < writeBytes {
			continue
		}
		if len(lines) > 0 {
			if err := j.file.write(lines); err != nil {
				return batch[written:], err
			}
		}
		j.buffer, lines, written = lines, lines[:0], i+1
	}
	if len(last) > 0 {
		return nil, j.file.write(last)
	}
	return nil, nil
}

// putBack queues again what could not be written, before what was queued since; where that is newer, it takes the
// place. mu is held.
func (j *Journal) putBack(rest []entry) {
	if len(rest) == 0 {
		return
	}
	since := j.queue
	j.queue = rest
	clear(j.places)
	for i, e := range j.queue {
		if e.key != "" {
			j.places[e.key] = i
		}
	}
	for _, e := range since {
		if i, ok := j.places[e.key]; e.first {
			j.insertFirst(e)
		} else if ok && !j.queue[i].first {
			j.queue[i] = e
		} else if e.key != "" {
			j.places[e.key] = len(j.queue)
			j.queue = append(j.queue, e)
		}
	}
}
