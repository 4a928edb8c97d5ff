package logs

import (
	"time"

	"superd/logs/read"
)

// claimDrain reports whether the caller must drain the FIFOs, as no goroutine does. Otherwise it
// makes the draining goroutine check once more.
func (c *Collector) claimDrain() bool {
	for {
		switch c.state.Load() {
		case idle:
			if c.state.CompareAndSwap(idle, draining) {
				return true
			}
		case draining:
			if c.state.CompareAndSwap(draining, dirty) {
				c.shared.Lock()
				defer c.shared.Unlock()
				if c.shared.wakeup != nil {
					c.shared.wakeup.Signal()
				}
				return false
			}
		default: // the goroutine checks once more anyway, or is about to end
			return false
		}
	}
}

// setWakeup sets the wakeup of the draining goroutine.
func (c *Collector) setWakeup(w *read.Wakeup) {
	c.shared.Lock()
	defer c.shared.Unlock()
	c.shared.wakeup = w
	if c.state.Load() == closing {
		c.stopDrain()
	}
}

// goIdle makes the collector idle and reports true: the goroutine must then stop draining. It
// reports false if there is more output.
func (c *Collector) goIdle() bool {
	c.shared.Lock()
	w := c.shared.wakeup
	c.shared.wakeup = nil
	c.shared.Unlock()
	if !c.state.CompareAndSwap(draining, idle) {
		c.setWakeup(w)
		return false
	}
	return true
}

// stopDrain makes the draining goroutine end. The caller holds the lock.
func (c *Collector) stopDrain() {
	if c.shared.wakeup == nil {
		return // no goroutine yet, or it is about to read the state
	}
	select {
	case <-c.shared.wakeup.Stop:
	default:
		close(c.shared.wakeup.Stop)
	}
}

// clearDirty resets dirty, so that the next output signals the wakeup again.
func (c *Collector) clearDirty() { c.state.CompareAndSwap(dirty, draining) }

// awaitOutput waits until output comes, for pause at most. It reports false when closing.
func (c *Collector) awaitOutput(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.shared.wakeup.Wake:
		return true
	case <-c.shared.wakeup.Stop:
		return false
	}
}
