package logs

import (
	"cmp"
	"slices"
	"time"

	"superd/logs/read"
)

// watchFIFOs watches the FIFOs that there are by now.
func (c *Collector) watchFIFOs() error {
	c.shared.Lock()
	defer c.shared.Unlock()
	var pipes [streams]read.Pipe
	return c.store.poller.Watch(&c.shared.watch, (*drainer)(c), pipesOf(c.shared.streams, &pipes)...)
}

// unwatch ends the watch.
func (c *Collector) unwatch() {
	c.shared.Lock()
	defer c.shared.Unlock()
	var pipes [streams]read.Pipe
	c.store.poller.Unwatch(&c.shared.watch, pipesOf(c.shared.streams, &pipes)...)
}

// armWatch requests one more event for when one of these streams has output, at once if one has
// some. Only the draining goroutine may call it.
func (c *Collector) armWatch(all ...*stream) {
	c.shared.Lock()
	defer c.shared.Unlock()
	var pipes [streams]read.Pipe
	c.shared.watch.Arm(pipesOf(all, &pipes)...)
}

// watchAfter requests a call after a pause instead of an event. It reports false if the FIFOs are
// not watched. Only the draining goroutine may call it.
func (c *Collector) watchAfter(pause time.Duration) bool {
	c.shared.Lock()
	defer c.shared.Unlock()
	return c.store.poller.After(&c.shared.watch, pause)
}

// rearm makes readableOrder return this stream once more.
func (c *Collector) rearm(s *stream) {
	c.shared.Lock()
	defer c.shared.Unlock()
	c.shared.watch.Rearm(s.readEnd())
}

// readableOrder returns which of two streams have become readable since armWatch, in that order.
// Only the draining goroutine may call it.
func (c *Collector) readableOrder() (which []int32) {
	c.shared.Lock()
	inner := c.shared.watch.Inner()
	c.shared.Unlock()
	return read.Order(inner)
}

func (s *stream) readEnd() read.Pipe {
	return read.Pipe{FD: s.source.FD(), Number: int32(s.which)}
}

// pipesOf returns the read ends of those streams that have one, in memory of the caller.
func pipesOf(all []*stream, memory *[streams]read.Pipe) []read.Pipe {
	n := 0
	for _, s := range all {
		if s.source.Attached() {
			memory[n] = s.readEnd()
			n++
		}
	}
	return memory[:n]
}

// inOrder returns the streams that have a FIFO, in the order in which these became readable. Only
// the draining goroutine may call it.
func (c *Collector) inOrder() []*stream {
	list := piped(c.all())
	if len(list) < 2 {
		return list
	}
	for _, which := range c.readableOrder() {
		for _, s := range list {
			if s.which == Stream(which) && s.readableAt == 0 {
				c.worker.readableCount++
				s.readableAt = c.worker.readableCount
			}
		}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *stream) int {
		return cmp.Compare(a.readableAt-1, b.readableAt-1) // 0 comes last
	})
	return list
}
