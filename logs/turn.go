package logs

import (
	"errors"

	"superd/logs/pipe"
)

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
	drops := s.file.set.Drop
	if drops || s.c.shared.outlet != nil { // fileOp acquires the slot, or a sink needs none
		s.c.store.poller.ReportBlocked(s.c.shared.wakeup)
		more, err = s.moveTurn()
	} else {
		if s.c.store.writers.Stalls(s.file.FileSystem()) {
			s.c.store.poller.ReportBlocked(s.c.shared.wakeup)
		}
		slot := s.file.AcquireSlot(s.c.store.writers, s.c.shared.wakeup.Stop)
		if slot == nil {
			return false, false
		}
		more, err = s.moveTurn()
		slot.Release()
	}
	if errors.Is(err, errRouteChanged) {
		return true, true
	}
	s.reportResult(err)
	switch {
	case err == nil:
		return more, true
	case s.c.state.Load() == closing: // release reports what is left in the pipe
		return false, false
	case drops:
		return more, s.dropFor(s.c.store.retryDelay(int(s.failures)-1), err)
	default:
		return more, s.awaitRetry()
	}
}

// A route is what decides how a turn reaches its log.
type route struct{ drops, outlet bool }

func (s *stream) route() route { return route{s.file.set.Drop, s.c.shared.outlet != nil} }

// errRouteChanged is the error of a turn during which the route has changed, so that it needs other
// slots.
var errRouteChanged = errors.New("the log has changed")

// moveTurn moves bytes for as long as a slot may be held. It reports whether it stopped before the
// FIFO was empty. The error is errRouteChanged if the turn has to begin anew.
func (s *stream) moveTurn() (more bool, err error) {
	peek := s.newPeek()
	defer peek.Close()
	route := s.route()
	if err := s.applyPending(); err != nil {
		return true, err
	}
	if s.route() != route {
		return true, errRouteChanged
	}

	moved := int64(0)
	s.littleLeft = false
	for moved < turnBytes {
		if s.c.state.Load() == closing {
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
			n, err = s.file.Take(min(limit, turnBytes-moved), &peek)
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
			s.barrierReached(!s.byLine() || s.source.Bytes() == 0)
			s.countBurst(moved)
			s.littleLeft = true
			return false, nil
		}
		moved += n
		s.c.worker.pace.drainTakes++
		if n < busyBytes && s.nothingPending() && (!s.byLine() || moved >= busyBytes || s.c.worker.pace.pause > 0) {
			s.countBurst(moved)
			s.littleLeft = true
			return s.byLine(), nil // new output causes an event, cheaper than another check
		}
	}
	s.countBurst(moved)
	s.file.CheckPath()
	if s.nothingPending() && !s.byLine() && s.c.store.poller.NoneWaits() {
		return false, nil // it gets another event, after the others
	}
	return true, nil
}

// countBurst records how many bytes were in the pipe at a time. A program that fills its pipe
// repeatedly gets a bigger one.
func (s *stream) countBurst(bytes int64) {
	if s.capacity > 0 || bytes < busyBytes {
		return
	}
	if second := uint32(s.c.store.now().Unix()); second != s.second {
		s.second, s.burst = second, 0
	}
	if s.burst += int32(bytes); s.burst >= turnBytes {
		s.capacity = uint16(pipe.Grow(s.source.FD(), pipe.BusyCapacity) >> 10)
	}
}

// nothingPending reports whether there is nothing to do but to move bytes.
func (s *stream) nothingPending() bool { return !s.c.hasBarriers() && s.source.Buffered() == 0 }

func (c *Collector) hasBarriers() bool {
	c.shared.Lock()
	defer c.shared.Unlock()
	return len(c.shared.barriers) > 0
}

// applyPending applies Reopen, SetOptions and Clear. It also requests a check, before the next byte
// is written, that the path still names the open file.
func (s *stream) applyPending() (err error) {
	if s.c.reopen.Load() {
		_, err = s.fileOp(0, func() error {
			s.c.applyOptions()
			s.c.clearLogs(nil)
			return nil
		})
	}
	s.file.RequestCheck()
	return err
}
