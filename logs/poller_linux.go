package logs

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A poller waits for output. All FIFOs are in one epoll(7), in which its workers wait. The worker
// that gets the event of a FIFO drains it, so a line is in its file after one wake-up of one
// thread.
type poller struct {
	collectors   *sync.WaitGroup // counts collectors and workers
	maxWorking   int             // how many workers may drain at a time, blocked ones not counted
	blockedAfter time.Duration   // after which a worker counts as blocked

	mu          sync.Mutex
	pollSet     *pollSet // nil: nothing is watched
	stopped     bool     // nothing is watched any more: see stop
	waitReturns uint64   // counts returns of epoll_wait
}

// A pollSet is an epoll. It exists from the first FIFO that is watched to the last. The poller's mu
// guards what changes.
type pollSet struct {
	epoll          int
	endFD          int          // an eventfd, readable when the set ends
	entries        []watchEntry // by the number in an event; 0 is that of endFD
	free           []int32
	waiting        int       // workers that wait, or are about to
	alive          int       // workers that have not ended
	working        []*worker // workers that drain, without those known to be blocked
	checkScheduled bool      // a call of checkBlocked is scheduled
	checks         uint64    // counts the calls of checkBlocked that were scheduled
}

// A watchEntry connects the number in an event with a collector. As events may be late, the
// generation distinguishes the collectors that have used the same entry.
type watchEntry struct {
	collector  *Collector // nil: unused
	generation int32
}

// A watch is a collector's state in the poller. The collector's mu guards it.
type watch struct {
	epoll int32 // epoll of the poller
	// inner is, with two FIFOs, an epoll inside epoll that has both. It keeps the order in which
	// they became readable. With one FIFO it is 0.
	inner             int32
	index, generation int32 // 0: not watched
}

// watch watches the FIFOs that a collector has by now. Output that is there already causes an event
// at once. After an error, the FIFOs for which it worked are watched, and it may be called again.
func (p *poller) watch(c *Collector) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.isStopped() {
		return nil
	}
	w, all := &c.watch, piped(c.streams)
	before := w.index > 0
	if before && (len(all) == 1 || w.inner > 0) {
		return nil
	}
	both := -1
	var err error
	if len(all) > 1 {
		both, err = newInnerEpoll(all)
	}
	if serr := p.register(c); serr != nil {
		closeFD(both)
		return fmt.Errorf("watch output: %w", serr)
	}
	if both >= 0 {
		if err = os.NewSyscallError("epoll_ctl", control(w.epoll, unix.EPOLL_CTL_ADD, both, w.index, w.generation)); err == nil {
			w.inner = int32(both)
			for _, s := range all { // remove those that were watched directly
				_ = control(w.epoll, unix.EPOLL_CTL_DEL, s.pipe(), 0, 0)
			}
			return nil
		}
		closeFD(both)
	}
	watched := before
	for _, s := range all { // without inner, only the order of two is unknown
		switch aerr := control(w.epoll, unix.EPOLL_CTL_ADD, s.pipe(), w.index, w.generation); aerr {
		case nil:
			watched = true
		case unix.EEXIST:
		default:
			err = os.NewSyscallError("epoll_ctl", aerr)
		}
	}
	if !watched {
		p.unregister(w)
	}
	if err != nil {
		return fmt.Errorf("watch output: %w", err)
	}
	return nil
}

// newInnerEpoll returns an epoll with the FIFOs of these streams.
func newInnerEpoll(all []*stream) (epoll int, err error) {
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

// unwatch ends the watch. A worker may still be about to handle an earlier event.
func (p *poller) unwatch(c *Collector) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.watch
	if w.index == 0 || p.isStopped() {
		return
	}
	// Closing is not enough: the keeper has the FIFOs open, too.
	if w.inner > 0 {
		_ = control(w.epoll, unix.EPOLL_CTL_DEL, int(w.inner), 0, 0)
	}
	for _, s := range piped(c.streams) {
		_ = control(w.epoll, unix.EPOLL_CTL_DEL, s.pipe(), 0, 0)
	}
	p.unregister(w)
}

// stop ends all watches at once, and the workers. The epoll stays open, as collectors still have
// its number.
func (p *poller) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if set := p.pollSet; set != nil {
		p.pollSet = nil
		set.end()
	}
}

func (p *poller) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// armWatch requests one more event for when one of these streams has output, at once if one has
// some. Only the draining goroutine may call it.
func (c *Collector) armWatch(all ...*stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.index == 0 {
		return
	}
	for _, s := range piped(all) {
		if c.inner == 0 {
			_ = control(c.epoll, unix.EPOLL_CTL_MOD, s.pipe(), c.index, c.generation)
		} else {
			c.rearm(s)
		}
	}
	if c.inner > 0 {
		_ = control(c.epoll, unix.EPOLL_CTL_MOD, int(c.inner), c.index, c.generation)
	}
}

// rearm makes readableOrder return this stream once more. The caller holds mu.
func (c *Collector) rearm(s *stream) {
	if c.inner > 0 {
		_ = control(c.inner, unix.EPOLL_CTL_MOD, s.pipe(), int32(s.which), 0)
	}
}

// readableOrder returns which of two streams have become readable since armWatch, in that order.
// Only the draining goroutine may call it.
func (c *Collector) readableOrder() (which []Stream) {
	c.mu.Lock()
	both := int(c.inner)
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

func (p *poller) register(c *Collector) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &c.watch
	if w.index > 0 {
		return nil
	}
	if p.pollSet == nil {
		set, err := newPollSet()
		if err != nil {
			return err
		}
		p.pollSet = set
		p.ensureWaiting(set)
	}
	set := p.pollSet
	n := int32(len(set.entries))
	if last := len(set.free) - 1; last >= 0 {
		n, set.free = set.free[last], set.free[:last]
	} else {
		set.entries = append(set.entries, watchEntry{})
	}
	s := &set.entries[n]
	s.collector = c
	w.epoll, w.index, w.generation = int32(set.epoll), n, s.generation
	return nil
}

// unregister releases the entry. With the last one the set ends.
func (p *poller) unregister(w *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.index == 0 {
		return
	}
	set := p.pollSet
	s := &set.entries[w.index]
	s.collector = nil
	s.generation++
	set.free = append(set.free, w.index)
	w.index = 0
	if len(set.free) == len(set.entries)-1 {
		p.pollSet = nil
		set.end()
	}
}

func newPollSet() (*pollSet, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	endFD, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		closeFD(epoll)
		return nil, os.NewSyscallError("eventfd", err)
	}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, endFD, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		closeFD(epoll)
		closeFD(endFD)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return &pollSet{epoll: epoll, endFD: endFD, entries: make([]watchEntry, 1)}, nil
}

// end ends all waiting workers. The write can't fail: the counter is nowhere near its limit.
func (set *pollSet) end() {
	one := [8]byte{1}
	_, _ = unix.Write(set.endFD, one[:])
}
