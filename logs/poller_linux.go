package logs

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A poller waits for output. All FIFOs are in one epoll(7), in which its workers wait. The worker
// that gets a FIFO's event drains it, so a line is in its file after one wake-up of one thread.
type poller struct {
	collectors *sync.WaitGroup // counts collectors and workers
	most       int             // how many workers may work at a time, blocked ones not counted
	patience   time.Duration   // after which a worker counts as blocked

	mu      sync.Mutex
	set     *pollSet // nil: nothing is watched
	over    bool     // nothing is watched any more: see dismiss
	returns uint64   // counts returns of epoll_wait
}

// A pollSet is an epoll, from the first FIFO that is watched to the last. The poller's mu guards
// what changes.
type pollSet struct {
	epoll   int
	over    int    // an eventfd, readable when the set ends
	seats   []seat // by the number in an event; seat 0 is that of over
	free    []int32
	waiting int       // workers that wait, or are about to
	alive   int       // workers that have not ended
	working []*worker // workers that drain, without those known to be blocked
	looking bool      // a call of look is scheduled
	looks   uint64    // counts scheduled calls of look
}

// A seat connects the number in an event with a collector. As events may be late, the generation
// distinguishes the collectors that have had the same seat.
type seat struct {
	collector  *Collector // nil: unused
	generation int32
}

// A watch is a collector's state in the poller. The collector's mu guards it.
type watch struct {
	epoll int32 // epoll of the poller
	// both is, with two FIFOs, an epoll inside epoll that holds them. So it has the order in which
	// they became readable. Otherwise it is 0.
	both             int32
	seat, generation int32 // 0: not watched
}

// add watches the FIFOs that a collector has by now. Output that is there already causes an event
// at once. After an error the FIFOs for which it worked are watched, and it may be called again.
func (p *poller) add(c *Collector) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.dismissed() {
		return nil
	}
	w, all := &c.watch, piped(c.streams)
	before := w.seat > 0
	if before && (len(all) == 1 || w.both > 0) {
		return nil
	}
	both := -1
	var err error
	if len(all) > 1 {
		both, err = newBoth(all)
	}
	if serr := p.sit(c); serr != nil {
		closeFD(both)
		return fmt.Errorf("watch output: %w", serr)
	}
	if both >= 0 {
		if err = os.NewSyscallError("epoll_ctl", control(w.epoll, unix.EPOLL_CTL_ADD, both, w.seat, w.generation)); err == nil {
			w.both = int32(both)
			for _, s := range all { // remove those that were watched directly
				_ = control(w.epoll, unix.EPOLL_CTL_DEL, s.pipe(), 0, 0)
			}
			return nil
		}
		closeFD(both)
	}
	watched := before
	for _, s := range all { // with two, only their order is not known then
		switch aerr := control(w.epoll, unix.EPOLL_CTL_ADD, s.pipe(), w.seat, w.generation); aerr {
		case nil:
			watched = true
		case unix.EEXIST:
		default:
			err = os.NewSyscallError("epoll_ctl", aerr)
		}
	}
	if !watched {
		p.leave(w)
	}
	if err != nil {
		return fmt.Errorf("watch output: %w", err)
	}
	return nil
}

// newBoth returns an epoll with the FIFOs of these streams.
func newBoth(all []*stream) (epoll int, err error) {
	if epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return -1, os.NewSyscallError("epoll_create1", err)
	}
	for _, s := range all {
		if err := control(int32(epoll), unix.EPOLL_CTL_ADD, s.pipe(), int32(s.which), 0); err != nil {
			closeFD(epoll)
			return -1, os.NewSyscallError("epoll_ctl", err)
		}
	}
	return epoll, nil
}

// control changes the watch of a descriptor in an epoll: one event with number and generation when
// it is readable.
func control(epoll int32, op, fd int, number, generation int32) error {
	return unix.EpollCtl(int(epoll), op, fd, &unix.EpollEvent{
		// without EPOLLET the kernel checks once more before it removes the event
		Events: unix.EPOLLIN | unix.EPOLLET | unix.EPOLLONESHOT,
		Fd:     number, Pad: generation,
	})
}

// remove ends the watch. A worker may still be about to handle an earlier event.
func (p *poller) remove(c *Collector) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.watch
	if w.seat == 0 || p.dismissed() {
		return
	}
	// Closing is not enough: the keeper has the FIFOs open, too.
	if w.both > 0 {
		_ = control(w.epoll, unix.EPOLL_CTL_DEL, int(w.both), 0, 0)
	}
	for _, s := range piped(c.streams) {
		_ = control(w.epoll, unix.EPOLL_CTL_DEL, s.pipe(), 0, 0)
	}
	p.leave(w)
}

// dismiss ends all watches at once, and the workers. The epoll stays open, as collectors have its
// number.
func (p *poller) dismiss() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if set := p.set; set != nil {
		p.set = nil
		set.end()
	}
}

func (p *poller) dismissed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// listen requests one more event for when one of these streams has output, at once if one has some.
// Only the draining goroutine may call it.
func (c *Collector) listen(all ...*stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seat == 0 {
		return
	}
	for _, s := range piped(all) {
		if c.both == 0 {
			_ = control(c.epoll, unix.EPOLL_CTL_MOD, s.pipe(), c.seat, c.generation)
		} else {
			c.order(s)
		}
	}
	if c.both > 0 {
		_ = control(c.epoll, unix.EPOLL_CTL_MOD, int(c.both), c.seat, c.generation)
	}
}

// order makes told return this stream once more. The caller holds mu.
func (c *Collector) order(s *stream) {
	if c.both > 0 {
		_ = control(c.both, unix.EPOLL_CTL_MOD, s.pipe(), int32(s.which), 0)
	}
}

// told returns which of two streams have become readable since listen, in that order. Only the
// draining goroutine may call it.
func (c *Collector) told() (which []Stream) {
	c.mu.Lock()
	both := int(c.both)
	c.mu.Unlock()
	if both == 0 {
		return nil
	}
	var events [streams]unix.EpollEvent
	n, _ := unix.EpollWait(both, events[:], 0) // it does not wait, so nothing interrupts it
	for _, e := range events[:max(n, 0)] {
		which = append(which, Stream(e.Fd))
	}
	return which
}

func (p *poller) sit(c *Collector) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &c.watch
	if w.seat > 0 {
		return nil
	}
	if p.set == nil {
		set, err := newPollSet()
		if err != nil {
			return err
		}
		p.set = set
		p.replenish(set)
	}
	set := p.set
	n := int32(len(set.seats))
	if last := len(set.free) - 1; last >= 0 {
		n, set.free = set.free[last], set.free[:last]
	} else {
		set.seats = append(set.seats, seat{})
	}
	s := &set.seats[n]
	s.collector = c
	w.epoll, w.seat, w.generation = int32(set.epoll), n, s.generation
	return nil
}

// leave releases the seat. With the last one the set ends.
func (p *poller) leave(w *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.seat == 0 {
		return
	}
	set := p.set
	s := &set.seats[w.seat]
	s.collector = nil
	s.generation++
	set.free = append(set.free, w.seat)
	w.seat = 0
	if len(set.free) == len(set.seats)-1 {
		p.set = nil
		set.end()
	}
}

func newPollSet() (*pollSet, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	over, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		closeFD(epoll)
		return nil, os.NewSyscallError("eventfd", err)
	}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, over, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		closeFD(epoll)
		closeFD(over)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return &pollSet{epoll: epoll, over: over, seats: make([]seat, 1)}, nil
}

// end ends all waiting workers. The write can't fail: the counter is nowhere near its limit.
func (set *pollSet) end() {
	one := [8]byte{1}
	_, _ = unix.Write(set.over, one[:])
}
