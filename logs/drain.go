package logs

import (
	"log/slog"
	"math"
	"time"
)

// A drain is what the goroutine that moves bytes keeps from one time to the next.
type drain struct {
	total    int64     // bytes that are in the file
	failures int       // turns that failed in a row
	since    time.Time // of the first of these
	troubled bool      // the trouble with rotation has been told
	grown    bool      // the pipe was made bigger
	lingered int64     // total when it last waited for more
}

// run drains the FIFO until it is empty and nobody wants another look.
func (c *Capture) run() {
	for {
		c.empty()
		switch s := c.state.Load(); s {
		case draining:
			if c.state.CompareAndSwap(draining, idle) {
				return
			}
		case dirty:
			c.state.CompareAndSwap(dirty, draining)
		case muted:
			if c.state.CompareAndSwap(muted, draining) {
				c.scope.Post(c.watchAgain)
			}
		case closing:
			c.state.Store(closed)
			c.release()
			return
		}
	}
}

// empty moves bytes until the FIFO is empty or the capture is closing.
func (c *Capture) empty() {
	for more := true; more; {
		place := c.file.place()
		if !c.store.slots.acquire(place, c.quit) {
			return
		}
		var err error
		more, err = c.turn()
		c.store.slots.release(place)
		c.report(err)
		if err != nil && !c.pause() {
			return
		}
		more = more || c.linger()
	}
}

// linger waits a moment for more from a program that has just written much, rather than end and be started by the loop
// again, which takes longer than the program does. It reports whether there is more.
func (c *Capture) linger() bool {
	if c.total-c.lingered < chunkBytes {
		return false
	}
	c.lingered = c.total
	select {
	case c.store.lingering <- struct{}{}:
	default:
		return false // threads are dear
	}
	defer func() { <-c.store.lingering }()
	return waitPipe(c.fd, lingerTime)
}

// turn moves bytes for as long as a slot may be held. It reports whether it left off before the FIFO was empty.
func (c *Capture) turn() (more bool, err error) {
	c.settle()
	c.file.check()
	look := glance{buffers: &c.store.buffers}
	defer look.close()

	for moved := int64(0); moved < turnBytes; {
		if c.state.Load() == closing {
			return false, nil
		}
		limit := min(c.aim(), turnBytes-moved)
		if c.reached(false) {
			c.file.check() // again: whoever waited for a mark may have changed the file since
		}
		n, err := c.file.take(c.fd, limit, &look)
		c.wrote(n)
		if err != nil {
			return true, err
		}
		if n == 0 {
			c.reached(true)
			return false, nil
		}
		moved += n
	}
	if !c.grown { // it writes faster than it is read
		c.grown = true
		growPipe(c.fd, busyPipe)
	}
	return true, nil
}

// settle does what Reopen and SetOptions asked for.
func (c *Capture) settle() {
	if !c.reopen.Swap(false) {
		return
	}
	c.file.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.options; o.Path == c.file.path {
		c.file.maxSize, c.file.keep = o.MaxSize, o.Keep
	} else {
		c.file = newFile(o, c.store.now)
	}
}

// aim returns how many bytes may be moved at a time: up to the next mark. New marks get their place here, where everything
// taken is in the file: after what is in the pipe.
func (c *Capture) aim() (limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit = math.MaxInt64
	for i := range c.marks {
		m := &c.marks[i]
		if m.at < 0 {
			m.at = c.total + pipeBytes(c.fd)
		}
		if ahead := m.at - c.total; ahead > 0 {
			limit = min(limit, ahead)
		}
	}
	return limit
}

// reached calls the marks up to here: those that have got their place, if the FIFO is found empty. It reports whether
// there were any.
func (c *Capture) reached(empty bool) bool {
	c.mu.Lock()
	n := 0
	for n < len(c.marks) && c.marks[n].at >= 0 && (empty || c.marks[n].at <= c.total) {
		n++
	}
	passed := c.marks[:n:n]
	if c.marks = c.marks[n:]; len(c.marks) == 0 {
		c.marks = nil
	}
	c.mu.Unlock()
	for _, m := range passed {
		m.reached()
	}
	return n > 0
}

// wrote tells those who want to know that n bytes more are in the file.
func (c *Capture) wrote(n int64) {
	if n == 0 {
		return
	}
	c.total += n
	c.mu.Lock()
	watchers := c.watchers
	c.mu.Unlock()
	for _, f := range watchers {
		(*f)()
	}
}

// report tells the log what has changed: err is that of the last turn. It holds no slot, as the log may stall, too.
func (c *Capture) report(err error) {
	switch {
	case err != nil:
		if c.failures++; c.failures == 1 {
			c.since = c.store.now()
			c.log().Warn("output does not get into its file, the program has to wait", "error", err)
		}
	case c.failures > 0:
		c.failures = 0
		c.log().Info("output gets into its file again", "after", c.store.now().Sub(c.since))
	}
	if trouble := c.file.trouble; (trouble != nil) != c.troubled {
		if c.troubled = trouble != nil; c.troubled {
			c.log().Warn("log file is not rotated as it should be", "error", trouble)
		}
	}
}

func (c *Capture) log() *slog.Logger {
	return c.store.log.With("instance", c.name, "path", c.file.path)
}

// pause waits before a failed write is tried again. It reports whether there is a point: false when closing.
func (c *Capture) pause() bool {
	timer := time.NewTimer(c.store.pause(c.failures - 1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.quit:
		return false
	}
}
