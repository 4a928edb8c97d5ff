package logs

import (
	"slices"
	"time"

	"superd/logs/frame"
	"superd/logs/pipe"
	"superd/logs/read"
)

// run drains the FIFOs until they are empty and no further check is requested.
func (c *Collector) run(w *read.Wakeup) {
	c.setWakeup(w)
	for {
		c.clearDirty()
		if !c.hasPipe() {
			c.applyOptions()
			c.clearUnpiped()
		}
		pause := c.drainFIFOs()
		switch c.state.Load() {
		case draining:
			// before goIdle, so that output since the last check causes a call
			if pause == 0 || !c.watchAfter(pause) {
				c.armWatch(c.all()...)
			}
			if c.goIdle() {
				return
			}
		case closing:
			c.flushReadAhead()
			c.state.Store(closed)
			c.release()
			return
		}
	}
}

// flushReadAhead writes what was read ahead when the collector is about to end, as the pipe no
// longer has it. It gives up after store.stallTimeout.
func (c *Collector) flushReadAhead() {
	buffered := func(s *stream) bool { return s.source.Buffered() > 0 }
	list := c.all()
	if !slices.ContainsFunc(list, buffered) {
		return
	}
	c.shared.Lock()
	w := read.NewWakeup() // the other one is stopped
	c.shared.wakeup = w
	c.shared.Unlock()
	defer time.AfterFunc(c.store.stallTimeout, func() { close(w.Stop) }).Stop()
	for _, s := range list {
		for buffered(s) {
			if !s.flushSome() {
				break
			}
		}
	}
}

// flushSome writes some of what was read ahead. It reports whether it did.
func (s *stream) flushSome() bool {
	peek := s.newPeek()
	defer peek.Close()
	if !s.file.set.Drop && s.c.shared.outlet == nil {
		slot := s.file.AcquireSlot(s.c.store.writers, s.c.shared.wakeup.Stop)
		if slot == nil {
			return false
		}
		defer slot.Release()
	}
	n, err := s.source.Buffered(), error(nil)
	if s.byLine() {
		n, _, err = s.takeLines(n, frame.WritePartial, &peek)
	} else {
		n, err = s.file.Take(n, &peek)
	}
	s.countWritten(n)
	return n > 0 && err == nil
}

// drainFIFOs moves bytes until the FIFOs are empty or the collector is closing. It returns how long
// output should gather before the next drain; 0: the next byte should cause one.
func (c *Collector) drainFIFOs() (pause time.Duration) {
	began, moved := c.store.clock(), int64(0)
	c.worker.pace.drainTakes = 0
	var yielded time.Time
	for more := true; more; {
		more = false
		list := c.inOrder()
		littleLeft := true
		for _, s := range list {
			s.readableAt = 0
			before := s.total
			streamMore, open := s.serve()
			if !open {
				return 0
			}
			if len(list) > 1 && !streamMore && s.source.Bytes() == 0 {
				c.rearm(s) // to learn which stream has output next
			}
			moved += s.total - before
			more = more || streamMore
			littleLeft = littleLeft && s.littleLeft
		}
		if littleLeft && !c.hasBarriers() {
			if pause := c.worker.pace.next(began, c.store.clock(), moved, c.capacity()); pause > 0 {
				return pause
			}
		}
		if more = more || c.awaitPartialLines(); more {
			yielded = yield(yielded)
		}
	}
	return 0
}

// capacity returns the least capacity of the pipes in bytes.
func (c *Collector) capacity() int64 {
	least := int64(pipe.BusyCapacity)
	for _, s := range c.all() {
		least = min(least, max(int64(s.capacity)<<10, pipe.UsualCapacity))
	}
	return least
}

// yieldEvery is how often a goroutine yields while it moves bytes. Go's monitor (sysmon) takes the
// processor from a goroutine in a system call that has not been scheduled for 10 ms. It then polls
// all processors each 20 µs for a while.
const yieldEvery = 5 * time.Millisecond

// yield yields if yieldEvery has passed since last, and returns when it last did. For the zero time
// it only returns now.
func yield(last time.Time) time.Time {
	now := time.Now()
	switch {
	case last.IsZero():
		return now
	case now.Sub(last) < yieldEvery:
		return last
	}
	read.Yield()
	return now
}

// awaitPartialLines waits for the rest of lines that have no end yet. It reports whether there is
// something to do.
func (c *Collector) awaitPartialLines() bool {
	list := c.inOrder()
	var partial [streams]int64 // bytes of a partial line, in the order of list
	waits := false
	for i, s := range list {
		if !s.byLine() {
			continue
		}
		if partial[i] = s.source.Bytes(); partial[i] == 0 {
			continue
		}
		// Bytes that came since the last turn may end the line. But it is not awaited for longer
		if !s.isPartial(partial[i]) && !(s.partial != nil && s.partial.at == s.total && s.partialDue()) {
			return c.state.Load() != closing
		}
		waits = true
	}
	return waits && c.awaitLineEnd(list, partial[:])
}

// awaitLineEnd waits for the rest of partial lines; partial is how many bytes of each are in the
// pipes. After partialTimeout it no longer waits for a line. It reports whether there is something
// to do; false also if an event has come, or when closing.
//
// It polls, as events do not suffice: a write that waits for room in a non-empty pipe causes none
// before it ends.
func (c *Collector) awaitLineEnd(list []*stream, partial []int64) bool {
	for i, s := range list {
		if partial[i] == 0 {
			c.armWatch(s)
		}
	}
	c.store.poller.ReportBlocked(c.shared.wakeup)
	for pause := time.Millisecond; ; pause *= 2 {
		due := false
		for i, s := range list {
			due = partial[i] > 0 && s.partialDue() || due
		}
		if due {
			return true
		}
		if c.state.Load() != draining || !c.awaitOutput(pause) {
			return false
		}
		for i, s := range list {
			if s.source.Bytes() != partial[i] {
				return true
			}
		}
	}
}

// ensureDrain makes sure that a goroutine checks the FIFOs after this call. Safe for concurrent
// use.
func (c *Collector) ensureDrain() {
	if c.claimDrain() {
		go c.run(read.NewWakeup())
	}
}

// Readable drains, unless another goroutine does, which then checks once more. There are no more
// events before [Collector.armWatch], so a program that prints much does not wake a worker by each
// write.
func (d *drainer) Readable(w *read.Wakeup) {
	if c := (*Collector)(d); c.claimDrain() {
		c.run(w)
	}
}
