package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"
)

// Since yields the events after cursor that are in the files now; 0 is before the oldest one. For
// missing events it yields a gap, whose cursor is that of the last missing one. For a cursor that
// was never assigned, as after the files were removed, it yields a gap of unknown size and then all
// events.
//
// It reads files and may block. An error ends it.
func (l *Log) Since(cursor uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := &reader{log: l, last: cursor, yield: yield}
		defer r.close()
		handled, _, _ := l.progress()
		if r.begin() {
			r.catchUp(handled)
		}
	}
}

// Follow is [Log.Since], and continues with later events until the log is closed or ctx is done.
func (l *Log) Follow(ctx context.Context, cursor uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := &reader{log: l, last: cursor, yield: yield}
		defer r.close()
		if !r.begin() {
			return
		}
		for {
			handled, changed, ended := l.progress()
			if !r.catchUp(handled) || ended {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// A reader yields events in the order of their numbers.
type reader struct {
	log   *Log
	last  uint64 // number of the last event, or missing event, yielded; 0: any may be next
	yield func(Event, error) bool

	// Files to read, the older one first; lines reads the first
	files      []*os.File
	lines      *lines
	generation uint64
	opened     bool
}

// begin handles a cursor that was never assigned. Like the other methods it reports whether the
// reader continues.
func (r *reader) begin() bool {
	newest := r.log.assigned()
	if r.last <= newest {
		return true
	}
	gap := Event{Kind: Gap, At: now(),
		Reason: fmt.Sprintf("event %d is unknown: the log was begun anew, its newest event is %d", r.last, newest)}
	r.last = 0
	return r.yield(gap, nil)
}

// catchUp yields all events in the files. It includes those up to handled unless they are dropped.
func (r *reader) catchUp(handled uint64) bool {
	if !r.opened || !r.log.files.isCurrent(r.generation) {
		// First read the open files to their end: they may have been removed from the directory.
		if !r.drain() || !r.open() {
			return false
		}
	}
	if !r.drain() {
		return false
	}
	if r.last < handled {
		return r.skip(handled, now())
	}
	return true
}

// open opens the files that are in the directory now.
func (r *reader) open() bool {
	r.close()
	files, generation, err := r.log.files.open()
	if err != nil {
		r.yield(Event{}, fmt.Errorf("read events: %w", err))
		return false
	}
	r.files, r.generation, r.opened = files, generation, true
	return true
}

func (r *reader) close() {
	for _, file := range r.files {
		file.Close()
	}
	r.files, r.lines = nil, nil
}

// drain reads the open files to their end. The newest file stays open.
func (r *reader) drain() bool {
	for len(r.files) > 0 {
		if r.lines == nil {
			r.lines = newLines(r.files[0])
		}
		r.log.reads <- struct{}{}
		line, err := r.lines.next()
		<-r.log.reads
		switch {
		case errors.Is(err, io.EOF) && len(r.files) == 1:
			return true
		case errors.Is(err, io.EOF):
			r.files[0].Close()
			r.files, r.lines = r.files[1:], nil
		case err != nil:
			r.yield(Event{}, fmt.Errorf("read events: %w", err))
			return false
		case !r.yieldLine(line):
			return false
		}
	}
	return true
}

// yieldLine yields the event of a line, unless there is none or it was already yielded.
func (r *reader) yieldLine(line []byte) bool {
	if n, ok := number(line); !ok || n <= r.last {
		return true
	}
	e, ok := decode(line)
	if !ok {
		return true
	}
	if r.last > 0 && e.Cursor > r.last+1 && !r.skip(e.Cursor-1, e.At) {
		return false
	}
	r.last = e.Cursor
	return r.yield(e, nil)
}

// skip yields a gap up to cursor.
func (r *reader) skip(cursor uint64, at time.Time) bool {
	dropped := cursor - r.last
	r.last = cursor
	text := fmt.Sprintf("%d events are missing", dropped)
	if dropped == 1 {
		text = "1 event is missing"
	}
	return r.yield(Event{Cursor: cursor, At: at, Kind: Gap, Lost: dropped, Reason: text + ": too old to be kept, or not written"}, nil)
}

// Recorded says which events of a run are in the files.
type Recorded struct {
	Start, Exit bool
}

// RecordedRuns returns the runs with a start or an exit in the files, by invocation id. It reads
// the files and may block; after an error it returns those found so far.
func (l *Log) RecordedRuns() (map[string]Recorded, error) {
	told := map[string]Recorded{}
	files, _, err := l.files.open()
	if err != nil {
		return told, fmt.Errorf("read events: %w", err)
	}
	for _, file := range files {
		lines := newLines(file)
		for {
			line, lineErr := lines.next()
			if lineErr != nil {
				if !errors.Is(lineErr, io.EOF) && err == nil {
					err = fmt.Errorf("read events: %w", lineErr)
				}
				break
			}
			if _, ok := number(line); !ok {
				continue
			}
			// Quotes within a value are escaped, so these are keys. To decode the lines of two full
			// files would add some 20 ms to a recovery.
			start, exit := bytes.Contains(line, []byte(`"kind":"start"`)), bytes.Contains(line, []byte(`"kind":"exit"`))
			if !start && !exit {
				continue
			}
			_, rest, _ := bytes.Cut(line, []byte(`"run":"`))
			if run, _, ok := bytes.Cut(rest, []byte(`"`)); ok {
				t := told[string(run)]
				told[string(run)] = Recorded{t.Start || start, t.Exit || exit}
			}
		}
		file.Close()
	}
	return told, err
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// lines yields the complete lines of a growing file. It skips lines longer than its buffer.
type lines struct {
	file   *os.File
	offset int64 // offset in the file of what follows the buffer
	buffer []byte
	from   int // unread bytes are in buffer[from:to]
	to     int
	long   bool // the next bytes belong to a skipped line
}

const lineBytes = 64 << 10

func newLines(file *os.File) *lines { return &lines{file: file, buffer: make([]byte, lineBytes)} }

// next returns a line without its line end, valid until the next call; [io.EOF] if there is no
// complete line yet.
func (l *lines) next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(l.buffer[l.from:l.to], '\n'); i >= 0 {
			line := l.buffer[l.from : l.from+i]
			l.from += i + 1
			if l.long {
				l.long = false
				continue
			}
			return line, nil
		}
		l.to = copy(l.buffer, l.buffer[l.from:l.to])
		l.from = 0
		if l.to == len(l.buffer) {
			l.long, l.to = true, 0
		}
		n, err := l.file.ReadAt(l.buffer[l.to:], l.offset)
		l.to += n
		l.offset += int64(n)
		if n == 0 {
			return nil, err
		}
	}
}

// rest returns the bytes after the last line end, as far as next has read.
func (l *lines) rest() []byte { return l.buffer[l.from:l.to] }
