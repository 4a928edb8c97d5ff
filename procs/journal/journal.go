// Package journal is a map that survives the supervisor: the last value of each key, in an
// append-only file.
//
// The file has one record per line: CRC-32C, space, JSON. A record counts when its line is
// complete. So at whatever instant the process is killed, a reader gets the records up to that
// instant. One record, overwritten after each write, has the file's length, so that a missing tail
// is detected. Nothing is synced: the programs that the journal describes end with the machine. A
// file that has grown too large is replaced by a new one. Memory has only what waits to be written.
//
// [Journal.Put] writes before it returns, for callers that must be sure of the record.
// [Journal.Queue] has a goroutine write, for the loop, which must not wait for a disk;
// [Journal.Write] wakes that goroutine.
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
	writeBytes = 8 << 10        // approximate size of one write
	reuseBytes = 2 * writeBytes // largest buffer that is reused: also during a burst
	retryPause = time.Second    // after a failed write
	// Time without a write after which the file may be compacted, so that bursts are not delayed
	idlePause = time.Second
)

// A Journal is a journal open for writing. Its methods may be called from any goroutine.
type Journal struct {
	log   *slog.Logger
	ended chan struct{} // closed when the writing goroutine has ended

	io   sync.Mutex // held while the file is used; locked before mu
	file *file

	lines sync.Pool // of *[]byte, for callers of Put

	mu         sync.Mutex
	more       sync.Cond // wakes the writing goroutine
	work       bool      // there is work for it
	idle       bool      // nothing was written for idlePause
	busy       bool      // it is writing entries taken from queue
	queue      []entry
	queueIndex map[string]int // index in queue, by key
	queued     uint64         // number of calls of Queue so far
	flushes    []func(error)  // callbacks for when queue has been handled
	closed     bool

	// The last write of queued entries failed; guarded by io, like the next two
	failed bool
	buffer []byte // reused for encoding
	// Runs until nothing was written for idlePause; nil: the file was never too large
	idleTimer *time.Timer
}

// An entry waits to be written.
type entry struct {
	key    string // "": superseded by a newer entry
	value  any
	number uint64 // number of its call of Queue
	first  bool   // precedes all entries without this flag
}

var errClosed = errors.New("the journal is closed")

// Threads is how many threads a journal may block in the kernel, beside those that call Put.
const Threads = 1

// Open returns the journal in dir, newly written, and its contents before. boot is the
// machine's boot id.
//
// It logs damage, and a lack of room for a new file, in which case it continues to use the old one.
// The error is a *VersionError if the format is newer.
func Open(dir, boot string, log *slog.Logger) (*Journal, *State, error) {
	file, state, err := openFile(dir, boot, log)
	if err != nil {
		return nil, nil, err
	}
	if state.MissingBytes > 0 && !state.OtherBoot {
		log.Warn("the end of the journal is missing", "bytes", state.MissingBytes, "path", file.path)
	}
	if state.Damaged > 0 {
		log.Warn("damaged lines of the journal skipped", "lines", state.Damaged, "path", file.path)
	}
	j := &Journal{log: log, ended: make(chan struct{}), file: file, queueIndex: map[string]int{}}
	j.more.L = &j.mu
	go j.run()
	return j, state, nil
}

// Put records the value of key, nil to delete it, before it returns. It writes, so it must not be
// called on the loop. value is encoded as JSON. If it is a func() []byte, its result is that JSON,
// without line ends. Entries queued before are written before it, so that the record does not
// precede its causes. After an error the record is not in the file and will not be; otherwise an
// older entry queued for the key is dropped.
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
	var newer entry // queued since the call
	if i, ok := j.queueIndex[key]; ok && j.queue[i].number > before {
		newer = j.queue[i]
		j.queue[i] = entry{first: newer.first}
	}
	batch := j.takeQueue()
	j.mu.Unlock()
	rest, err := j.writeAll(batch, line)
	j.logOutcome(len(batch), err)
	if newer.key != "" {
		rest = append(rest, newer)
	}
	j.compactIfDue(err != nil)
	j.endWrite(rest, newer.key != "" || err != nil)
	if err != nil {
		return fmt.Errorf("record %s: %w", key, err)
	}
	return nil
}

// Queue records the value of key, nil to delete it, after the next call of Write or Flush at the
// latest. It does not block and does no I/O. value is as for Put. It is encoded later, on another
// goroutine, so it must not change.
//
// Entries are written in order. A newer value of a waiting key replaces the older one, so that at
// most one entry per key waits. A removal comes last: what was queued before it may concern the
// same thing under another key. Failed writes are repeated until they succeed, and logged once.
func (j *Journal) Queue(key string, value any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.queued++
	e := entry{key: key, value: value, number: j.queued}
	i, ok := j.queueIndex[key]
	if ok && !j.queue[i].first && value != nil {
		j.queue[i] = e
		return
	}
	if ok {
		j.queue[i] = entry{first: j.queue[i].first}
	}
	j.queueIndex[key] = len(j.queue)
	j.queue = append(j.queue, e)
}

// Write makes the goroutine write the queued entries. Call it from time to time.
func (j *Journal) Write() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queue) > 0 {
		j.wake()
	}
}

// QueueFirst records the value of key soon, before all waiting entries, and replaces a waiting one
// of the key. Use it for values that later ones refer to, since such a value may replace one that
// waits already.
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

// insertFirst inserts an entry after those with first set, and replaces an older one of its key. mu
// is held.
func (j *Journal) insertFirst(e entry) {
	if i, ok := j.queueIndex[e.key]; ok {
		j.queue[i] = entry{first: j.queue[i].first}
	}
	n := 0
	for n < len(j.queue) && j.queue[n].first {
		n++
	}
	j.queue = slices.Insert(j.queue, n, e)
	for i, e := range j.queue[n:] {
		if e.key != "" {
			j.queueIndex[e.key] = n + i
		}
	}
}

// Flush calls done when all entries queued before are in the file, or with the error if they could
// not be written: at once, or on another goroutine. Failed writes are repeated all the same.
func (j *Journal) Flush(done func(error)) {
	j.mu.Lock()
	if closed := j.closed; closed || len(j.queue) == 0 && !j.busy {
		j.mu.Unlock()
		if closed {
			done(errClosed)
		} else {
			done(nil)
		}
		return
	}
	j.flushes = append(j.flushes, done)
	j.wake()
	j.mu.Unlock()
}

// Idle reports whether all queued entries are in the file. The file may be being compacted.
func (j *Journal) Idle() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.queue) == 0 && !j.busy
}

// Close writes queued entries, for at most patience. Later calls of Put fail, others do nothing.
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

// wake wakes the writing goroutine. mu is held.
func (j *Journal) wake() {
	j.work = true
	j.more.Signal()
}

// run writes queued entries.
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

// writeQueue writes queued entries as far as possible, and compacts the file if it is due.
func (j *Journal) writeQueue() {
	j.io.Lock()
	j.mu.Lock()
	flushes := j.flushes
	j.flushes = nil
	batch := j.takeQueue()
	idle := j.idle && len(batch) == 0
	j.idle = false
	j.mu.Unlock()
	rest, err := j.writeAll(batch, nil)
	j.compactIfDue(idle || err != nil)
	closed := j.endWrite(rest, false)
	j.logOutcome(len(batch), err)
	j.io.Unlock()

	if err != nil && !closed {
		time.AfterFunc(retryPause, func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.wake()
		})
	}
	for _, done := range flushes {
		done(err)
	}
}

// compactIfDue compacts a file that is too large: now, or when nothing has been written for
// idlePause. io is held.
func (j *Journal) compactIfDue(now bool) {
	switch {
	case !j.file.tooLarge():
	case now || j.file.mustCompact():
		j.file.compact()
	case j.idleTimer == nil:
		j.idleTimer = time.AfterFunc(idlePause, func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.idle = true
			j.wake()
		})
	default:
		j.idleTimer.Reset(idlePause)
	}
}

// takeQueue returns the waiting entries for writing, and empties the queue. io and mu are held.
func (j *Journal) takeQueue() []entry {
	batch := j.queue
	j.queue, j.busy = nil, len(batch) > 0
	clear(j.queueIndex)
	return batch
}

// endWrite ends the write begun by takeQueue; rest could not be written. look wakes the writing
// goroutine. io is held.
func (j *Journal) endWrite(rest []entry, wake bool) (closed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requeue(rest)
	j.busy = false
	if wake {
		j.wake()
	}
	return j.closed
}

// logOutcome logs when writing n entries has failed, and when it succeeds again. io is held.
func (j *Journal) logOutcome(n int, err error) {
	switch {
	case n == 0:
		return
	case err != nil && !j.failed:
		j.log.Warn("journal not written: a crash now would lose the latest states; retried each second",
			"error", err)
	case err == nil && j.failed:
		j.log.Info("journal is written again")
	}
	j.failed = err != nil
}

// writeAll writes the entries, then last, and returns the entries that could not be written. io is
// held.
func (j *Journal) writeAll(batch []entry, last []byte) (rest []entry, err error) {
	defer func() {
		if cap(j.buffer) > reuseBytes {
			j.buffer = nil // after a burst, or a large value
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

// requeue requeues entries that could not be written, before those queued since, except those that
// are superseded. mu is held.
func (j *Journal) requeue(rest []entry) {
	if len(rest) == 0 {
		return
	}
	since := j.queue
	j.queue = rest
	clear(j.queueIndex)
	for i, e := range j.queue {
		if e.key != "" {
			j.queueIndex[e.key] = i
		}
	}
	for _, e := range since {
		if i, ok := j.queueIndex[e.key]; e.first {
			j.insertFirst(e)
		} else if ok && !j.queue[i].first {
			j.queue[i] = e
		} else if e.key != "" {
			j.queueIndex[e.key] = len(j.queue)
			j.queue = append(j.queue, e)
		}
	}
}
