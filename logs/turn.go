package logs

import "errors"

// serve moves bytes for a turn, and waits a while if that fails. It reports whether there may be
// more to move; open is false when the collector is closing. If the turn only reported the start of
// a run, another turn follows at once, so that newer output of the other stream is not written
// first.
func (s *stream) serve() (more, open bool) {
	more, open = s.serveTurn()
	if s.awaitRunStartSaved() && open {
		return s.serveTurn()
	}
	return more, open
}

func (s *stream) serveTurn() (more, open bool) {
	var err error
	drops := s.file.Drop
	if drops || s.outlet != nil { // fileOp acquires the slot, or a sink needs none
		s.store.poller.reportBlocked(s.wakeup)
		more, err = s.moveTurn()
	} else {
		if s.store.slots.stalls(s.file.fileSystem) {
			s.store.poller.reportBlocked(s.wakeup)
		}
		slot := s.file.acquireSlot(&s.store.slots, s.stop)
		if slot == nil {
			return false, false
		}
		more, err = s.moveTurn()
		slot.release()
	}
	if errors.Is(err, errRouteChanged) {
		return true, true
	}
	s.reportResult(err)
	switch {
	case err == nil:
		return more, true
	case drops:
		return more, s.dropFor(s.store.retryDelay(int(s.failures)-1), err)
	default:
		return more, s.awaitRetry()
	}
}

// A route is what decides how a turn reaches its log.
type route struct{ drops, outlet bool }

func (s *stream) route() route { return route{s.file.Drop, s.outlet != nil} }

// errRouteChanged is the error of a turn during which the route has changed, so that it needs other
// slots.
var errRouteChanged = errors.New("the log has changed")

// moveTurn moves bytes for as long as a slot may be held. It reports whether it stopped before the
// FIFO was empty. The error is errRouteChanged if the turn has to begin anew.
func (c *stream) moveTurn() (more bool, err error) {
	peek := c.newPeekBuffer()
	defer peek.close()
	route := c.route()
	if err := c.applyPending(); err != nil {
		return true, err
	}
	if c.route() != route {
		return true, errRouteChanged
	}

	moved := int64(0)
	for moved < turnBytes {
		if c.state.Load() == closing {
			return false, nil
		}
		limit, end := c.nextLimit()
		// apply again: a function that waited for a barrier may have changed the file
		if c.barrierReached(false) {
			if err := c.applyPending(); err != nil {
				return true, err
			}
			if c.route() != route {
				return true, errRouteChanged
			}
			limit, end = c.nextLimit()
		}
		if limit == 0 {
			return true, nil // the other stream has to reach the barrier, too
		}
		mayMove, err := c.saveRunStart()
		if err != nil {
			return true, err
		}
		if c.startSaved != nil {
			return true, nil // wait for the save without a slot
		}
		var n int64
		var progress bool
		if !mayMove { // the FIFO was empty
		} else if !c.byLine() {
			n, err = c.file.take(c.pipe(), min(limit, turnBytes-moved), &peek)
			progress = n > 0
		} else {
			n, progress, err = c.takeLines(limit, end, &peek)
		}
		c.countWritten(n)
		if err != nil {
			return true, err
		}
		if !progress {
			if err := c.putDropRecord(); err != nil {
				return true, err
			}
			// what is still there is a partial line
			c.barrierReached(!c.byLine() || c.bytes() == 0)
			c.countBurst(moved)
			return false, nil
		}
		if moved += n; moved < busyBytes && c.nothingPending() {
			return false, nil // new output causes an event, which is cheaper than another check
		}
	}
	c.countBurst(moved)
	c.file.checkPath = true
	if c.nothingPending() && c.store.poller.noneWaits() {
		return false, nil // it gets another event, after the others
	}
	return true, nil
}

func (s *stream) newPeekBuffer() peekBuffer {
	return peekBuffer{buffers: &s.store.buffers, refused: &s.store.refused, drain: &s.drain}
}

// countBurst records how many bytes were in the pipe at a time. A program that fills its pipe
// repeatedly gets a bigger one.
func (s *stream) countBurst(bytes int64) {
	if s.pipeGrown || bytes < busyBytes {
		return
	}
	if second := uint32(s.store.now().Unix()); second != s.second {
		s.second, s.burst = second, 0
	}
	if s.burst += int32(bytes); s.burst >= turnBytes {
		s.pipeGrown = true
		growPipe(s.pipe(), busyPipe)
	}
}

// byLine reports whether lines are moved instead of bytes. That is also necessary while the log
// lacks a drop record, or the rest of a line has to be dropped.
func (s *stream) byLine() bool {
	return s.file.byLine() || s.dropped.bytes > 0 || s.dropped.lineBytes > 0
}

// nothingPending reports whether there is nothing to do but to move bytes.
func (s *stream) nothingPending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.barriers) == 0 && !s.byLine() && len(s.ahead.text()) == 0
}
