// Package eventlog is the numbered log of what happens to programs, kept in two files of bounded
// size.
//
// Events get their numbers from [Log.Append] or [Log.Queue], which never block. A goroutine writes
// them, as one line of JSON each, without fsync. The numbers have no holes, so a number missing in
// the files is a dropped event: the disk stalled and the queue was full, the write failed, or the
// event is too old. Readers read only the files; for missing numbers they return a [Gap].
//
// The numbers continue after those in the files. An incomplete last line, left by a crash, counts
// as one dropped event; any other line that is not an event is skipped.
package eventlog

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// MaxSize is the default size of each of the two files in bytes: some thousand events.
const MaxSize = 1 << 20

// maxWaiting is how many events may wait for a slow disk.
const maxWaiting = 8192

// A Log is the log of one runtime directory. Its methods may be called from any goroutine.
type Log struct {
	files files
	ended chan struct{} // closed when the writer has ended
	reads chan struct{} // semaphore of reads of files

	onExit func(Event) // see OnExit

	mu             sync.Mutex
	more           sync.Cond // wakes the writer
	waiting        []Event
	dropped        int           // events that did not fit since the writer's last write
	next           uint64        // number of the next event
	handled        uint64        // newest number that is written or dropped
	totals         Totals        // of the written events
	writeRequested bool          // waiting events must be written
	closed         bool          // no further events are accepted
	changed        chan struct{} // closed when handled grows or the log ends; nil if not awaited
}

// maxReads bounds how many readers may block in the file system at the same time.
const maxReads = 2

// Threads is how many threads a log may block in the kernel: the writer's, one that opens files,
// and those of readers.
const Threads = 1 + 1 + maxReads

// Open returns the log in dir, with files of up to maxSize bytes each. If the files can't be read
// or written, superd continues without them: it logs a warning and tries to write again with each
// event.
func Open(dir string, maxSize int64, log *slog.Logger) *Log {
	l := &Log{files: newFiles(dir, maxSize, log), ended: make(chan struct{}), reads: make(chan struct{}, maxReads)}
	l.more.L = &l.mu
	l.handled = l.files.resume()
	l.totals = l.files.totals
	l.next = l.handled + 1
	go l.run()
	return l
}

// OnExit sets a function that is called with each event of the kind [Exit], without its number, by
// whoever appends it. It must not block. OnExit is called before the first event.
func (l *Log) OnExit(f func(Event)) { l.onExit = f }

// Append numbers the event and writes it soon.
func (l *Log) Append(e Event) {
	l.Queue(e)
	l.Write()
}

// Write makes the writer write the queued events.
func (l *Log) Write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handled+1 != l.next && !l.closed {
		l.writeRequested = true
		l.more.Signal()
	}
}

// Queue numbers the event. It is written at the latest after the next call of Write, Append or
// Flush.
func (l *Log) Queue(e Event) {
	if e.Kind == Exit && l.onExit != nil {
		l.onExit(e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	e.Cursor = l.next
	l.next++
	if len(l.waiting) == maxWaiting {
		l.dropped++ // which shows as a hole in the numbers
		return
	}
	l.waiting = append(l.waiting, e)
}

// Flush returns when all events so far are written or dropped. The error is that of ctx, if that
// ends first.
func (l *Log) Flush(ctx context.Context) error {
	l.Write()
	l.mu.Lock()
	newest := l.next - 1
	l.mu.Unlock()
	for {
		handled, changed, ended := l.progress()
		if handled >= newest || ended {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for events to be written: %w", ctx.Err())
		}
	}
}

// Newest returns the number of the newest event, written or not; 0: there is none.
func (l *Log) Newest() uint64 { return l.assigned() }

// Idle reports whether all events so far are written or dropped.
func (l *Log) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handled+1 == l.next
}

// Totals returns how many events of each kind were written, by predecessors on the same directory,
// too.
func (l *Log) Totals() Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals
}

// Close accepts no further events, waits for at most patience until earlier ones are written, and
// ends the followers.
func (l *Log) Close(patience time.Duration) {
	l.mu.Lock()
	l.closed = true
	l.more.Signal()
	l.mu.Unlock()
	select {
	case <-l.ended:
	case <-time.After(patience):
	}
}

// IsAlone reports whether dir contains only files of a log, and others of these names.
func IsAlone(dir string, others ...string) bool {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if name := entry.Name(); name != currentName && name != oldName && !slices.Contains(others, name) {
			return false
		}
	}
	return err == nil
}

// Remove removes the files of the log in dir, if there are any.
func Remove(dir string) error { return removeFiles(dir) }

// run writes queued events.
func (l *Log) run() {
	var batch []Event
	for {
		l.mu.Lock()
		for !l.writeRequested && !l.closed {
			l.more.Wait()
		}
		l.writeRequested = false
		batch, l.waiting = l.waiting, batch
		newest, closed, dropped := l.next-1, l.closed, l.dropped
		l.dropped = 0
		l.mu.Unlock()

		l.files.write(batch)
		if dropped > 0 {
			l.files.log.Warn("events lost: the file system of the runtime directory is too slow", "lost", dropped)
		}
		clear(batch) // frees the strings
		if batch = batch[:0]; cap(batch) > reuseEvents {
			batch = nil // after a burst
		}
		if closed {
			l.files.close()
		}

		l.mu.Lock()
		l.handled, l.totals = newest, l.files.totals
		if closed {
			close(l.ended)
		}
		if l.changed != nil {
			close(l.changed)
			l.changed = nil
		}
		l.mu.Unlock()
		if closed {
			return
		}
	}
}

// progress returns the newest number that is handled, and a channel that is closed when there is a
// newer one. ended reports that no event will follow.
func (l *Log) progress() (handled uint64, changed <-chan struct{}, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ended:
		return l.handled, nil, true
	default:
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.handled, l.changed, false
}

// assigned returns the newest assigned number.
func (l *Log) assigned() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next - 1
}
