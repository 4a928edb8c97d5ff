package logs

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"superd/loop"
)

// The state of a capture's drain. The loop and the draining goroutine change it by compare-and-swap.
const (
	idle     uint32 = iota // no goroutine; the next event starts one
	draining               // a goroutine moves bytes
	dirty                  // so it does, and more may have come since: it looks again before it ends
	muted                  // as dirty, but the loop has stopped watching: the goroutine has it watch again
	closing                // the goroutine is to end and close what the capture owns
	closed
)

// muteAfter is how many events of a FIFO that is being drained the loop puts up with before it stops watching it: the
// kernel reports each write of a program that writes faster than the goroutine reads.
const muteAfter = 64

// A Capture brings the output of one program into its log file. Its methods are for the loop, except where they say
// otherwise.
type Capture struct {
	store *Store
	scope *loop.Scope
	name  string
	fd    int // read end; set once
	quit  chan struct{}
	news  chan struct{} // wakes a goroutine that waits for more; nil until lines are put into the file; made on the loop

	watch   *loop.Watch // these three: loop only
	repeats int         // events since the drain last caught up
	over    bool        // the scope is closed

	state atomic.Uint32

	silent atomic.Bool // a run has begun and has printed nothing yet

	droppedBytes, droppedLines atomic.Int64

	reopen atomic.Bool // the file is to be opened anew, with options

	mu       sync.Mutex
	options  *Options // never changed, but replaced
	file     *file    // replaced when the path changes; used by the draining goroutine, its chain by followers, too
	runID    string   // of the run whose output comes
	newRun   bool     // no process of it has opened a file that it writes by itself
	marks    []mark
	watchers []*func()
	released bool // descriptors are closed; nothing follows

	drain // the goroutine's own
}

// A mark is a place in the output that something waits for.
type mark struct {
	reached func() // on the draining goroutine
	at      int64  // how many bytes of output lie before it; -1: not known yet
	ends    bool   // a line that has no newline before it is complete
}

// Name returns the name given to NewCapture. From any goroutine.
func (c *Capture) Name() string { return c.name }

// Path returns the path of the log file. From any goroutine.
func (c *Capture) Path() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.options.Path
}

// FD returns the read end, -1 before Attach and after the scope is closed.
func (c *Capture) FD() int {
	if c.over {
		return -1
	}
	return c.fd
}

// Attach gives the capture its read end, once in its life. It takes ownership, also when it returns an error: fd is
// then closed. What is in the FIFO already is written.
func (c *Capture) Attach(fd int) error {
	switch {
	case c.over:
		closeFD(fd)
		return fmt.Errorf("attach output of %s: %w", c.name, loop.ErrClosed)
	case c.fd >= 0:
		closeFD(fd)
		return fmt.Errorf("attach output of %s: it has a read end", c.name)
	}
	c.fd = fd
	c.watchAgain()
	return nil
}

func (c *Capture) startWatch(fd int) (err error) {
	c.watch, err = c.scope.OnReadableEdge(fd, c.readable)
	return err
}

// readable runs on the loop when bytes have come.
func (c *Capture) readable() {
	if c.state.Load() != dirty {
		c.repeats = 0
		c.kick()
		return
	}
	if c.repeats++; c.repeats >= muteAfter && c.state.CompareAndSwap(dirty, muted) {
		c.repeats = 0
		c.watch.Stop()
	}
}

// watchAgain begins the watch, at first and when the goroutine has caught up with a muted FIFO. An edge-triggered watch
// reports at once what is there when it begins.
func (c *Capture) watchAgain() {
	if err := c.startWatch(c.fd); err != nil { // memory or watches are short
		c.scope.After(time.Second, c.watchAgain)
	}
}

// kick has a goroutine look at the FIFO from now on at the latest. From any goroutine.
func (c *Capture) kick() {
	for {
		switch c.state.Load() {
		case idle:
			if c.state.CompareAndSwap(idle, draining) {
				go c.run()
				return
			}
		case draining:
			if c.state.CompareAndSwap(draining, dirty) {
				select {
				case c.news <- struct{}{}:
				default:
				}
				return
			}
		default: // it looks again anyway, or never more
			return
		}
	}
}

// close is the scope's clean-up; the watch is gone by then.
func (c *Capture) close() {
	c.over = true
	close(c.quit)
	for {
		s := c.state.Load()
		if s == idle && c.state.CompareAndSwap(idle, closed) {
			go c.release() // closing a file may block
			return
		}
		if s != idle && c.state.CompareAndSwap(s, closing) {
			return
		}
	}
}

// SetOptions changes where the output goes from now on. Files of an earlier path are left as they are.
func (c *Capture) SetOptions(o Options) {
	o = o.complete()
	c.mu.Lock()
	changed := o != *c.options
	c.options = &o
	c.mu.Unlock()
	if changed {
		c.hearNews()
		c.Reopen()
	}
}

// hearNews makes ready for a goroutine that waits for more of a line.
func (c *Capture) hearNews() {
	if c.options.byLine() && c.news == nil {
		c.news = make(chan struct{}, 1)
	}
}

// Reopen closes the log file; the next write opens it by its path.
func (c *Capture) Reopen() {
	c.reopen.Store(true)
	if c.fd >= 0 {
		c.kick()
	}
}

// Drained calls f on the loop once everything that is in the FIFO now is in the file. While the file can't be written,
// that is not yet; when the scope is closed, f runs all the same.
func (c *Capture) Drained(f func()) {
	c.mark(false, func() { c.store.loop.Post(f) })
}

// mark calls reached, off the loop, when what is in the FIFO now is in the file, and at once when there is nothing. ends tells
// that lines end there.
func (c *Capture) mark(ends bool, reached func()) {
	if !c.markLater(ends, reached) {
		reached()
	}
}

// markLater has reached called as mark does, but reports false when there is nothing to wait for.
func (c *Capture) markLater(ends bool, reached func()) bool {
	c.mu.Lock()
	// At rest with nothing in the FIFO, it is so already; a mark that is only queued could be overtaken by what is
	// written next.
	now := c.released || c.fd < 0 || c.state.Load() == idle && pipeBytes(c.fd) == 0 && c.loss.inLine == 0
	if !now {
		c.marks = append(c.marks, mark{reached, -1, ends})
	}
	c.mu.Unlock()
	if now {
		return false
	}
	c.kick()
	return true
}

// Notify has f called whenever bytes were appended to the file, and once when the capture is closed. f must not block.
// It may be called once more while cancel is running. Notify and cancel may be called from any goroutine.
func (c *Capture) Notify(f func()) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The list is never changed in place: it is called without the lock.
	c.watchers = append(slices.Clip(c.watchers), &f)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watchers = slices.DeleteFunc(slices.Clone(c.watchers), func(w *func()) bool { return w == &f })
	}
}

// release closes what the capture owns. It runs once, on the goroutine that used it last.
func (c *Capture) release() {
	if c.loss.bytes > 0 {
		c.log().Error("output was dropped, and its file does not say so", "bytes", c.loss.bytes, "lines", c.loss.lines)
	} else if c.failures > 0 {
		c.log().Error("output is lost, its file could not be written to the end", "bytes", pipeBytes(c.fd))
	}
	c.store.archive.remove(c.file.chain)
	if c.file.fd >= 0 {
		place := c.file.place()
		c.store.slots.acquire(place, nil)
		c.file.close()
		c.store.slots.release(place)
	}
	closeFD(c.fd)

	c.mu.Lock()
	c.released = true
	marks, watchers := c.marks, c.watchers
	c.marks = nil
	c.mu.Unlock()
	for _, m := range marks {
		m.reached()
	}
	for _, f := range watchers {
		(*f)()
	}
	c.store.lines.forget(c)
	c.store.captures.Done()
}
