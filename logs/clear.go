package logs

import (
	"errors"
	"fmt"

	"superd/loop"
)

// A clearRequest is a request to empty the log files.
type clearRequest struct {
	rotated bool        // remove the rotated files, too
	done    func(error) // called off the loop
	before  *clearRequest
}

// Clear empties the log files of the collector, and with rotated removes the rotated ones. done is
// called on the loop. What is still in a FIFO is written afterwards. A program that writes to its
// log itself goes on at the start of the file.
func (c *Collector) Clear(rotated bool, done func(error)) {
	r := &clearRequest{rotated: rotated, done: func(err error) { c.store.loop.Post(func() { done(err) }) }}
	c.shared.Lock()
	released := c.shared.released
	if !released {
		r.before = c.shared.clears()
		c.shared.watchers = &watchers{c.shared.watching(), r}
		c.reopen.Store(true)
	}
	c.shared.Unlock()
	if released {
		r.done(c.errReleased())
		return
	}
	c.ensureDrain()
}

// takeClears returns the requests to clear the log, the newest first, and forgets them.
func (c *Collector) takeClears() *clearRequest {
	c.shared.Lock()
	defer c.shared.Unlock()
	r := c.shared.clears()
	if r != nil {
		c.shared.watchers = &watchers{all: c.shared.watching()}
	}
	return r
}

// refuseClears answers requests to clear a log that is closed.
func (c *Collector) refuseClears() {
	for r := c.takeClears(); r != nil; r = r.before {
		r.done(c.errReleased())
	}
}

func (c *Collector) errReleased() error {
	return fmt.Errorf("clear log of %s: %w", c.name, loop.ErrClosed)
}

// clearLogs clears the files if that was requested. Only the draining goroutine may call it.
// clearFile clears one; nil: the caller holds a slot of the file system.
func (c *Collector) clearLogs(clearFile func(f *output, rotated bool) error) {
	requests := c.takeClears()
	if requests == nil {
		return
	}
	if clearFile == nil {
		clearFile = func(f *output, rotated bool) error { return f.Clear(rotated) }
	}
	rotated := false
	for r := requests; r != nil; r = r.before {
		rotated = rotated || r.rotated
	}
	var errs []error
	if c.shared.outlet != nil {
		errs = append(errs, fmt.Errorf("clear log: the output goes to %s", c.setting().destination()))
	} else {
		for _, f := range c.files() {
			errs = append(errs, clearFile(f, rotated))
		}
	}
	err := errors.Join(errs...)
	for r := requests; r != nil; r = r.before {
		r.done(err)
	}
	c.notifyWatchers()
}

// clearUnpiped is clearLogs while there is no FIFO, so that no turn does it.
func (c *Collector) clearUnpiped() {
	c.clearLogs(func(f *output, rotated bool) error {
		slot := f.AcquireSlot(c.store.writers, c.shared.wakeup.Stop)
		if slot == nil {
			return c.errReleased()
		}
		defer slot.Release()
		return f.Clear(rotated)
	})
}
