package logs

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A poller tells of output. All FIFOs are in one epoll(7), and goroutines wait there by themselves, its hands: the one that is told of a FIFO
// drains it, so that a line is in its file after one wake-up of one thread.
type poller struct {
	captures *sync.WaitGroup // and those who wait for them
	most     int             // hands that may work at a time, without those that are held up
	patience time.Duration   // before somebody counts as held up

	mu      sync.Mutex
	set     *pollSet // nil: nothing is watched
	over    bool     // nothing is watched any more, ever: see dismiss
	returns uint64   // of waits, in all
}

// A pollSet is an epoll from the first FIFO that is watched to the last one. What changes is guarded by the mu of the poller.
type pollSet struct {
	epoll   int
	over    int     // an eventfd, readable when nothing is watched any more
	seats   []seat  // by what the kernel tells; the first one is that of over
	free    []int32 // seats that nobody has
	waiting int     // hands that wait, or are about to
	alive   int     // hands that have not ended
	working []*hand // those that drain, without those that are known to be held up
	looking bool    // somebody will look soon who is held up
	looks   uint64  // how often that was begun
}

// A seat is by what the kernel tells of a capture. The generation tells those apart who had it one after the other, as an event may be late.
type seat struct {
	capture    *Capture // nil: nobody has it
	generation int32
}

// A watch is what a capture has of the poller, guarded by the mu of the capture.
type watch struct {
	epoll            int32 // that of the poller
	both             int32 // one that is in it and has the FIFOs in it, if there are two, and so knows which was readable first; else 0
	seat, generation int32 // 0: not watched
}

// add watches the FIFOs that a capture has by now. Of what is there already it tells at once. After an error those that can be are watched, and
// it may be called again.
func (p *poller) add(c *Capture) error {
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
			for _, s := range all { // they were there by themselves
				_ = control(w.epoll, unix.EPOLL_CTL_DEL, s.pipe(), 0, 0)
			}
			return nil
		}
		closeFD(both)
	}
	watched := before
	for _, s := range all { // of two, only their order is not known then
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

// control changes what an epoll is to tell of a descriptor: that it is readable, once, by these two numbers.
func control(epoll int32, op, fd int, number, generation int32) error {
	return unix.EpollCtl(int(epoll), op, fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLET | unix.EPOLLONESHOT, // without EPOLLET the kernel looks once more before it forgets it
		Fd:     number, Pad: generation,
	})
}

// remove ends the watch. Somebody may be about to tell of what came before.
func (p *poller) remove(c *Capture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.watch
	if w.seat == 0 || p.dismissed() {
		return
	}
	// Closing would not do: the keeper has the FIFOs open, too.
	if w.both > 0 {
		_ = control(w.epoll, unix.EPOLL_CTL_DEL, int(w.both), 0, 0)
	}
	for _, s := range piped(c.streams) {
		_ = control(w.epoll, unix.EPOLL_CTL_DEL, s.pipe(), 0, 0)
	}
	p.leave(w)
}

// dismiss ends all watches at once, and the hands. The epoll stays open, as captures know its number.
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

// listen has a capture told once more when one of these streams has something: at once, if one has. It is for who drains it.
func (c *Capture) listen(all ...*stream) {
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

// order has told return this stream once more. The caller holds mu.
func (c *Capture) order(s *stream) {
	if c.both > 0 {
		_ = control(c.both, unix.EPOLL_CTL_MOD, s.pipe(), int32(s.which), 0)
	}
}

// told returns which of two streams have become readable since they were listened to, in that order. It is for who drains them.
func (c *Capture) told() (which []Stream) {
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

// sit gives a capture a seat.
func (p *poller) sit(c *Capture) error {
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
	s.capture = c
	w.epoll, w.seat, w.generation = int32(set.epoll), n, s.generation
	return nil
}

// leave takes the seat back. With the last one all ends.
func (p *poller) leave(w *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.seat == 0 {
		return
	}
	set := p.set
	s := &set.seats[w.seat]
	s.capture = nil
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

// end has all who wait end. It can't fail: the counter is nowhere near its end.
func (set *pollSet) end() {
	one := [8]byte{1}
	_, _ = unix.Write(set.over, one[:])
}
