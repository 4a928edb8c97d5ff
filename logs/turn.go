package logs

import "errors"

// serve moves bytes for a turn, and waits a while when that fails. It reports whether there may be more to move, and false for open when
// the capture is closing. Where the turn could only tell the place of a run, another one follows: what has come of the other stream meanwhile comes
// after what is there.
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
	if drops || s.outlet != nil { // it takes its slots itself, or no thread waits for it
		s.store.poller.giveWay(s.bell)
		more, err = s.turn()
	} else {
		if s.store.slots.stalls(s.file.at) {
			s.store.poller.giveWay(s.bell)
		}
		slot := s.file.enter(&s.store.slots, s.quit)
		if slot == nil {
			return false, false
		}
		more, err = s.turn()
		slot.release()
	}
	if err == errAnotherWay {
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

// A route is how a turn gets to its log.
type route struct{ drops, outlet bool }

func (s *stream) route() route { return route{s.file.Drop, s.outlet != nil} }

// errAnotherWay is that of a turn in the midst of which the log has become another one, which takes other slots.
var errAnotherWay = errors.New("the log is another one now")

// turn moves bytes for as long as a slot may be held. It reports whether it left off before the FIFO was empty; the error is errAnotherWay where it has
// to be begun anew.
func (c *stream) turn() (more bool, err error) {
	look := glance{buffers: &c.store.buffers}
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
		limit, end := c.aim()
		if c.reached(false) { // again: whoever waited for a mark may have changed the file since
			if err := c.check(); err != nil {
				return true, err
			}
			if c.route() != route {
				return true, errAnotherWay
			}
			limit, end = c.aim()
		}
		if limit == 0 {
			return true, nil // the other stream has to come so far, too
		}
		placed, err := c.place()
		if err != nil {
			return true, err
		}
		if c.placing != nil {
			return true, nil // that is waited for without a slot
		}
		var n int64
		var some bool
		if !placed { // nothing was there
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
			c.reached(!c.byLine() || c.bytes() == 0) // else the rest of a line is awaited
			c.filled(moved)
			return false, nil
		}
		if moved += n; moved < lingerBytes && c.mayRest() {
			return false, nil // what comes now is told anew: that takes less than another look
		}
	}
	c.filled(moved)
	c.file.unsure = true
	if c.mayRest() && c.store.poller.short() {
		return false, nil // it is told of it once more, after the others
	}
	return true, nil
}

// filled notes that so many bytes were in the pipe at a time. A program that fills it again and again gets a bigger one.
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

// byLine reports whether lines are moved, not just bytes: also where bytes would do, as long as the log has no record of what was dropped before, or the
// rest of a line is to be dropped.
func (s *stream) byLine() bool { return s.file.byLine() || s.loss.bytes > 0 || s.loss.inLine > 0 }

// mayRest reports whether there is nothing to do beyond moving bytes.
func (s *stream) mayRest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.marks) == 0 && !s.byLine()
}
