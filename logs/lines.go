package logs

import (
	"bytes"

	"superd/internal/failpoint"
	"superd/logs/frame"
	"superd/logs/pipe"
)

// takeLines moves lines from the pipe into the file as records, at most limit bytes. atLimit is
// what the end of an unfinished line at the limit means. progress reports whether it took something
// out of the pipe, moved how many of these bytes are in the file. Without a complete line it does
// nothing, without an error. An unfinished line stays in the pipe, so a crash of superd loses no
// line.
//
// Bytes are taken out when their records are in the file, so a crash in between writes those once
// more.
func (s *stream) takeLines(limit int64, atLimit frame.Ending, peek *pipe.Peek) (moved int64, progress bool, err error) {
	available := s.source.Bytes()
	if available == 0 {
		return 0, false, nil
	}
	text, err := peek.Next(min(available, limit))
	if err != nil || len(text) == 0 {
		return 0, false, err
	}
	end := atLimit
	if int64(len(text)) < limit {
		end = frame.AwaitMore
	}
	if s.dropped.lineBytes > 0 {
		s.skipDroppedLine(text, end)
		return 0, true, nil
	}
	if _, ok := frame.Next(text, end); !ok {
		full := pipe.Full(s.source.FD())
		if int64(len(text)) == available && s.source.Bytes() > available {
			return s.takeLines(limit, atLimit, peek) // the program has written since the peek
		}
		if int64(len(text)) == available && (s.partial == nil || !s.partial.due) && !full {
			s.notePartial(available)
			return 0, false, nil
		}
		end = frame.WritePartial // no more of it becomes visible while this is in the pipe
	}
	if lines := bytes.LastIndexByte(text, '\n') + 1; s.file.Format == frame.Raw && end == frame.AwaitMore && lines > 0 {
		text = text[:lines]
	}
	if s.partial != nil {
		s.partial = nil
	}
	s.c.shared.Lock()
	run := s.c.shared.runID
	s.c.shared.Unlock()
	buffer := s.c.store.recordBuffers.Get().(*frame.Buffer)
	defer s.c.store.recordBuffers.Put(buffer)
	buffer.Recorder.Reset(s.file.set.header(s.c.name, run), s.label(), s.c.store.now())
	line, noted := s.line(), frame.OpenLine(pipe.MarkOf(s.source.FD()))
	for len(text) > 0 {
		records, used := text, len(text)
		buffer.Recorder.Line = line
		if s.file.Format != frame.Raw {
			if records, used = buffer.Recorder.Append(buffer.Records[:0], text, end); used == 0 {
				break
			}
		}
		written, discarded, err := s.put(records, used, run)
		if written < len(records) && s.file.Format != frame.Raw {
			written = frame.TakenBy(frame.Count(s.file.Format, records[:written]), text, end)
		} else if written == len(records) {
			written = used
		}
		if line = line.After(text[:written], buffer.Recorder.DefaultPriority); end == frame.LineComplete && written == len(text) {
			line = frame.AtBeginning
		}
		if discarded { // what was not written is dropped, too
			if s.dropped.bytes == 0 {
				s.setLine(line)
			}
			s.prependDrop(text[written:used])
			s.c.notifyWatchers()
			return moved, true, err
		}
		s.c.remember(text[:written])
		if line != frame.AtBeginning && line != noted {
			s.setLine(line) // a crash in between shows a priority prefix as text
			noted = line
		}
		got, rerr := peek.Discard(written)
		if line == frame.AtBeginning && line != noted {
			s.setLine(line)
			noted = line
		}
		failpoint.Here("record.after-take")
		moved += got
		if err == nil {
			err = rerr
		}
		if err != nil {
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
	dropRecord, recorded := s.dropRecord(s.file.set, run), s.dropped
	// A predecessor may have been killed while it wrote lines that are still in the pipe.
	torn := s.file.Format == frame.Raw && !s.file.WasOpen() && s.c.resumed.Load() && frame.OpenLine(pipe.MarkOf(s.source.FD())) == frame.AtBeginning
	discarded, err = s.fileOp(used, func() (err error) {
		if to := s.c.shared.outlet; to != nil {
			written, err = to.Put(&dropRecord, records, s.c.shared.wakeup.Stop)
		} else {
			written, err = s.file.AppendAfter(&dropRecord, records, torn)
		}
		return err
	})
	if dropRecord == nil {
		if recorded.bytes > 0 || recorded.lines > 0 {
			s.dropped.bytes -= recorded.bytes // more may have been dropped meanwhile
			s.dropped.lines -= recorded.lines
		}
		if recorded.bytes > 0 {
			s.c.addDrops(Drops{RecordedBytes: recorded.bytes, RecordedLines: recorded.lines})
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
	s.c.shared.Lock()
	run := s.c.shared.runID
	s.c.shared.Unlock()
	_, _, err := s.put(nil, 0, run)
	return err
}
