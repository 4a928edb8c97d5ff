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
func (s *stream) takeLines(limit int64, atLimit ending, peek *peekBuffer) (moved int64, progress bool, err error) {
	available := s.bytes()
	if available == 0 {
		return 0, false, nil
	}
	text, err := peek.next(s.pipe(), min(available, limit))
	if err != nil || len(text) == 0 {
		return 0, false, err
	}
	end := atLimit
	if int64(len(text)) < limit {
		end = awaitMore
	}
	if s.dropped.lineBytes > 0 {
		s.skipDroppedLine(text, end)
		return 0, true, nil
	}
	if _, ok := nextRecordSpan(text, end); !ok {
		full := pipeFull(s.pipe())
		if int64(len(text)) == available && s.bytes() > available {
			return s.takeLines(limit, atLimit, peek) // the program has written since the peek
		}
		if int64(len(text)) == available && (s.partial == nil || !s.partial.due) && !full {
			s.notePartial(available)
			return 0, false, nil
		}
		end = writePartial // no more of it becomes visible while this is in the pipe
	}
	if lines := bytes.LastIndexByte(text, '\n') + 1; s.file.Format == Raw && end == awaitMore && lines > 0 {
		text = text[:lines]
	}
	if s.partial != nil {
		s.partial = nil
	}
	s.mu.Lock()
	run := s.runID
	s.mu.Unlock()
	buffer := s.store.recordBuffers.Get().(*recordBuffer)
	defer s.store.recordBuffers.Put(buffer)
	buffer.recorder.reset(s.file.setting, s.name, run, s.label(), s.store.now())
	line, noted := s.line(), openLineOf(s.pipe())
	for len(text) > 0 {
		records, used := text, len(text)
		buffer.recorder.line = line
		if s.file.Format != Raw {
			if records, used = buffer.recorder.append(buffer.records[:0], text, end); used == 0 {
				break
			}
		}
		written, discarded, err := s.put(records, used, run)
		if written < len(records) && s.file.Format != Raw {
			written = takenBy(recordsIn(s.file.Format, records[:written]), text, end)
		} else if written == len(records) {
			written = used
		}
		if line = line.after(text[:written], buffer.recorder.defaultPriority); end == lineComplete && written == len(text) {
			line = atBeginning
		}
		if discarded { // what was not written is dropped, too
			if s.dropped.bytes == 0 {
				s.setLine(line)
			}
			s.prependDrop(text[written:used])
			s.notifyWatchers()
			return moved, true, err
		}
		s.remember(text[:written])
		if line != atBeginning && line != noted {
			s.setLine(line) // a crash in between shows a priority prefix as text
			noted = line
		}
		got, rerr := peek.discard(s.pipe(), written)
		if line == atBeginning && line != noted {
			s.setLine(line)
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
func (s *stream) put(records []byte, used int, run string) (written int, discarded bool, err error) {
	dropRecord, recorded := s.dropRecord(s.file.setting, run), s.dropped
	// A predecessor may have been killed while it wrote lines that are still in the pipe.
	torn := s.file.Format == Raw && !s.file.wasOpen && s.resumed.Load() && openLineOf(s.pipe()) == atBeginning
	discarded, err = s.fileOp(used, func() (err error) {
		if to := s.outlet; to != nil {
			written, err = to.put(&dropRecord, records, s.stop)
		} else {
			written, err = s.file.appendAfter(&dropRecord, records, torn)
		}
		return err
	})
	if dropRecord == nil {
		if recorded.bytes > 0 || recorded.lines > 0 {
			s.dropped.bytes -= recorded.bytes // more may have been dropped meanwhile
			s.dropped.lines -= recorded.lines
		}
		if recorded.bytes > 0 {
			s.addDrops(Drops{RecordedBytes: recorded.bytes, RecordedLines: recorded.lines})
		}
		s.reportDropped(recorded, run)
	}
	return written, discarded, err
}

// putDropRecord writes the drop record if no output has come since the drop.
func (s *stream) putDropRecord() error {
	if s.dropped.bytes == 0 || s.dropped.lineBytes > 0 {
		return nil
	}
	s.mu.Lock()
	run := s.runID
	s.mu.Unlock()
	_, _, err := s.put(nil, 0, run)
	return err
}

// line returns what the first byte in the pipe belongs to; atBeginning if the format has no
// messages.
func (s *stream) line() openLine {
	if !s.file.Format.messages() {
		return atBeginning
	}
	return openLineOf(s.pipe())
}

// setLine stores what the first byte in the pipe belongs to, in each format, as the format may be
// about to change. It never blocks.
func (s *stream) setLine(l openLine) { setOpenLine(s.pipe(), l) }
