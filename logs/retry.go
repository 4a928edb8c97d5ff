package logs

import (
	"slices"
	"time"
)

// retryDelay returns the delay before a failed write is tried again; attempt counts from 0.
func retryDelay(attempt int) time.Duration {
	return min(100*time.Millisecond<<min(max(attempt, 0), 10), 2*time.Second)
}

// awaitRetry waits before a failed write is tried again, or until the other stream has output. It
// reports false when closing.
func (s *stream) awaitRetry() bool {
	s.store.poller.reportBlocked(s.wakeup)
	timer := time.NewTimer(s.store.retryDelay(int(s.failures) - 1))
	defer timer.Stop()
	for {
		s.clearDirty()
		// After clearDirty: a barrier that was added while the collector was dirty woke nothing.
		if s.barrierNeedsTry() {
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
		case <-s.wake:
		case <-s.stop:
			return false
		}
	}
}

// watchOther makes the output of the other stream wake s, whose file fails. It reports whether
// there is some now that can be written. recheck is nil, or receives when watchOther has to be
// called again: the rest of a line causes no event (see awaitLineEnd).
func (s *stream) watchOther() (now bool, recheck <-chan time.Time) {
	for _, other := range s.inOrder() {
		if !s.mayProceed(other) {
			continue
		}
		n := other.bytes()
		switch {
		case n == 0:
			s.armWatch(other)
		case !other.isPartial(n) || other.partialDue():
			return true, nil
		default:
			recheck = time.After(partialPoll)
		}
	}
	return false, recheck
}

// clearDirty resets dirty, so that the next output signals the wakeup again.
func (c *Collector) clearDirty() { c.state.CompareAndSwap(dirty, draining) }

// barrierNeedsTry reports whether a new barrier requires another write now, to find out whether it
// fails.
func (s *stream) barrierNeedsTry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.barriers, func(m barrier) bool { return m.failed != nil && m.at[s.which] == unlocated })
}

// mayProceed reports whether output of other can be written while s's file fails: other has another
// file, without failures, and does not wait for s at a barrier.
func (s *stream) mayProceed(other *stream) bool {
	return other.file != s.file && other.failures == 0 && !other.waitsAtBarrier()
}

// waitsAtBarrier reports whether the other stream has not reached a barrier yet that this one has
// passed.
func (s *stream) waitsAtBarrier() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.barriers, func(m barrier) bool { return m.at[s.which] == passed })
}

// awaitOutput waits until output comes, for pause at most. It reports false when closing.
func (c *Collector) awaitOutput(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.wake:
		return true
	case <-c.stop:
		return false
	}
}

// A partialLine is a line whose end has not come yet.
type partialLine struct {
	at    int64 // bytes of output before it
	bytes int64 // of it in the pipe when last checked
	since time.Time
	due   bool // what is there must be written as a partial record
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
