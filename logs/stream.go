package logs

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"superd/loop"
)

// A Stream is one of the outputs of a program.
type Stream int32

// The streams of a program.
const (
	Stdout  Stream = iota // with standard error, if both share one FIFO
	Stderr                // if it has a FIFO of its own
	streams               // how many there can be
)

// A stream is a collector's state for one FIFO.
type stream struct {
	*Collector
	which Stream
	fd    atomic.Int32 // read end; -1: none yet

	// file is that of the collector's options; both streams may share one. It belongs to the
	// draining goroutine, its segments also to followers.
	file *file

	drainState // used by the draining goroutine only
}

// drainState is the state that a stream keeps between drains.
type drainState struct {
	// readableAt is the order in which the collector's FIFOs became readable; 0: not known to be.
	readableAt   uint64
	total        int64  // bytes written to the file
	lingered     int64  // total when it last waited for more
	second       uint32 // Unix time of burst, the bytes of that second that came in large portions
	burst        int32
	pipeGrown    bool // the pipe was made bigger
	*writeErrors      // never nil
}

// writeErrors is the state of a stream whose output does not get into its log, or did not once.
// Most streams never need one.
type writeErrors struct {
	dropped        dropped
	since          int64           // time of the first failure, in Unix nanoseconds
	failures       int32           // failed turns in a row
	failing        bool            // output does not get into the log
	rotationLogged bool            // the problem with rotation has been logged
	partial        *partialLine    // nil: there was none
	ahead          *readAhead      // nil: nothing was ever read ahead
	startSaved     <-chan struct{} // closed when the start is saved; nil: no save is under way
}

// noWriteErrors is shared by the streams that never needed another one. It is never modified.
var noWriteErrors writeErrors

// ensureErrors returns the stream's writeErrors, which it allocates on first use.
func (d *drainState) ensureErrors() *writeErrors {
	if d.writeErrors == &noWriteErrors {
		d.writeErrors = new(writeErrors)
	}
	return d.writeErrors
}

func (c *Collector) newStream(which Stream) *stream {
	s := new(stream)
	s.init(c, which)
	return s
}

func (s *stream) init(c *Collector, which Stream) {
	s.Collector, s.which, s.writeErrors = c, which, &noWriteErrors
	s.fd.Store(-1)
}

// pipe returns the read end, -1 if there is none.
func (s *stream) pipe() int { return int(s.fd.Load()) }

// bytes returns how many bytes are in the FIFO or were read ahead.
func (s *stream) bytes() int64 {
	if fd := s.pipe(); fd >= 0 {
		return pipeBytes(fd) + int64(len(s.ahead.text()))
	}
	return 0
}

func (s *stream) label() string {
	if s.which == Stderr {
		return stderr
	}
	return stdout
}

// all returns the streams. The list is never modified.
func (c *Collector) all() []*stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams
}

// stream returns the stream which, nil if the collector doesn't have it.
func (c *Collector) stream(which Stream) *stream {
	for _, s := range c.all() {
		if s.which == which {
			return s
		}
	}
	return nil
}

// piped returns the streams of all that have a FIFO.
func piped(all []*stream) []*stream {
	n := 0
	for _, s := range all {
		if s.pipe() >= 0 {
			n++
		}
	}
	if n == len(all) {
		return all
	}
	list := make([]*stream, 0, n)
	for _, s := range all {
		if s.pipe() >= 0 {
			list = append(list, s)
		}
	}
	return list
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
			if s.which == which && s.readableAt == 0 {
				c.readableCount++
				s.readableAt = c.readableCount
			}
		}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *stream) int {
		return cmp.Compare(a.readableAt-1, b.readableAt-1) // 0 comes last
	})
	return list
}

// Attach sets the read end of a stream, once in its life. The collector owns fd from now on; after
// an error fd is closed. What is in the FIFO already is written.
func (c *Collector) Attach(which Stream, fd int) error {
	s := c.stream(which)
	switch {
	case c.scopeClosed:
		closeFD(fd)
		return fmt.Errorf("attach output of %s: %w", c.name, loop.ErrClosed)
	case s != nil && s.pipe() >= 0:
		closeFD(fd)
		return fmt.Errorf("attach output of %s: it already has a read end", c.name)
	case s == nil: // of an earlier configuration
		s = c.addStream(which)
	}
	if openLineOf(fd) == droppedLine {
		s.ensureErrors().dropped.lineBytes = 1
	}
	s.fd.Store(int32(fd))
	// Posted, as recovery calls more of the collector's methods first
	loop.ScopeOf(&c.link).Post(c.startWatch)
	return nil
}

func (c *Collector) addStream(which Stream) *stream {
	s := c.newStream(which)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.file = c.streams[0].file // until the draining goroutine calls applyOptions
	c.streams = append(c.streams[:len(c.streams):len(c.streams)], s)
	c.reopen.Store(true)
	return s
}

// FD returns the read end of a stream, -1 if there is none or the scope is closed.
func (c *Collector) FD(which Stream) int {
	if s := c.stream(which); s != nil && !c.scopeClosed {
		return s.pipe()
	}
	return -1
}

func (c *Collector) hasPipe() bool {
	for _, s := range c.all() {
		if s.pipe() >= 0 {
			return true
		}
	}
	return false
}

// startWatch begins the watch. Output that is there already causes an event at once.
func (c *Collector) startWatch() {
	if err := c.store.poller.watch(c); err != nil { // memory, descriptors or watches are exhausted
		loop.ScopeOf(&c.link).After(time.Second, c.startWatch)
	}
	if c.dropsUnrecorded {
		c.dropsUnrecorded = false
		c.ensureDrain()
	}
}

// readable drains, unless another goroutine does, which then checks once more. There are no more
// events before [Collector.armWatch], so a program that prints much does not wake a worker by each
// write.
func (c *Collector) readable(w *wakeup) {
	if c.claimDrain() {
		c.run(w)
	}
}
