package follow

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"superd/logs/frame"
	"superd/logs/segment"
)

// A source returns the entries of one log file. It belongs to a [Reading].
type source struct {
	follower
	query *Query
	span  *Span // nil: any run
	end   int64 // position to stop at

	pending      []byte // bytes read, from position at on; those up to start were returned
	start        int
	at           int64
	base         segment.Cursor // cursor of the segment from which pending was read
	origin       int64          // position of base
	missing      int64          // bytes missing after pending; 0: none; -1: unknown how many
	missingCause error          // why they can't be shown; nil: their file was removed
	returnRest   bool           // return a line without an end in pending as it is
	cut          bool           // a partial entry continues in the next one
	toSkip       int            // how many matching lines are still to be skipped
	lines        [3]lineState   // of each stream's present line; first of lines without a stream
	matched      bool           // an entry of the run was returned
	anyReturned  bool           // an entry that matches, or a note, was returned
	notes        []string
	decoder      frame.Decoder
	block        []byte         // memory of a block of records' lines
	literals     *literalSearch // in pending; nil: any line may match
	live         int64          // position from which on output came since the reading began
	arrivals     *arrivals      // nil: nothing is followed
	arrived      arrival        // of the newest line that has one
	arrivedKey   string         // arrived.at as text
	key          string         // entries of several sources are returned in the order of key
	fileKey      string         // key of lines without a time
	entry        Entry          // the next one, if ready
	ready        bool
	finished     bool
	queued       bool // it is in Reading.ready
	order        int  // index in the reading
}

// A lineState is the state of the present line of a stream.
type lineState struct {
	continues bool // in the next entry
	skipped   bool // it is one of those to skip
}

// A startPoint is where a source begins.
type startPoint struct {
	resume *segment.Cursor // at this cursor
	// fromStart is at the first byte that the writer has written; else the query decides.
	fromStart bool
}

// seekStart sets the position to the start point.
func (s *source) seekStart(b startPoint) error {
	segs, _ := s.currentSegments()
	if err := s.setSegments(segs); err != nil {
		return err
	}
	s.end = noEnd
	if !s.query.Follow {
		s.end = segs.End()
	}
	if s.startLive(segs.End()); b.fromStart {
		s.startLive(segs.First())
	}
	if elsewhere := s.log.Destination(); elsewhere != "" {
		s.note("its output goes to " + elsewhere + ", not into a file")
	}
	if outage := s.log.OutageText(); outage != "" && b.resume == nil {
		s.note(outage)
	}
	err := s.seekTo(b)
	s.at = s.position
	s.base, s.origin = segs.Cursor(s.position), s.position
	s.base.Offset, s.origin = 0, s.position-s.base.Offset
	if s.query.Follow && err == nil {
		s.entry, s.ready = Entry{Program: s.log.Program(), Instance: s.log.Name(), FromStderrLog: s.log.OfStderr(), Cursor: s.cursor(), cursorOnly: true}, true
	}
	return err
}

func (s *source) seekTo(b startPoint) error {
	switch {
	case b.resume != nil:
		return s.read(func() error {
			var exact bool
			if s.position, exact = s.segments.Locate(*b.resume); !exact {
				s.missing = -1
			}
			return nil
		})
	case b.fromStart:
		s.position = s.segments.First()
		return nil
	}
	from, err := s.earliest()
	if err != nil {
		return err
	}
	switch {
	case s.query.Lines < 0:
		s.position = from
	case s.query.Grep == nil && s.span == nil && s.query.Since.IsZero() && s.query.Until.IsZero() && !s.segments.OutputEnd().Format.Records():
		// a line may be several records
		err = s.seekLastLines(s.ctx, s.query.Lines, min(s.end, s.segments.End()))
	default:
		err = s.seekLastMatches(from)
	}
	return err
}

// earliest returns the first position at which a match may begin, and sets the end.
func (s *source) earliest() (from int64, err error) {
	from = s.segments.At(math.MinInt64).Start
	coarse := false
	if !s.query.Since.IsZero() {
		if from, coarse, err = s.seek(s.query.Since); err != nil {
			return 0, err
		}
		if coarse {
			s.note("the log has no times: this is all of the file that was written to at that time or later")
		}
	}
	if !s.query.Until.IsZero() {
		last := s.segments.Since(s.query.Until)
		s.end = min(s.end, last.End)
		if !s.segments.OutputEnd().Format.Records() && last.End > last.Start {
			s.note("the log has no times: this continues to the end of the file that was written to at that time or later")
		}
	}
	if s.span == nil {
		return from, nil
	}
	begins := int64(math.MinInt64)
	if s.span.Start != nil {
		err = s.read(func() error {
			var exact bool
			if begins, exact = s.segments.Locate(*s.span.Start); !exact {
				s.missing = -1
			}
			if s.span.End != nil {
				end, _ := s.segments.Locate(*s.span.End)
				s.end = min(s.end, end)
			}
			return nil
		})
	} else if begins, coarse, err = s.seek(s.span.From); coarse && begins < s.endBefore(s.span.End) {
		s.note("the start of this run in the log is unknown: lines of other runs may be included")
	}
	return max(from, begins), err
}

// endBefore ends the output at the start of the next run, if this log has it, and returns its end.
func (s *source) endBefore(next *segment.Cursor) (end int64) {
	if next != nil {
		_ = s.read(func() error { // the next read returns its error
			if p, exact := s.segments.Locate(*next); exact {
				s.end = min(s.end, p)
			}
			return nil
		})
	}
	return min(s.end, s.segments.End())
}

func (s *source) note(text string) { s.notes = append(s.notes, text) }

// seek returns a position before which all output is older than t. coarse reports that much older
// output may follow it, as the log has no times.
func (s *source) seek(t time.Time) (p int64, coarse bool, err error) {
	seg := s.segments.Since(t)
	if seg.End == seg.Start {
		return seg.Start, false, nil
	}
	defer s.closeFile()
	if ok, err := s.openSegment(seg); !ok || err != nil {
		if errors.As(err, new(segment.UnpackError)) {
			err = nil // reading from there reports it
		}
		return seg.Start, false, err
	}
	if !s.segments.OutputEnd().Format.Records() {
		if !seg.Rotated() && s.modified.Before(t) {
			return seg.End, false, nil
		}
		return seg.Start, true, nil
	}
	// The last line known to be older begins at low. The line at high, if there is one, is not
	// older.
	limit := t.UTC().Format(frame.TimeLayout)
	low, high := seg.Start, seg.End
	for high-low > int64(len(s.buffer)) {
		if err := s.ctx.Err(); err != nil {
			return 0, false, err
		}
		middle := low + (high-low)/2
		n, err := s.readAt(s.buffer[:min(int64(len(s.buffer)), high-middle)], middle-seg.Start)
		if n == 0 {
			return low, false, err
		}
		_, rest, _ := bytes.Cut(s.buffer[:n], newline)
		line, _, whole := bytes.Cut(rest, newline)
		var e Entry
		if s.decode(&e, line); !whole || e.Time == "" || e.Time >= limit {
			high = middle // or it has no time: continue before it
			continue
		}
		low = middle + int64(n-len(rest))
	}
	return low, false, nil
}

// seekLastMatches sets the position to where the last matching lines after from begin. It goes back
// in growing steps, and counts.
func (s *source) seekLastMatches(from int64) error {
	end := min(s.end, s.segments.End())
	if s.query.Lines == 0 {
		s.position = end
		return nil
	}
	saved, last := *s, end
	for lines := max(4*s.query.Lines, 256); ; lines *= 4 {
		if err := s.seekLastLines(s.ctx, lines, end); err != nil {
			return err
		}
		all := s.position <= from || s.position == last
		last = s.position
		begin, count := max(s.position, from), 0
		s.position, s.at, s.end, s.notes = begin, begin, end, nil
		for {
			ok, err := s.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if s.ready = false; s.entry.Note == "" && !s.entry.Continued {
				count += max(s.entry.Lines, 1)
			}
		}
		s.closeFile()
		*s = saved
		s.position = begin
		if count > s.query.Lines || all { // the first one found may begin earlier
			s.toSkip = max(count-s.query.Lines, 0)
			return nil
		}
	}
}

// fill reads more. It reports whether another call may return something at once.
func (s *source) fill() (more bool, err error) {
	if err := s.ctx.Err(); err != nil {
		return false, err
	}
	newest, released := s.currentSegments() // before the step, as in follower.run
	if newest.OutputEnd().Format == frame.Direct {
		if err := s.read(func() error { newest.Refresh(); return nil }); err != nil {
			return false, err
		}
		s.recordArrival()
	}
	s.pending = append(s.pending[:0], s.pending[s.start:]...)
	s.start = 0
	if s.literals != nil {
		s.literals.reset()
	}
	if skipped, err := s.skipBehind(); skipped || err != nil {
		return true, err
	}
	before := len(s.pending)
	if s.position < s.end {
		if more, err = s.showNext(s.end); err != nil {
			return false, fmt.Errorf("show output of %s: %w", s.log.Name(), err)
		}
	}
	if len(s.pending) > before {
		s.returnRest = false
		if s.missing == 0 {
			s.at = s.position - int64(len(s.pending)) // not all of it need have a position
		}
		s.base, s.origin = s.segments.SegmentCursor(s.fileSegment)
		s.fileKey = s.newFileKey()
	}
	if more {
		return true, nil
	}
	switch {
	case !s.query.Follow:
		s.returnRest, s.finished = true, true
		return true, nil
	case newest != s.segments && len(s.pending) > 0:
		s.returnRest = true // no more of the line comes
		return true, nil
	case newest != s.segments: // the path has changed
		if err := s.setSegments(newest); err != nil {
			return false, err
		}
		s.position = newest.First()
		s.startLive(s.position)
		s.at = s.position
		s.base, s.origin = newest.Cursor(s.at), s.at
		s.base.Offset, s.origin = 0, s.at-s.base.Offset
		return true, nil
	case released:
		s.returnRest, s.finished = true, true
		return true, nil
	case len(s.pending) > 0 && !s.returnRest && (s.query.Raw || newest.OutputEnd().Ended == s.position):
		s.returnRest = true
		return true, nil
	}
	return false, nil
}

// maxBehind is by how many bytes a reader with Query.Skip is behind before output is skipped. Then
// it is keepBehind bytes behind.
const (
	maxBehind  = 16 << 20
	keepBehind = 1 << 20
)

// errBehind is why skipped bytes are missing.
var errBehind = errors.New("they came faster than they were shown, the log has them")

// skipBehind skips output if the query allows that and the reader is too far behind. It continues
// at the start of a line. Output from before the reading is never skipped.
func (s *source) skipBehind() (skipped bool, err error) {
	from, end := s.position, s.segments.End()
	if !s.query.Skip || from < s.live || end-from <= maxBehind {
		return false, nil
	}
	if err := s.seekLastLines(s.ctx, 1, end-keepBehind); err != nil {
		return false, err
	}
	if s.position = max(s.position, from); s.position == from {
		return false, nil // in an endless line
	}
	s.writeMissing(s.position-from, errBehind)
	return true, nil
}

// startLive sets the position from which on output came while the reading followed.
func (s *source) startLive(p int64) {
	s.live, s.arrived = p, arrival{}
	if s.arrivals == nil {
		return
	}
	log := s.segments
	if log.OutputEnd().Format.Records() {
		log = nil // it has the times
	}
	s.arrivals.start(log, p)
	s.recordArrival()
}

// recordArrival records when the output until the present end has come. Safe for concurrent use.
func (s *source) recordArrival() {
	if segs, _ := s.log.Segments(); segs != nil && s.arrivals != nil {
		s.arrivals.add(segs, segs.End(), time.Now())
	}
}

// newFileKey returns the key of output without times: when the file was last written to, as far as
// that is known.
func (s *source) newFileKey() string {
	if s.fileSegment.Rotated() {
		return time.UnixMicro(int64(s.fileSegment.Stamp)).UTC().Format(frame.TimeLayout)
	}
	return s.modified.UTC().Format(frame.TimeLayout)
}

// releaseIdle releases what a waiting source does not need.
func (s *source) releaseIdle() {
	if len(s.pending) == s.start {
		s.pending, s.start, s.block = nil, 0, nil
	}
	if s.fileSegment.Compression == "" {
		s.closeFile()
	}
}

// Write adds bytes that the follower shows to those that are pending.
func (s *source) Write(p []byte) (int, error) {
	s.pending = append(s.pending, p...)
	return len(p), nil
}

// writeMissing counts bytes that are missing.
func (s *source) writeMissing(bytes int64, cause error) {
	if s.missing >= 0 {
		s.missing += bytes
	}
	if cause != nil {
		s.missingCause = cause
	}
}

// retract removes the last bytes of pending, a torn record that will be written again.
func (s *source) retract(torn int64) {
	s.pending = s.pending[:max(len(s.pending)-int(torn), s.start)]
	s.at = min(s.at, s.position)
}

// cursor returns the cursor of what follows the entries returned.
func (s *source) cursor() segment.Cursor {
	c := s.base
	c.Offset = max(s.at-s.origin, 0)
	return c
}
