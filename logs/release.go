package logs

import (
	"slices"

	"superd/internal/syscalls"
)

// ownsOnlyFIFOs reports whether the collector has FIFOs and nothing else to close, and no drop to
// report. Only the draining goroutine may call it, or the loop while none drains.
func (c *Collector) ownsOnlyFIFOs() bool {
	return c.shared.outlet == nil && !slices.ContainsFunc(c.files(), func(f *output) bool { return f.IsOpen() }) &&
		!slices.ContainsFunc(c.all(), func(s *stream) bool { return s.dropped.bytes > 0 || s.failures > 0 })
}

// release closes what the collector owns. It runs once, on the last goroutine that uses the
// collector.
func (c *Collector) release() {
	exiting := c.store.exiting.Load() // a successor has what is in the pipes
	for _, s := range c.all() {
		if s.dropped.bytes > 0 {
			s.log().Error("output dropped without a record in its log", "bytes", s.dropped.bytes, "lines", s.dropped.lines)
		} else if s.failures > 0 {
			s.log().Error("output lost: log not written completely", "bytes", s.source.Bytes())
		} else if buffered := s.source.Buffered(); buffered > 0 { // no longer in the pipe
			s.log().Error("output lost: tee is refused and the log stalls", "bytes", buffered)
		} else if left := s.source.Bytes(); left > 0 && !exiting {
			s.log().Error("output lost: the log stalls", "bytes", left)
		}
	}
	if c.shared.outlet != nil {
		c.shared.outlet.Close()
	}
	for _, f := range c.files() {
		if f.IsOpen() {
			slot := f.AcquireSlot(c.store.writers, nil)
			f.Close()
			slot.Release()
		}
		f.Release()
	}

	c.shared.Lock()
	c.shared.released = true
	c.shared.wakeup = nil
	if !exiting {
		c.shared.watch.Close()
	}
	all, barriers, watchers := c.shared.streams, c.shared.barriers, c.shared.watching()
	c.shared.barriers = nil
	c.shared.Unlock()
	if !exiting {
		for _, s := range all {
			syscalls.Close(s.source.FD()) // waits for users of the descriptor, such as Bytes
		}
	}
	for _, m := range barriers {
		m.reached()
	}
	c.refuseClears()
	for _, f := range watchers {
		(*f)()
	}
	for _, s := range all {
		c.store.readers.Forget(s)
	}
	c.store.collectors.Done()
}
