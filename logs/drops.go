package logs

import (
	"bytes"
	"errors"
	"fmt"

	"superd/internal/words"
	"superd/logs/frame"
)

// errStalled is the cause of a drop when no other is known.
var errStalled = errors.New("the log stalled")

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
		d := &c.shared.streams[0].ensureErrors().dropped
		d.bytes, d.lines, d.cause = restored.Bytes-restored.RecordedBytes, restored.Lines-restored.RecordedLines, errStalled
		c.loop.dropsUnrecorded = true
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
	s.c.addDrops(Drops{Bytes: int64(len(p)), Lines: lines})
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
		s.setLine(frame.DroppedLine) // which the successor reads
	} else {
		s.setLine(frame.AtBeginning)
	}
}

// endDroppedLine counts the line that was dropped last as complete, without a newline.
func (s *stream) endDroppedLine() {
	if s.dropped.lineBytes > 0 {
		s.dropped.lineBytes = 0
		s.setLine(frame.AtBeginning)
		s.dropped.lines++
		s.c.addDrops(Drops{Lines: 1})
	}
}

// dropRecord returns the drop record, nil if nothing was dropped.
func (s *stream) dropRecord(o *setting, run string) []byte {
	if s.dropped.bytes == 0 {
		return nil
	}
	text := append(s.dropped.text(), '\n')
	if o.Format == frame.Raw {
		return append([]byte("superd: "), text...)
	}
	var r frame.Recorder
	r.Reset(o.header(s.c.name, run), frame.DropStream, s.c.store.now())
	record, _ := r.Append(make([]byte, 0, frame.BufferBytes/2), text, frame.AwaitMore)
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
	if d.bytes > 0 && s.c.store.onDropped != nil {
		s.c.store.onDropped(DroppedOutput{s.c.setting().Program, s.c.name, run, string(d.text())})
	}
}
