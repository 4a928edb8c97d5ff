package logs

import (
	"math"
	"slices"

	"superd/logs/frame"
	"superd/logs/pipe"
)

// nextLimit returns how many bytes may be moved at a time, up to the next barrier, and whether a
// line without a newline ends there. The limit is 0 while the other stream has not reached a
// barrier that this one has passed.
//
// New barriers get their position here, after what is in the pipe, as everything taken is in the
// file now.
func (s *stream) nextLimit() (limit int64, end frame.Ending) {
	c := s.c
	c.shared.Lock()
	defer c.shared.Unlock()
	limit = math.MaxInt64
	for s.beginLocating() { // repeatedly: more may be added meanwhile
		c.shared.Unlock()
		end := s.total + s.source.Bytes() // without the lock, as it may wait
		c.shared.Lock()
		s.endLocating(end)
		c.removeSilentRuns()
	}
	for i := range c.shared.barriers {
		m := &c.shared.barriers[i]
		at := &m.at[s.which]
		if *at == passed {
			limit = 0
			continue
		}
		ahead := *at - s.total
		if ahead <= 0 && m.endsLine() {
			s.endDroppedLine()
			s.setLine(frame.AtBeginning)
		}
		if ahead > 0 && ahead < limit {
			limit, end = ahead, frame.WritePartial
		}
		if ahead == limit && m.endsLine() {
			end = frame.LineComplete
		}
	}
	return limit, end
}

// beginLocating sets new barriers to locating and reports whether there are any. The caller holds
// the lock.
func (s *stream) beginLocating() (found bool) {
	for i := range s.c.shared.barriers {
		if at := &s.c.shared.barriers[i].at[s.which]; *at == unlocated {
			*at, found = locating, true
		}
	}
	return found
}

// endLocating sets the position of barriers that are locating. The caller holds the lock.
func (s *stream) endLocating(end int64) {
	for i := range s.c.shared.barriers {
		if at := &s.c.shared.barriers[i].at[s.which]; *at == locating {
			*at = end
		}
	}
}

// barrierReached passes the barriers up to s.total, or all with a position if the FIFO was found
// empty. It calls reached of those that all streams have passed. It reports whether it passed any.
func (s *stream) barrierReached(empty bool) bool {
	c := s.c
	c.shared.Lock()
	passedAny := false
	for i := range c.shared.barriers {
		at := &c.shared.barriers[i].at[s.which]
		if *at == unlocated || *at > s.total && !empty {
			break
		}
		passedAny = passedAny || *at != passed
		*at = passed
	}
	n := 0
	for n < len(c.shared.barriers) && !slices.ContainsFunc(c.shared.streams, func(s *stream) bool { return s.source.Attached() && c.shared.barriers[n].at[s.which] != passed }) {
		n++
	}
	complete := c.shared.barriers[:n:n]
	if c.shared.barriers = c.shared.barriers[n:]; len(c.shared.barriers) == 0 {
		c.shared.barriers = nil
	}
	c.shared.Unlock()
	for _, m := range complete {
		m.reached()
	}
	return passedAny
}

// removeSilentRuns removes the barriers of runs that have written nothing: those that begin where
// the next run does. Otherwise a program that ends repeatedly while its log can't be written would
// have any number of them. The caller holds the lock.
func (c *Collector) removeSilentRuns() {
	remaining := c.shared.barriers[:0]
	lastStart := -1 // index in remaining of the newest run's start
	for _, m := range c.shared.barriers {
		if m.kind == runStartBarrier {
			if lastStart >= 0 && remaining[lastStart].at == m.at {
				silent := remaining[lastStart:]
				remaining = append(remaining[:lastStart], slices.DeleteFunc(silent, func(m barrier) bool { return m.kind != outputBarrier })...)
			}
			lastStart = len(remaining)
		}
		remaining = append(remaining, m)
	}
	clear(c.shared.barriers[len(remaining):])
	c.shared.barriers = remaining
}

// failBarriers calls failed of the barriers that have one, and removes them.
func (s *stream) failBarriers(err error) {
	var failed []func(error)
	s.c.shared.Lock()
	s.c.shared.barriers = slices.DeleteFunc(s.c.shared.barriers, func(m barrier) bool {
		fails := m.failed != nil && m.at[s.which] != unlocated && m.at[s.which] != passed
		if fails {
			failed = append(failed, m.failed)
		}
		return fails
	})
	s.c.shared.Unlock()
	for _, f := range failed {
		f(err)
	}
}

// endLines completes lines of which a part is a message already: they get no more text. The caller
// holds the lock.
func (c *Collector) endLines() {
	for _, s := range c.shared.streams {
		if s.source.Attached() {
			s.setLine(frame.AtBeginning)
		}
	}
}

// allWritten reports whether all output is in the files. The loop may call it. The caller holds the
// lock and has found the collector idle: a goroutine needs it before it begins to drain.
func (c *Collector) allWritten() bool {
	return !slices.ContainsFunc(c.shared.streams, func(s *stream) bool {
		return s.source.Attached() && pipe.Readable(s.source.FD()) || s.dropped.lineBytes > 0 || s.source.Buffered() > 0
	})
}

// waitsAtBarrier reports whether the other stream has not reached a barrier yet that this one has
// passed.
func (s *stream) waitsAtBarrier() bool {
	s.c.shared.Lock()
	defer s.c.shared.Unlock()
	return slices.ContainsFunc(s.c.shared.barriers, func(m barrier) bool { return m.at[s.which] == passed })
}

// barrierNeedsTry reports whether a new barrier requires another write now, to find out whether it
// fails.
func (s *stream) barrierNeedsTry() bool {
	s.c.shared.Lock()
	defer s.c.shared.Unlock()
	return slices.ContainsFunc(s.c.shared.barriers, func(m barrier) bool { return m.failed != nil && m.at[s.which] == unlocated })
}
