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

// The streams.
const (
	Stdout  Stream = iota // and standard error, where the program has one FIFO for both
	Stderr                // where it has one of its own
	streams               // how many there can be
)

// A stream is what a capture has of one FIFO.
type stream struct {
	*Capture
	which Stream
	fd    atomic.Int32 // read end; -1: none yet

	file *file // as the capture's options have it; both streams may have the same. Used by the draining goroutine; its chain by followers, too

	drain // the draining goroutine's own
}

// A drain is what the goroutine that moves bytes keeps from one time to the next.
type drain struct {
	turnAt     uint64 // when its FIFO became readable, among both of the capture; 0: it is not known to be
	total      int64  // bytes that are in the file
	lingered   int64  // total when it last waited for more
	second     uint32 // of the Unix epoch; so many bytes came in it, much at a time
	burst      int32
	grown      bool // the pipe was made bigger
	*obstacles      // never nil
}

// Obstacles are what keeps the output of a stream from its log, or has. Most streams never have any.
type obstacles struct {
	loss     loss
	since    int64           // of the first of the failures: nanoseconds of the Unix epoch
	failures int32           // turns that failed in a row
	failing  bool            // its output does not get into its log
	troubled bool            // the trouble with rotation has been told
	rest     *unfinished     // nil: none was seen
	placing  <-chan struct{} // closed when the place of the run is saved; nil: nobody has been told one that is not
}

// noObstacles are those of a stream that never had any. It is never changed.
var noObstacles obstacles

// meet has the stream have obstacles of its own.
func (d *drain) meet() *obstacles {
	if d.obstacles == &noObstacles {
		d.obstacles = new(obstacles)
	}
	return d.obstacles
}

func (c *Capture) newStream(which Stream) *stream {
	s := new(stream)
	s.init(c, which)
	return s
}

func (s *stream) init(c *Capture, which Stream) {
	s.Capture, s.which, s.obstacles = c, which, &noObstacles
	s.fd.Store(-1)
}

// pipe returns the read end, -1 without one.
func (s *stream) pipe() int { return int(s.fd.Load()) }

// bytes returns how many bytes are in the FIFO.
func (s *stream) bytes() int64 {
	if fd := s.pipe(); fd >= 0 {
		return pipeBytes(fd)
	}
	return 0
}

// label is what its records say.
func (s *stream) label() string {
	if s.which == Stderr {
		return stderr
	}
	return stdout
}

// all returns the streams. The list is never changed.
func (c *Capture) all() []*stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams
}

// stream returns that one, nil if the capture doesn't have it.
func (c *Capture) stream(which Stream) *stream {
	for _, s := range c.all() {
		if s.which == which {
			return s
		}
	}
	return nil
}

// piped returns those of these streams that have a FIFO.
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

// inOrder returns the streams that have a FIFO, in the order in which these became readable. It is for the draining goroutine.
func (c *Capture) inOrder() []*stream {
	list := piped(c.all())
	if len(list) < 2 {
		return list
	}
	for _, which := range c.told() {
		for _, s := range list {
			if s.which == which && s.turnAt == 0 {
				c.turns++
				s.turnAt = c.turns
			}
		}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *stream) int {
		return cmp.Compare(a.turnAt-1, b.turnAt-1) // 0 comes last
	})
	return list
}

// Attach gives a stream its read end, once in its life. The capture takes ownership, also when it returns an error: fd is then
// closed. What is in the FIFO already is written.
func (c *Capture) Attach(which Stream, fd int) error {
	s := c.stream(which)
	switch {
	case c.over:
		closeFD(fd)
		return fmt.Errorf("attach output of %s: %w", c.name, loop.ErrClosed)
	case s != nil && s.pipe() >= 0:
		closeFD(fd)
		return fmt.Errorf("attach output of %s: it has a read end", c.name)
	case s == nil: // of an earlier configuration
		s = c.addStream(which)
	}
	if openLineOf(fd) == lostLine {
		s.meet().loss.inLine = 1
	}
	s.fd.Store(int32(fd))
	c.scope.Post(c.startWatch) // a superd that takes over has more to tell the capture before
	return nil
}

// addStream has the capture have one more stream.
func (c *Capture) addStream(which Stream) *stream {
	s := c.newStream(which)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.file = c.streams[0].file // until the goroutine has come to settle
	c.streams = append(c.streams[:len(c.streams):len(c.streams)], s)
	c.reopen.Store(true)
	return s
}

// FD returns the read end of a stream, -1 where there is none and after the scope is closed.
func (c *Capture) FD(which Stream) int {
	if s := c.stream(which); s != nil && !c.over {
		return s.pipe()
	}
	return -1
}

// hasPipe reports whether any stream has a read end.
func (c *Capture) hasPipe() bool {
	for _, s := range c.all() {
		if s.pipe() >= 0 {
			return true
		}
	}
	return false
}

// startWatch begins the watch, which tells at once of what is there already.
func (c *Capture) startWatch() {
	if err := c.store.poller.add(c); err != nil { // memory, descriptors or watches are short
		c.scope.After(time.Second, c.startWatch)
	}
	if c.owing {
		c.owing = false
		c.kick()
	}
}

// readable drains, unless another goroutine does: that looks again then. There are no more events before [Capture.listen], so that
// a program that prints much wakes nobody by each of its writes.
func (c *Capture) readable(b *bell) {
	if c.claim() {
		c.run(b)
	}
}
