package logs

import (
	"bytes"

	"superd/internal/failpoint"
)

// takeLines moves lines from the pipe into the file as records, at most limit bytes. atLimit is
// what an unfinished line at the limit is. It reports whether it took something out of the pipe,
// and how many of these bytes are in the file. Without a whole line it does nothing, without an
// error. An unfinished line stays in the pipe, so a crash of superd loses no line.
//
// Bytes are taken out when their records are in the file, so a crash in between writes those once
// more.
func (c *stream) takeLines(limit int64, atLimit ending, look *peekBuffer) (moved int64, some bool, err error) {
	there := c.bytes()
	if there == 0 {
		return 0, false, nil
	}
	text, err := look.at(c.pipe(), min(there, limit))
	if err != nil || len(text) == 0 {
		return 0, false, err
	}
	end := atLimit
	if int64(len(text)) < limit {
		end = awaited
	}
	if c.dropped.inLine > 0 {
		c.skipLostLine(text, end)
		return 0, true, nil
	}
	if _, ok := nextSpan(text, end); !ok {
		full := pipeFull(c.pipe())
		if int64(len(text)) == there && c.bytes() > there {
			return c.takeLines(limit, atLimit, look) // the program has written since the look
		}
		if int64(len(text)) == there && (c.rest == nil || !c.rest.due) && !full {
			c.sawBegun(there)
			return 0, false, nil
		}
		end = goesOn // no more of it becomes visible before this is taken out
	}
	if lines := bytes.LastIndexByte(text, '\n') + 1; c.file.Format == Raw && end == awaited && lines > 0 {
		text = text[:lines]
	}
	if c.rest != nil {
		c.rest = nil
	}
	c.mu.Lock()
	run := c.runID
	c.mu.Unlock()
	bench := c.store.benches.Get().(*recordBench)
	defer c.store.benches.Put(bench)
	bench.recorder.at(c.file.setting, c.name, run, c.label(), c.store.now())
	line, noted := c.line(), openLineOf(c.pipe())
	for len(text) > 0 {
		records, used := text, len(text)
		bench.recorder.line = line
		if c.file.Format != Raw {
			if records, used = bench.recorder.append(bench.records[:0], text, end); used == 0 {
				break
			}
		}
		written, overtaken, err := c.put(records, used, run)
		if written < len(records) && c.file.Format != Raw {
			written = takenFor(recordsIn(c.file.Format, records[:written]), text, end)
		} else if written == len(records) {
			written = used
		}
		if line = line.after(text[:written], bench.recorder.usual); end == ended && written == len(text) {
			line = atBeginning
		}
		if overtaken { // what was not visible is lost, too
			if c.dropped.bytes == 0 {
				c.setLine(line)
			}
			c.dropFirst(text[written:used])
			c.announce()
			return moved, true, err
		}
		c.remember(text[:written])
		if line != atBeginning && line != noted {
			c.setLine(line) // a crash in between repeats the priority mark as text of the line
			noted = line
		}
		got, rerr := look.drop(c.pipe(), written)
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

// put writes records after the drop record, if there is one. Their output is the first used bytes
// in the pipe. It returns how many bytes of records are written, and what do reports.
func (c *stream) put(records []byte, used int, run string) (written int, overtaken bool, err error) {
	gap, known := c.dropRecord(c.file.setting, run), c.dropped
	// A predecessor may have been killed while it wrote lines that are still in the pipe.
	torn := c.file.Format == Raw && !c.file.begun && c.resumed.Load() && openLineOf(c.pipe()) == atBeginning
	overtaken, err = c.do(used, func() (err error) {
		if to := c.outlet; to != nil {
			written, err = to.put(&gap, records, c.quit)
		} else {
			written, err = c.file.appendAfter(&gap, records, torn)
		}
		return err
	})
	if gap == nil {
		if known.bytes > 0 || known.lines > 0 {
			c.dropped.bytes -= known.bytes // it has grown if this was overtaken
			c.dropped.lines -= known.lines
		}
		if known.bytes > 0 {
			c.addDrops(Drops{ToldBytes: known.bytes, ToldLines: known.lines})
		}
		c.tell(known, run)
	}
	return written, overtaken, err
}

// putGap writes the drop record if no output has come since the drop.
func (c *stream) putGap() error {
	if c.dropped.bytes == 0 || c.dropped.inLine > 0 {
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

// setLine stores what the first byte in the pipe belongs to. It does so for any format, as that may
// be changing. It never blocks.
func (c *stream) setLine(l openLine) { setOpenLine(c.pipe(), l) }
