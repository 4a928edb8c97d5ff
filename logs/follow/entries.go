package follow

import (
	"bytes"

	"superd/logs/frame"
)

// next makes the next matching entry ready. It reports false if there is none now. If finished,
// there will be none.
func (s *source) next() (bool, error) {
	for !s.ready {
		if s.nextEntry() {
			if s.ready = s.matches(); s.ready {
				s.addLines()
			}
			continue
		}
		if s.finished {
			if s.anyReturned || s.span == nil || s.query.Follow || s.query.Lines == 0 || s.log.OfStderr() {
				return false, nil
			}
			s.note("no output of that run in this log: it printed nothing or into another log, or its output was removed")
			continue
		}
		if more, err := s.fill(); !more || err != nil {
			s.releaseIdle()
			return s.ready, err
		}
	}
	return true, nil
}

// matches reports whether the entry just made matches the query.
func (s *source) matches() bool {
	e := &s.entry
	if e.Note != "" {
		s.anyReturned = true
		s.lines = [len(s.lines)]lineState{}
		return true
	}
	line := &s.lines[lineOf(e.Stream)]
	continued := line.continues
	line.continues = false
	if !s.query.Since.IsZero() && e.Time != "" && e.Time < s.query.Since.UTC().Format(frame.TimeLayout) {
		return false
	}
	if !s.query.Until.IsZero() && e.Time > s.query.Until.UTC().Format(frame.TimeLayout) {
		return false
	}
	if s.span != nil && !s.inSpan(e) {
		return false
	}
	s.anyReturned = true
	if s.query.Grep != nil && !s.query.Grep.Match(e.Line) {
		return false
	}
	e.Continued, line.continues = continued, e.Partial && s.cut
	if !continued {
		if line.skipped = s.toSkip > 0; line.skipped {
			s.toSkip--
		}
	}
	return !line.skipped
}

// lineOf returns the index in source.lines for a stream.
func lineOf(stream string) int {
	switch stream {
	case frame.Stderr:
		return 1
	case frame.DropStream:
		return 2
	}
	return 0
}

func (s *source) inSpan(e *Entry) bool {
	after := !s.span.To.IsZero() && e.Time >= s.span.To.UTC().Format(frame.TimeLayout)
	switch {
	case e.Time == "": // its position decides
		return true
	case s.matched && s.query.Follow: // all later output, too
		return true
	case e.Run != "":
		in := e.Run == s.span.ID
		s.matched = s.matched || in
		if !in && (s.matched || after) {
			s.finish()
		}
		return in
	case after:
		s.finish()
		return false
	}
	s.matched = s.matched || e.Time >= s.span.From.UTC().Format(frame.TimeLayout)
	return s.matched
}

func (s *source) finish() {
	s.finished = true
	s.pending, s.start, s.missing = s.pending[:0], 0, 0
}

// nextEntry makes an entry of what is pending. It reports false if more has to be read first.
func (s *source) nextEntry() bool {
	s.entry = Entry{Program: s.entry.Program, Instance: s.log.Name(), FromStderrLog: s.log.OfStderr()}
	if s.entry.Program == "" {
		s.entry.Program = s.log.Program()
	}
	e := &s.entry
	if len(s.notes) > 0 {
		e.Note, s.notes = s.notes[0], s.notes[1:]
		e.Cursor = s.cursor()
		return true
	}
	s.skipUnmatched()
	text := s.pending[s.start:]
	if len(text) == 0 {
		if s.missing == 0 {
			return false
		}
		e.MissingBytes, s.missing = s.missing, 0
		e.Note = "output is missing here: its file was removed"
		if e.MissingBytes > 0 {
			e.Note = missingText(e.MissingBytes, s.missingCause)
		}
		s.missingCause = nil
		s.at = s.position
		e.Cursor = s.segments.Cursor(s.at)
		return true
	}
	records := s.segments.OutputEnd().Format.Records()
	limit := frame.MaxLine
	if records {
		limit = frame.BufferBytes // a record must be whole
	}
	s.cut = s.query.Raw // the next entry follows it in the file
	n := bytes.IndexByte(text[:min(len(text), limit+1)], '\n')
	taken := n + 1
	switch {
	case n >= 0:
	case len(text) > limit:
		n = frame.WholeRunes(text[:limit])
		taken, e.Partial, s.cut = n, true, true
	case s.returnRest || s.missing != 0:
		n = len(text)
		taken, e.Partial = n, true
	default:
		return false
	}
	s.start += taken
	s.at += int64(taken)
	e.Line, e.Cursor = text[:n], s.cursor()
	if records {
		s.decode(e, text[:n])
	}
	switch {
	case e.Time != "":
		s.key = max(s.key, e.Time)
	case s.cameAt(s.at - 1):
		s.key = max(s.key, s.arrivedKey)
		if s.query.Times {
			e.Time = s.arrivedKey
		}
	case !records:
		s.key = max(s.key, s.fileKey)
	}
	if e.Stream == "" && e.FromStderrLog {
		e.Stream = frame.Stderr
	}
	return true
}

// cameAt reports whether it is known when the byte at position p came, and sets arrived to that.
func (s *source) cameAt(p int64) bool {
	if p < s.live || s.arrivals == nil {
		return false
	}
	if p >= s.arrived.end {
		at, end := s.arrivals.of(p)
		if at.IsZero() {
			return false
		}
		if s.arrived.end = end; !s.arrived.at.Equal(at) {
			s.arrived.at, s.arrivedKey = at, at.UTC().Format(frame.TimeLayout)
		}
	}
	return true
}

// skipUnmatched skips whole lines in pending that can't match.
func (s *source) skipUnmatched() {
	switch {
	case s.literals == nil, s.span != nil, s.start == len(s.pending):
		return
	case s.literals.escaped && s.segments.OutputEnd().Format == frame.JSON:
		return
	case s.lines != [len(s.lines)]lineState{}: // a part that matched may be continued
		return
	}
	candidate := s.literals.find(s.pending, s.start)
	if end := bytes.LastIndexByte(s.pending[s.start:candidate], '\n') + 1; end > 0 {
		s.start += end
		s.at += int64(end)
	}
}

// addLines makes the entry a block, if the query allows that: it adds the lines that follow and
// differ in their text only.
func (s *source) addLines() {
	e := &s.entry
	if !s.query.Blocks || s.toSkip > 0 || e.Note != "" || e.Partial || e.Continued {
		return
	}
	records, begin := s.segments.OutputEnd().Format.Records(), s.start-len(e.Line)-1
	text := s.pending[s.start:]
	if !records && s.arrived.end > s.at-1 {
		text = text[:min(int64(len(text)), s.arrived.end-s.at)]
	}
	if bytes.IndexByte(e.Line, '\n') >= 0 { // a record that superd has not written
		return
	}
	joined := append(s.block[:0], e.Line...)
	lines := 1
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\n')
		if n < 0 || n > frame.MaxLine && !records {
			break
		}
		line := text[:n]
		if records {
			decoded, same := s.decoder.Same(line)
			if !same || bytes.IndexByte(decoded, '\n') >= 0 {
				break
			}
			if !s.query.Raw {
				line = decoded
			}
		}
		if s.query.Grep != nil && !s.query.Grep.Match(line) {
			break
		}
		if records && !s.query.Raw {
			joined = append(append(joined, '\n'), line...)
		}
		lines++
		s.start += n + 1
		s.at += int64(n + 1)
		text = text[n+1:]
	}
	if lines == 1 {
		return
	}
	if e.Line = joined; !records || s.query.Raw { // as they are in the file
		e.Line = s.pending[begin : s.start-1]
	}
	s.block = joined
	e.Lines, e.Cursor = lines, s.cursor()
}

// decode fills an entry from a record. If record is not one, the entry keeps the line.
func (s *source) decode(e *Entry, record []byte) {
	r, line, ok := s.decoder.Decode(s.segments.OutputEnd().Format, record)
	if !ok {
		return
	}
	e.Time, e.Stream = r.Time, r.Stream
	if r.Program != "" {
		e.Program = r.Program
	}
	e.Run = r.Run
	if e.Line != nil && !s.query.Raw {
		e.Line, e.Partial, s.cut = line, r.Partial, r.Partial
	}
}
