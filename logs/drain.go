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
	loss     loss
	rest     *unfinished // nil: none was seen
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
		var err error
		if drops := c.file.Drop; drops { // it takes its slots itself
			more, err = c.turn()
			c.report(err)
			if err != nil && !c.dropFor(c.store.pause(c.failures-1), err) {
				return
			}
		} else {
			place := c.file.place()
			if !c.store.slots.acquire(place, c.quit) {
				return
			}
			more, err = c.turn()
			c.store.slots.release(place)
			c.report(err)
			if err != nil && !c.pause() {
				return
			}
		}
		more = more || c.linger()
	}
}

// linger waits a moment for more from a program that has just written much, rather than end and be started by the loop
// again, which takes longer than the program does; and for the rest of a line. It reports whether there is more to do.
func (c *Capture) linger() bool {
	begun := int64(0) // bytes of a line that has no end yet
	if c.file.byLine() {
		begun = pipeBytes(c.fd)
	}
	return c.lingerShortly(begun) || begun > 0 && c.awaitRest(begun)
}

func (c *Capture) lingerShortly(begun int64) bool {
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
	return waitPipe(c.fd, begun, lingerTime)
}

// awaitRest waits for the rest of a line of which so many bytes are in the pipe; what doesn't come in time is not waited for any
// more. It reports whether there is something to do: false also when an event has come, or closing.
//
// It can't rely on events alone: a write that has to wait for room in a pipe that was not empty makes none before it has ended.
func (c *Capture) awaitRest(begun int64) bool {
	if c.rest == nil || c.rest.at != c.total {
		c.rest = &unfinished{at: c.total, since: time.Now()}
	}
	for pause := time.Millisecond; time.Since(c.rest.since) < restPatience; pause *= 2 {
		if c.state.Load() != draining || !c.sleep(pause) {
			return false
		}
		if pipeBytes(c.fd) != begun {
			return true
		}
	}
	c.rest.due = true
	return true
}

// An unfinished line is one that has no end yet.
type unfinished struct {
	at    int64 // where it begins: bytes of output before it
	since time.Time
	due   bool // it is written as far as it is there
}

// turn moves bytes for as long as a slot may be held. It reports whether it left off before the FIFO was empty.
func (c *Capture) turn() (more bool, err error) {
	look := glance{buffers: &c.store.buffers}
	defer look.close()
	drops := c.file.Drop
	check := func() error {
		c.file.check()
		return nil
	}
	if _, err := c.do(0, func() error {
		c.settle()
		return check()
	}); err != nil {
		return true, err
	}
	if drops != c.file.Drop {
		return true, nil // in the other way
	}

	for moved := int64(0); moved < turnBytes; {
		if c.state.Load() == closing {
			return false, nil
		}
		limit, end := c.aim()
		if c.reached(false) { // again: whoever waited for a mark may have changed the file since
			if _, err := c.do(0, check); err != nil {
				return true, err
			}
		}
		var n int64
		var some bool
		if !c.file.byLine() {
			n, err = c.file.take(c.fd, min(limit, turnBytes-moved), &look)
			some = n > 0
		} else {
			n, some, err = c.takeLines(limit, end, &look)
		}
		c.wrote(n)
		if err != nil {
			return true, err
		}
		if !some {
			c.reached(!c.file.byLine() || pipeBytes(c.fd) == 0) // else the rest of a line is awaited
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
	if o := c.options; o.Path == c.file.Path {
		c.file.Options = o
		c.file.chain.setFormat(c.file.Format)
	} else {
		c.store.archive.remove(c.file.chain)
		c.file = c.store.newFile(o)
	}
}

// aim returns how many bytes may be moved at a time: up to the next mark, and what a line is that has no end there. New marks
// get their place here, where everything taken is in the file: after what is in the pipe.
func (c *Capture) aim() (limit int64, end ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit = math.MaxInt64
	for i := range c.marks {
		m := &c.marks[i]
		if m.at < 0 {
			m.at = c.total + pipeBytes(c.fd)
		}
		ahead := m.at - c.total
		if ahead <= 0 && m.ends {
			c.endLostLine()
		}
		if ahead > 0 && ahead < limit {
			limit, end = ahead, goesOn
		}
		if ahead == limit && m.ends {
			end = ended
		}
	}
	return limit, end
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
	if c.silent.Load() {
		c.tellRun()
	}
	c.announce()
}

// tellRun tells where the output of the run begins that has just printed something.
func (c *Capture) tellRun() {
	c.silent.Store(false)
	ch, _ := c.chain()
	begin, _ := ch.lastRun()
	if c.store.tellRun == nil || begin == unknown {
		return
	}
	c.mu.Lock()
	r := RunBegin{Program: c.options.Program, Instance: c.name, Run: c.runID}
	c.mu.Unlock()
	r.At = ch.cursor(begin)
	c.store.tellRun(r)
}

// announce tells those who want to know that the file has grown.
func (c *Capture) announce() {
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
	case c.state.Load() == closing:
		return
	case err != nil:
		if c.failures++; c.failures == 1 {
			c.since = c.store.now()
			if c.file.Drop {
				c.log().Warn("output does not get into its file, it is dropped", "error", err)
			} else {
				c.log().Warn("output does not get into its file, the program has to wait", "error", err)
			}
		}
	case c.failures > 0 && c.loss.bytes == 0: // else nothing has come that could have been written
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
	return c.store.log.With("instance", c.name, "path", c.Path())
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

// sleep waits, until the loop reports an event at the most. It reports false when closing.
func (c *Capture) sleep(pause time.Duration) bool {
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
