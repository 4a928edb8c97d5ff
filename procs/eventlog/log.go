// Package eventlog is the numbered log of what happens to programs, kept in two files of bounded size.
//
// Events get their numbers from [Log.Append] or [Log.Queue], which never block; a goroutine writes them, as JSON a line each, without
// fsync. The numbers have no holes, so that a number that is not in the files is an event that was lost: because the
// disk stalled and the queue was full, because it could not be written, or because it is too old to be kept. Readers
// read the files and nothing else; where numbers are missing they give a [Gap] instead.
//
// The numbering goes on where the files end. What a crash leaves of a last line counts as one lost event; anything else
// that is no event is passed over.
package eventlog

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// MaxSize is the usual size of each of the two files in bytes: some thousand events.
const MaxSize = 1 << 20

// maxWaiting is how many events may wait for a slow disk.
const maxWaiting = 8192

// A Log is the log of one runtime directory. Its methods may be called from any goroutine.
type Log struct {
	files files
	ended chan struct{} // the writer has
	reads chan struct{} // held while a file is read

	mu      sync.Mutex
	more    sync.Cond // for the writer
	waiting []Event
	dropped int           // events that did not fit since the writer last looked
	next    uint64        // number of the next event
	handled uint64        // newest number that is either written or lost
	asked   bool          // what waits is to be written
	closed  bool          // no further event is taken
	changed chan struct{} // closed when handled grows or the log ends; nil while nobody waits
}

// maxReads bounds how many readers are in the hands of the file system at a time.
const maxReads = 2

// Threads is how many threads a log may keep waiting in the kernel: the writer's, one that opens files, and readers'.
const Threads = 1 + 1 + maxReads

// Open returns the log in dir, whose files grow to maxSize bytes each. Where the files can't be read or written, superd
// goes on without them: log is told, and writing is tried again with each event.
func Open(dir string, maxSize int64, log *slog.Logger) *Log {
	l := &Log{files: newFiles(dir, maxSize, log), ended: make(chan struct{}), reads: make(chan struct{}, maxReads)}
	l.more.L = &l.mu
	l.handled = l.files.newest()
	l.next = l.handled + 1
	go l.run()
	return l
}

// Append numbers the event and has it written.
func (l *Log) Append(e Event) {
	l.Queue(e)
	l.Write()
}

// Write has what is queued written.
func (l *Log) Write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handled+1 != l.next && !l.closed {
		l.asked = true
		l.more.Signal()
	}
}

// Queue numbers the event, to be written after the next call of Write, Append or Flush at the latest.
func (l *Log) Queue(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	e.Cursor = l.next
	l.next++
	if len(l.waiting) == maxWaiting {
		l.dropped++ // lost, as the hole in the numbers tells
		return
	}
	l.waiting = append(l.waiting, e)
}

// Flush returns when all events so far are written or lost. The error is that of ctx, if that ends first.
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

// Idle reports whether all events so far are written or lost.
func (l *Log) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handled+1 == l.next
}

// Close takes no further event, waits, for at most patience, until those before are written, and ends the followers.
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

// IsAlone reports whether nothing else is in dir than a log's files.
func IsAlone(dir string) bool {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if name := entry.Name(); name != currentName && name != oldName {
			return false
		}
	}
	return err == nil
}

// Remove removes the files of the log in dir, if there are any.
func Remove(dir string) error { return removeFiles(dir) }

// run writes what is queued.
func (l *Log) run() {
	var batch []Event
	for {
		l.mu.Lock()
		for !l.asked && !l.closed {
			l.more.Wait()
		}
		l.asked = false
		batch, l.waiting = l.waiting, batch
		newest, closed, dropped := l.next-1, l.closed, l.dropped
		l.dropped = 0
		l.mu.Unlock()

		l.files.write(batch)
		if dropped > 0 {
			l.files.log.Warn("events are lost: the file system of the runtime directory is too slow", "lost", dropped)
		}
		clear(batch) // lets go of the strings
		if batch = batch[:0]; cap(batch) > 256 {
			batch = nil // after a burst
		}
		if closed {
			l.files.close()
		}

		l.mu.Lock()
		l.handled = newest
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

// progress returns how far the writer has come, and what is closed when it has come further. It has ended if nothing
// will follow.
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

// assigned returns the newest number that was given.
func (l *Log) assigned() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next - 1
}
