package logs

import "bytes"

// tailBytes is how much of the end of a run's output is kept for telling why it failed.
const tailBytes = 1024

// A tail knows the last bytes of what it is fed.
type tail struct {
	bytes []byte
	cut   bool // there was more before them
}

func (t *tail) feed(p []byte) {
	if excess := len(t.bytes) + len(p) - tailBytes; excess > 0 {
		t.cut = true
		t.bytes = t.bytes[:copy(t.bytes, t.bytes[min(excess, len(t.bytes)):])]
		p = p[max(0, len(p)-tailBytes):]
	}
	t.bytes = append(t.bytes, p...)
}

// BeginRun tells that a run of the program begins: what comes once the FIFO has been emptied of what is in it now is its
// output.
func (c *Capture) BeginRun() {
	c.mark(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tail.bytes, c.tail.cut = c.tail.bytes[:0], false
	})
}

// Tail has f called with the last bytes of the run's output, at most 1 KiB, once everything that is in the FIFO now is in
// the file, and when the scope is closed; cut tells that there was more before them. f must not block; it runs on any
// goroutine, perhaps before Tail has returned.
func (c *Capture) Tail(f func(end []byte, cut bool)) {
	c.mark(func() {
		c.mu.Lock()
		end, cut := bytes.Clone(c.tail.bytes), c.tail.cut
		c.mu.Unlock()
		f(end, cut)
	})
}
