package logs

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"superd/internal/words"
)

// A dropped counts output dropped since output last got into the file. It begins at the start of a
// line, as far as that is known, and extends to the end of one.
type dropped struct {
	bytes, lines int64
	cause        error
	lineBytes    int // dropped bytes of a line whose end has not come yet
}

// errStalled is the cause of a drop when no other is known.
var errStalled = errors.New("the log stalled")

// Drops is how much output was dropped in all.
type Drops struct {
	Bytes, Lines int64
	// How much of it drop records report. The names in the journal are older.
	RecordedBytes int64 `json:"ToldBytes"`
	RecordedLines int64 `json:"ToldLines"`
}

type drops struct {
	mu sync.Mutex
	Drops
	saving bool // onUnsavedDrops was called, and DropsSaved was not yet
}

// Dropped returns how much output was dropped in all. Safe for concurrent use.
func (c *Collector) Dropped() (bytes, lines int64) {
	d := c.Drops()
	return d.Bytes, d.Lines
}

// Drops returns what was dropped in all, for [Collector.RestoreDrops] of the successor. Safe for
// concurrent use.
func (c *Collector) Drops() Drops {
	d := c.drops.Load()
	if d == nil {
		return Drops{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Drops
}

// addDrops adds to the drops, and requests to save them.
func (c *Collector) addDrops(by Drops) {
	d := c.drops.Load()
	if d == nil {
		d = &drops{}
		if !c.drops.CompareAndSwap(nil, d) {
			d = c.drops.Load()
		}
	}
	d.mu.Lock()
	d.Bytes, d.Lines, d.RecordedBytes, d.RecordedLines = d.Bytes+by.Bytes, d.Lines+by.Lines, d.RecordedBytes+by.RecordedBytes, d.RecordedLines+by.RecordedLines
	notify := !d.saving && c.store.onUnsavedDrops != nil
	d.saving = d.saving || notify
	d.mu.Unlock()
	if notify {
		c.store.onUnsavedDrops(c)
	}
}

// DropsSaved confirms that saved is in the journal. It reports whether more was dropped since.
func (c *Collector) DropsSaved(saved Drops) (more bool) {
	d := c.drops.Load()
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.saving = d.Drops != saved
	return d.saving
}

// RestoreDrops sets what a predecessor has dropped, before the loop runs. What no drop record
// reports yet gets one.
func (c *Collector) RestoreDrops(restored Drops) {
	if restored == (Drops{}) {
		return
	}
	c.drops.Store(&drops{Drops: restored})
	if restored.Bytes > restored.RecordedBytes {
		d := &c.streams[0].ensureErrors().dropped
		d.bytes, d.lines, d.cause = restored.Bytes-restored.RecordedBytes, restored.Lines-restored.RecordedLines, errStalled
		c.dropsUnrecorded = true
	}
}

func (s *stream) drop(p []byte) {
	if len(p) == 0 {
		return
	}
	lines := int64(bytes.Count(p, newline))
	d := &s.ensureErrors().dropped
	d.bytes += int64(len(p))
	d.lines += lines
	if end := bytes.LastIndexByte(p, '\n'); end >= 0 {
		d.lineBytes = len(p) - end - 1
	} else {
		d.lineBytes += len(p)
	}
	s.storeLineState()
	s.addDrops(Drops{Bytes: int64(len(p)), Lines: lines})
}

// prependDrop counts p as dropped, which came before the last drop, if there was one.
func (s *stream) prependDrop(p []byte) {
	last, after := s.dropped.bytes > 0, s.dropped.lineBytes
	if s.drop(p); len(p) > 0 && last {
		s.dropped.lineBytes = after
		s.storeLineState()
	}
}

// storeLineState stores on the FIFO whether the next byte in the pipe belongs to a dropped line.
func (s *stream) storeLineState() {
	if s.dropped.lineBytes > 0 {
		s.setLine(droppedLine) // which the successor reads
	} else {
		s.setLine(atBeginning)
	}
}

// endDroppedLine counts the line that was dropped last as complete, without a newline.
func (s *stream) endDroppedLine() {
	if s.dropped.lineBytes > 0 {
		s.dropped.lineBytes = 0
		s.setLine(atBeginning)
		s.dropped.lines++
		s.addDrops(Drops{Lines: 1})
	}
}

// dropRecord returns the drop record, nil if nothing was dropped.
func (s *stream) dropRecord(o *setting, run string) []byte {
	if s.dropped.bytes == 0 {
		return nil
	}
	text := append(s.dropped.text(), '\n')
	if o.Format == Raw {
		return append([]byte("superd: "), text...)
	}
	var r recorder
	r.reset(o, s.name, run, dropStream, s.store.now())
	record, _ := r.append(make([]byte, 0, recordBytes/2), text, awaitMore)
	return record
}

func (d *dropped) text() []byte {
	were := "were"
	if d.bytes == 1 {
		were = "was"
	}
	text := fmt.Sprintf("%s in %s %s dropped: %v", words.Plural(d.bytes, "byte"), words.Plural(d.lines, "line"), were, d.cause)
	return bytes.ReplaceAll([]byte(text), newline, []byte{' '})
}

// reportDropped reports a drop whose drop record is written.
func (s *stream) reportDropped(d dropped, run string) {
	if d.bytes > 0 && s.store.onDropped != nil {
		s.store.onDropped(DroppedOutput{s.setting().Program, s.name, run, string(d.text())})
	}
}

// fileOp runs op, which uses the file. With Drop, op gets a goroutine and a slot of its own; if it
// stalls, the output in the pipe is dropped until it returns. inFlight is how many bytes at the
// start of the pipe op writes. discarded reports that these were taken out of the pipe.
func (s *stream) fileOp(inFlight int, op func() error) (discarded bool, err error) {
	if !s.file.Drop {
		return false, op()
	}
	done := make(chan error, 1)
	f, needsSlot := s.file, s.outlet == nil
	before := f.setting // op may change the settings of s and f
	go func() {
		var slot *slot
		if needsSlot {
			if slot = f.acquireSlot(&s.store.slots, s.stop); slot == nil {
				done <- errStalled
				return
			}
		}
		err := op()
		slot.release()
		done <- err
	}()
	timer := time.NewTimer(s.store.stallTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return false, err
	case <-s.stop: // what is in the pipe is for the successor
		return false, <-done
	case <-timer.C:
	}
	s.discard(inFlight, false)
	s.ensureErrors().dropped.cause = errStalled
	s.beginOutage(errStalled)
	s.logOf(before).Warn("log stalls: output is dropped")
	s.dropUntil(true, func(<-chan time.Time) (ended bool) {
		select {
		case err = <-done:
			return true
		case <-s.wake:
			return false
		case <-s.stop:
			err = <-done
			return true
		}
	})
	s.log().Info("log no longer stalls", "dropped_bytes", s.dropped.bytes, "dropped_lines", s.dropped.lines)
	return true, err
}

// dropFor drops output for a while. It reports false when closing.
func (s *stream) dropFor(while time.Duration, cause error) (open bool) {
	s.ensureErrors().dropped.cause = cause
	timer := time.NewTimer(while)
	defer timer.Stop()
	otherWaits := s.dropUntil(false, func(recheck <-chan time.Time) (ended bool) {
		select {
		case <-timer.C:
			open = true
			return true
		case <-recheck:
			return false
		case <-s.wake:
			return false
		case <-s.stop:
			return true
		}
	})
	return open || otherWaits
}

// dropUntil drops the output of this stream, and of the other one if that is affected too, until
// wait reports true. wait waits for output, or for recheck, a result of watchOther. If not stalled,
// dropUntil also ends when the other stream has output that can be written, and reports true.
func (s *stream) dropUntil(stalled bool, wait func(recheck <-chan time.Time) (ended bool)) (otherWaits bool) {
	for ended := false; !ended; {
		s.clearDirty()
		// a drop in one stream may be what the other waits for
		for moved, pending := true, true; moved && pending; {
			moved, pending = false, false
			for _, other := range s.inOrder() {
				if other != s {
					if !stalled && s.mayProceed(other) {
						continue
					}
					other.ensureErrors().dropped.cause = s.dropped.cause
				}
				progress, empty := other.dropAll()
				if empty {
					s.armWatch(other)
				}
				moved, pending = moved || progress, pending || !empty
			}
		}
		var recheck <-chan time.Time
		if !stalled {
			if otherWaits, recheck = s.watchOther(); otherWaits {
				return true
			}
		}
		ended = wait(recheck)
	}
	return false
}

// dropAll drops what is in the pipe. progress reports whether it dropped something or passed a
// barrier. empty reports whether the pipe is empty; if not, the other stream must reach a barrier
// first.
func (s *stream) dropAll() (progress, empty bool) {
	for {
		limit, end := s.nextLimit()
		if limit == 0 {
			return progress, false
		}
		n := s.discard(int(min(limit, turnBytes)), true)
		if int64(n) == limit && end == lineComplete {
			s.endDroppedLine()
		}
		passed := s.barrierReached(n == 0)
		progress = progress || n > 0 || passed
		if n == 0 {
			return progress, true
		}
	}
}

// discard takes at most n bytes out of the pipe and returns how many. With count they count as
// dropped.
func (s *stream) discard(n int, count bool) (taken int) {
	buffer := s.store.buffers.Get().(*[chunkBytes]byte)
	defer s.store.buffers.Put(buffer)
	for taken < n {
		got, err := copy(buffer[:], s.ahead.take(n-taken)), error(nil)
		if got == 0 {
			got, err = readPipe(s.pipe(), buffer[:min(n-taken, len(buffer))])
		}
		if got == 0 || err != nil {
			break
		}
		if count {
			s.drop(buffer[:got])
		}
		s.total += int64(got)
		taken += got
	}
	return taken
}

// skipDroppedLine drops the rest of a line whose start was dropped, from text, which is in the
// pipe. After maxOverrun bytes it no longer waits for the end of the line.
func (s *stream) skipDroppedLine(text []byte, end ending) {
	n := bytes.IndexByte(text, '\n') + 1
	if n == 0 {
		n = len(text)
	}
	s.discard(n, true)
	switch {
	case n == len(text) && end == lineComplete:
		s.endDroppedLine()
	case s.dropped.lineBytes >= maxOverrun:
		s.endDroppedLine()
		s.setLine(unknownLine)
	}
}
