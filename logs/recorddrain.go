package logs

import (
	"bytes"

	"superd/internal/failpoint"
)

// takeLines moves lines from the pipe into the file as records, at most limit bytes. atLimit is
// what the end of an unfinished line at the limit means. progress reports whether it took something
// out of the pipe, moved how many of these bytes are in the file. Without a complete line it does
// nothing, without an error. An unfinished line stays in the pipe, so a crash of superd loses no
// line.
//
// Bytes are taken out when their records are in the file, so a crash in between writes those once
// more.
func (c *stream) takeLines(limit int64, atLimit ending, peek *peekBuffer) (moved int64, progress bool, err error) {
	available := c.bytes()
	if available == 0 {
		return 0, false, nil
	}
	text, err := peek.next(c.pipe(), min(available, limit))
	if err != nil || len(text) == 0 {
		return 0, false, err
	}
	end := atLimit
	if int64(len(text)) < limit {
		end = awaitMore
	}
	if c.dropped.lineBytes > 0 {
		c.skipDroppedLine(text, end)
		return 0, true, nil
	}
	if _, ok := nextRecordSpan(text, end); !ok {
		full := pipeFull(c.pipe())
		if int64(len(text)) == available && c.bytes() > available {
			return c.takeLines(limit, atLimit, peek) // the program has written since the peek
		}
		if int64(len(text)) == available && (c.partial == nil || !c.partial.due) && !full {
			c.notePartial(available)
			return 0, false, nil
		}
		end = writePartial // no more of it becomes visible while this is in the pipe
	}
	if lines := bytes.LastIndexByte(text, '\n') + 1; c.file.Format == Raw && end == awaitMore && lines > 0 {
		text = text[:lines]
	}
	if c.partial != nil {
		c.partial = nil
	}
	c.mu.Lock()
	run := c.runID
	c.mu.Unlock()
	buffer := c.store.recordBuffers.Get().(*recordBuffer)
	defer c.store.recordBuffers.Put(buffer)
	buffer.recorder.reset(c.file.setting, c.name, run, c.label(), c.store.now())
	line, noted := c.line(), openLineOf(c.pipe())
	for len(text) > 0 {
		records, used := text, len(text)
		buffer.recorder.line = line
		if c.file.Format != Raw {
			if records, used = buffer.recorder.append(buffer.records[:0], text, end); used == 0 {
				break
			}
		}
		written, discarded, err := c.put(records, used, run)
		if written < len(records) && c.file.Format != Raw {
			written = takenBy(recordsIn(c.file.Format, records[:written]), text, end)
		} else if written == len(records) {
			written = used
		}
		if line = line.after(text[:written], buffer.recorder.defaultPriority); end == lineComplete && written == len(text) {
			line = atBeginning
		}
		if discarded { // what was not written is dropped, too
			if c.dropped.bytes == 0 {
				c.setLine(line)
			}
			c.prependDrop(text[written:used])
			c.notifyWatchers()
			return moved, true, err
		}
		c.remember(text[:written])
		if line != atBeginning && line != noted {
			c.setLine(line) // a crash in between shows a priority prefix as text
			noted = line
		}
		got, rerr := peek.discard(c.pipe(), written)
		if line == atBeginning && line != noted {
			c.setLine(line)
			noted = line
		}
		failpoint.Here("record.after-take")
		moved += got
		if err = firstError(err, rerr); err != nil {
			return moved, true, err
		}
		text = text[used:]
	}
	return moved, moved > 0, nil
}

// put writes records, after the drop record if there is one. used is how many bytes at the start of
// the pipe they are made of. It returns how many bytes of records are written, and what fileOp
// reports.
func (c *stream) put(records []byte, used int, run string) (written int, discarded bool, err error) {
	dropRecord, recorded := c.dropRecord(c.file.setting, run), c.dropped
	// A predecessor may have been killed while it wrote lines that are still in the pipe.
	torn := c.file.Format == Raw && !c.file.wasOpen && c.resumed.Load() && openLineOf(c.pipe()) == atBeginning
	discarded, err = c.fileOp(used, func() (err error) {
		if to := c.outlet; to != nil {
			written, err = to.put(&dropRecord, records, c.stop)
		} else {
			written, err = c.file.appendAfter(&dropRecord, records, torn)
		}
		return err
	})
	if dropRecord == nil {
		if recorded.bytes > 0 || recorded.lines > 0 {
			c.dropped.bytes -= recorded.bytes // more may have been dropped meanwhile
			c.dropped.lines -= recorded.lines
		}
		if recorded.bytes > 0 {
			c.addDrops(Drops{RecordedBytes: recorded.bytes, RecordedLines: recorded.lines})
		}
		c.reportDropped(recorded, run)
	}
	return written, discarded, err
}

// putDropRecord writes the drop record if no output has come since the drop.
func (c *stream) putDropRecord() error {
	if c.dropped.bytes == 0 || c.dropped.lineBytes > 0 {
		return nil
	}
	c.mu.Lock()
	run := c.runID
	c.mu.Unlock()
	_, _, err := c.put(nil, 0, run)
	return err
}

// line returns what the first byte in the pipe belongs to; atBeginning if the format has no
// messages.
func (c *stream) line() openLine {
	if !c.file.Format.messages() {
		return atBeginning
	}
	return openLineOf(c.pipe())
}

// setLine stores what the first byte in the pipe belongs to, in each format, as the format may be
// about to change. It never blocks.
func (c *stream) setLine(l openLine) { setOpenLine(c.pipe(), l) }
