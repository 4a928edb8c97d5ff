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
	case s.state.Load() == closing: // release reports what is left in the pipe
		return false, false
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
func (s *stream) moveTurn() (more bool, err error) {
	peek := s.newPeekBuffer()
	defer peek.close()
	route := s.route()
	if err := s.applyPending(); err != nil {
		return true, err
	}
	if s.route() != route {
		return true, errRouteChanged
	}

	moved := int64(0)
	for moved < turnBytes {
		if s.state.Load() == closing {
			return false, nil
		}
		limit, end := s.nextLimit()
		// apply again: a function that waited for a barrier may have changed the file
		if s.barrierReached(false) {
			if err := s.applyPending(); err != nil {
				return true, err
			}
			if s.route() != route {
				return true, errRouteChanged
			}
			limit, end = s.nextLimit()
		}
		if limit == 0 {
			return true, nil // the other stream has to reach the barrier, too
		}
		mayMove, err := s.saveRunStart()
		if err != nil {
			return true, err
		}
		if s.startSaved != nil {
			return true, nil // wait for the save without a slot
		}
		var n int64
		var progress bool
		if !mayMove { // the FIFO was empty
		} else if !s.byLine() {
			n, err = s.file.take(s.pipe(), min(limit, turnBytes-moved), &peek)
			progress = n > 0
		} else {
			n, progress, err = s.takeLines(limit, end, &peek)
		}
		s.countWritten(n)
		if err != nil {
			return true, err
		}
		if !progress {
			if err := s.putDropRecord(); err != nil {
				return true, err
			}
			// what is still there is a partial line
			s.barrierReached(!s.byLine() || s.bytes() == 0)
			s.countBurst(moved)
			return false, nil
		}
		if moved += n; moved < busyBytes && s.nothingPending() {
			return false, nil // new output causes an event, which is cheaper than another check
		}
	}
	s.countBurst(moved)
	s.file.checkPath = true
	if s.nothingPending() && s.store.poller.noneWaits() {
		return false, nil // it gets another event, after the others
	}
	return true, nil
}

func (s *stream) newPeekBuffer() peekBuffer {
	return peekBuffer{buffers: &s.store.buffers, refused: &s.store.refused, drain: &s.drainState}
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
