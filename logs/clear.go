package logs

import (
	"errors"
	"fmt"
	"slices"

	"superd/loop"
)

// A clearRequest is a request to empty the log files.
type clearRequest struct {
	rotated bool        // remove the rotated files, too
	done    func(error) // called off the loop
}

// Clear empties the log files of the collector, and with rotated removes the rotated ones. done is
// called on the loop. What is still in a FIFO is written afterwards. A program that writes to its
// log itself goes on at the start of the file.
func (c *Collector) Clear(rotated bool, done func(error)) {
	r := clearRequest{rotated, func(err error) { c.store.loop.Post(func() { done(err) }) }}
	c.shared.Lock()
	released := c.shared.released
	if !released {
		c.shared.clearing = append(c.shared.clearing, r)
		c.clears.Store(true)
	}
	c.shared.Unlock()
	if released {
		r.done(c.errReleased())
		return
	}
	c.ensureDrain()
}

func (c *Collector) errReleased() error {
	return fmt.Errorf("clear log of %s: %w", c.name, loop.ErrClosed)
}

// takeClearing returns the requests to clear, and forgets them.
func (c *Collector) takeClearing() []clearRequest {
	if !c.clears.Load() {
		return nil
	}
	c.shared.Lock()
	defer c.shared.Unlock()
	requests := c.shared.clearing
	c.shared.clearing = nil
	c.clears.Store(false)
	return requests
}

// clearLogs clears the files if that was requested. Only the draining goroutine may call it. clear
// clears one; nil: it only needs to be called, since the caller holds a slot of the file system.
func (c *Collector) clearLogs(clear func(f *output, rotated bool) error) {
	requests := c.takeClearing()
	if len(requests) == 0 {
		return
	}
	if clear == nil {
		clear = func(f *output, rotated bool) error { return f.Clear(rotated) }
	}
	rotated := slices.ContainsFunc(requests, func(r clearRequest) bool { return r.rotated })
	var errs []error
	if c.shared.outlet != nil {
		errs = append(errs, fmt.Errorf("clear log: the output goes to %s", c.setting().destination()))
	} else {
		for _, f := range c.files() {
			errs = append(errs, clear(f, rotated))
		}
	}
	err := errors.Join(errs...)
	for _, r := range requests {
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
