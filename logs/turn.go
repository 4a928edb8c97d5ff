package logs

import "errors"

// serve moves bytes for a turn, and waits a while if that fails. It reports whether there may be
// more to move; open is false when the collector is closing. If the turn only reported the place of
// a run, another turn follows at once, so that newer output of the other stream does not overtake.
func (s *stream) serve() (more, open bool) {
	more, open = s.serveTurn()
	if s.awaitPlace() && open {
		return s.serveTurn()
	}
	return more, open
}

func (s *stream) serveTurn() (more, open bool) {
	var err error
	drops := s.file.Drop
	if drops || s.outlet != nil { // it takes its slots itself, or it blocks no thread
		s.store.poller.giveWay(s.wakeup)
		more, err = s.turn()
	} else {
		if s.store.slots.stalls(s.file.at) {
			s.store.poller.giveWay(s.wakeup)
		}
		slot := s.file.enter(&s.store.slots, s.quit)
		if slot == nil {
			return false, false
		}
		more, err = s.turn()
		slot.release()
	}
	if errors.Is(err, errAnotherWay) {
		return true, true
	}
	s.report(err)
	switch {
	case err == nil:
		return more, true
	case drops:
		return more, s.dropFor(s.store.pause(int(s.failures)-1), err)
	default:
		return more, s.pause()
	}
}

// A route is what decides how a turn reaches its log.
type route struct{ drops, outlet bool }

func (s *stream) route() route { return route{s.file.Drop, s.outlet != nil} }

// errAnotherWay is the error of a turn during which the route has changed, so that it needs other
// slots.
var errAnotherWay = errors.New("the log has changed")

// turn moves bytes for as long as a slot may be held. It reports whether it stopped before the FIFO
// was empty. The error is errAnotherWay if the turn has to begin again.
func (c *stream) turn() (more bool, err error) {
	look := c.look()
	defer look.close()
	route := c.route()
	if err := c.check(); err != nil {
		return true, err
	}
	if c.route() != route {
		return true, errAnotherWay
	}

	moved := int64(0)
	for moved < turnBytes {
		if c.state.Load() == closing {
			return false, nil
		}
		limit, end := c.nextLimit()
		// check again: a function that waited for a barrier may have changed the file
		if c.barrierReached(false) {
			if err := c.check(); err != nil {
				return true, err
			}
			if c.route() != route {
				return true, errAnotherWay
			}
			limit, end = c.nextLimit()
		}
		if limit == 0 {
			return true, nil // the other stream has to reach the barrier, too
		}
		placed, err := c.place()
		if err != nil {
			return true, err
		}
		if c.placing != nil {
			return true, nil // wait for that without a slot
		}
		var n int64
		var some bool
		if !placed { // the FIFO was empty
		} else if !c.byLine() {
			n, err = c.file.take(c.pipe(), min(limit, turnBytes-moved), &look)
			some = n > 0
		} else {
			n, some, err = c.takeLines(limit, end, &look)
		}
		c.wrote(n)
		if err != nil {
			return true, err
		}
		if !some {
			if err := c.putGap(); err != nil {
				return true, err
			}
			// if some is left, the rest of a line is awaited
			c.barrierReached(!c.byLine() || c.bytes() == 0)
			c.filled(moved)
			return false, nil
		}
		if moved += n; moved < lingerBytes && c.mayRest() {
			return false, nil // new output causes an event, which is cheaper than another look
		}
	}
	c.filled(moved)
	c.file.unsure = true
	if c.mayRest() && c.store.poller.short() {
		return false, nil // it gets an event again, after the others
	}
	return true, nil
}

func (s *stream) look() peekBuffer {
	return peekBuffer{buffers: &s.store.buffers, refused: &s.store.refused, drain: &s.drain}
}

// filled records how many bytes were in the pipe at a time. A program that fills it again and again
// gets a bigger one.
func (s *stream) filled(bytes int64) {
	if s.grown || bytes < lingerBytes {
		return
	}
	if second := uint32(s.store.now().Unix()); second != s.second {
		s.second, s.burst = second, 0
	}
	if s.burst += int32(bytes); s.burst >= turnBytes {
		s.grown = true
		growPipe(s.pipe(), busyPipe)
	}
}

// byLine reports whether lines are moved instead of bytes. That is also so while the log lacks a
// drop record, or the rest of a line has to be dropped.
func (s *stream) byLine() bool { return s.file.byLine() || s.dropped.bytes > 0 || s.dropped.inLine > 0 }

// mayRest reports whether there is nothing to do beyond moving bytes.
func (s *stream) mayRest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.barriers) == 0 && !s.byLine() && len(s.ahead.text()) == 0
}
