package logs

import (
	"bytes"

	"superd/crashpoint"
)

// takeLines moves lines from the pipe into the file as records, of at most the given number of bytes, at the end of which
// an unfinished line is what end says. It reports whether it took something out of the pipe, and how many bytes of it are in the
// file: nothing without an error when there is no whole line. What it can't finish stays in the pipe, so that no line is lost with
// superd.
//
// Bytes are taken out when their records are in the file: who dies in between writes those once more.
func (c *stream) takeLines(limit int64, end ending, look *glance) (moved int64, some bool, err error) {
	there := c.bytes()
	if there == 0 {
		return 0, false, nil
	}
	text, err := look.at(c.pipe(), min(there, limit))
	if err != nil || len(text) == 0 {
		return 0, false, err
	}
	if int64(len(text)) < limit {
		end = awaited
	}
	if c.loss.inLine > 0 {
		c.skipLostLine(text, end)
		return 0, true, nil
	}
	if _, ok := nextSpan(text, end); !ok {
		if int64(len(text)) == there && (c.rest == nil || !c.rest.due) && !pipeFull(c.pipe()) {
			return 0, false, nil
		}
		end = goesOn // no more of it comes into sight before this is taken out
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
		if overtaken { // what was not in sight is lost, too
			if c.loss.bytes == 0 {
				c.setLine(line)
			}
			c.loseFirst(text[written:used])
			c.announce()
			return moved, true, err
		}
		c.remember(text[:written])
		if line != atBeginning && line != noted {
			c.setLine(line) // who dies in between sends a mark once more, as a part of the line
			noted = line
		}
		got, rerr := look.drop(c.pipe(), written)
		if line == atBeginning && line != noted {
			c.setLine(line)
			noted = line
		}
		crashpoint.Here("record.after-take")
		moved += got
		if err = firstError(err, rerr); err != nil {
			return moved, true, err
		}
		text = text[used:]
	}
	return moved, moved > 0, nil
}

// put writes records, of which the output is at the beginning of the pipe, after what tells of a loss. It returns how many bytes of them are written,
// and what do tells.
func (c *stream) put(records []byte, used int, run string) (written int, overtaken bool, err error) {
	gap, known := c.gap(c.file.setting, run), c.loss
	// An earlier superd may have been killed over lines that are in the pipe yet.
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
			c.loss.bytes -= known.bytes // it has grown if this was overtaken
			c.loss.lines -= known.lines
		}
		if known.bytes > 0 {
			c.addDrops(Drops{ToldBytes: known.bytes, ToldLines: known.lines})
		}
		c.tell(known, run)
	}
	return written, overtaken, err
}

// putGap writes what tells of a loss after which nothing has come yet.
func (c *stream) putGap() error {
	if c.loss.bytes == 0 || c.loss.inLine > 0 {
		return nil
	}
	c.mu.Lock()
	run := c.runID
	c.mu.Unlock()
	_, _, err := c.put(nil, 0, run)
	return err
}

// line returns what the first byte in the pipe belongs to, as far as messages are concerned.
func (c *stream) line() openLine {
	if !c.file.Format.messages() {
		return atBeginning
	}
	return openLineOf(c.pipe())
}

// setLine notes what the first byte in the pipe belongs to, whatever the format: that may be changing just now. It waits for nobody.
func (c *stream) setLine(l openLine) { setOpenLine(c.pipe(), l) }
