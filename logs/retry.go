package logs

import (
	"slices"
	"time"
)

// pause waits before a failed write is tried again, or until the other stream has output. It
// reports false when closing.
func (c *stream) pause() bool {
	c.store.poller.giveWay(c.wakeup)
	timer := time.NewTimer(c.store.pause(int(c.failures) - 1))
	defer timer.Stop()
	for {
		c.hear()
		// After hear: a barrier that was added while the collector was dirty has not rung.
		if c.lastTry() {
			return true
		}
		now, begun := c.attend()
		if now {
			return true
		}
		select {
		case <-timer.C:
			return true
		case <-begun:
		case <-c.news:
		case <-c.quit:
			return false
		}
	}
}

// attend makes the other stream's output wake c, whose file fails. It reports whether there is some
// now that can be written. begun is nil, or ready when to call attend again, for the rest of a line
// causes no event (see awaitRest).
func (c *stream) attend() (now bool, begun <-chan time.Time) {
	for _, s := range c.inOrder() {
		if !c.mayOvertake(s) {
			continue
		}
		n := s.bytes()
		switch {
		case n == 0:
			c.listen(s)
		case !s.unended(n) || s.restDue():
			return true, nil
		default:
			begun = time.After(restLook)
		}
	}
	return false, begun
}

// hear resets dirty, so that the next output rings the wakeup again.
func (c *Collector) hear() { c.state.CompareAndSwap(dirty, draining) }

// lastTry reports whether a new barrier requires another write now, to see whether it fails.
func (s *stream) lastTry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.barriers, func(m barrier) bool { return m.failed != nil && m.at[s.which] == nowhere })
}

// mayOvertake reports whether output of s can be written while c's file fails: s has another file,
// without failures, and need not wait for c at a barrier.
func (c *stream) mayOvertake(s *stream) bool { return s.file != c.file && s.failures == 0 && !s.held() }

// held reports whether the other stream still has to reach a barrier that this one has passed.
func (s *stream) held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.barriers, func(m barrier) bool { return m.at[s.which] == passed })
}

// sleep waits for pause at most, or until output comes. It reports false when closing.
func (c *Collector) sleep(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.news:
		return true
	case <-c.quit:
		return false
	}
}

// An unfinished line has no end yet.
type unfinished struct {
	at    int64 // position of its start: bytes of output before it
	bytes int64 // how many of it were seen
	since time.Time
	due   bool // write what is there as a partial line
}

// sawBegun notes that the pipe has only the first n bytes of a line.
func (s *stream) sawBegun(n int64) {
	if s.rest == nil || s.rest.at != s.total {
		s.meet().rest = &unfinished{at: s.total, since: time.Now()}
	}
	s.rest.bytes = n
}

// unended reports whether n bytes in the pipe are known to be a line without its end.
func (s *stream) unended(n int64) bool {
	return s.rest != nil && s.rest.at == s.total && s.rest.bytes == n
}

// restDue reports whether the rest of a begun line is no longer waited for, and remembers that.
func (s *stream) restDue() bool {
	s.rest.due = s.rest.due || time.Since(s.rest.since) >= restPatience
	return s.rest.due
}
