package logs

import "time"

// awaitRetry waits before a failed write is tried again, or until the other stream has output. It
// reports false when closing.
func (s *stream) awaitRetry() bool {
	s.c.store.poller.ReportBlocked(s.c.shared.wakeup)
	timer := time.NewTimer(s.c.store.retryDelay(int(s.failures) - 1))
	defer timer.Stop()
	for {
		s.c.clearDirty()
		// After clearDirty: a barrier that was added while the collector was dirty woke nothing.
		if s.barrierNeedsTry() || s.c.reopen.Load() {
			return true
		}
		now, recheck := s.watchOther()
		if now {
			return true
		}
		select {
		case <-timer.C:
			return true
		case <-recheck:
		case <-s.c.shared.wakeup.Wake:
		case <-s.c.shared.wakeup.Stop:
			return false
		}
	}
}

// watchOther makes the output of the other stream wake s, whose file fails. It reports whether
// there is some now that can be written. recheck is nil, or receives when watchOther has to be
// called again: the rest of a line causes no event (see awaitLineEnd).
func (s *stream) watchOther() (now bool, recheck <-chan time.Time) {
	for _, other := range s.c.inOrder() {
		if !s.mayProceed(other) {
			continue
		}
		n := other.source.Bytes()
		switch {
		case n == 0:
			s.c.armWatch(other)
		case !other.isPartial(n) || other.partialDue():
			return true, nil
		default:
			recheck = time.After(partialPoll)
		}
	}
	return false, recheck
}

// mayProceed reports whether output of other can be written while s's file fails: other has another
// file, without failures, and does not wait for s at a barrier.
func (s *stream) mayProceed(other *stream) bool {
	return other.file != s.file && other.failures == 0 && !other.waitsAtBarrier()
}

// notePartial records that the pipe has only the first n bytes of a line.
func (s *stream) notePartial(n int64) {
	if s.partial == nil || s.partial.at != s.total {
		s.ensureErrors().partial = &partialLine{at: s.total, since: time.Now()}
	}
	s.partial.bytes = n
}

// isPartial reports whether n bytes in the pipe are known to be a line without its end.
func (s *stream) isPartial(n int64) bool {
	return s.partial != nil && s.partial.at == s.total && s.partial.bytes == n
}

// partialDue reports whether superd no longer waits for the rest of a line. Once true, it stays so
// for that line.
func (s *stream) partialDue() bool {
	s.partial.due = s.partial.due || time.Since(s.partial.since) >= partialTimeout
	return s.partial.due
}

// partialTimeout is how long superd waits for the rest of a line. After that the part that is there
// becomes a record.
const partialTimeout = 200 * time.Millisecond

// partialPoll is how often the pipe is checked for the rest of a line while another log can't be
// written.
const partialPoll = 10 * time.Millisecond
