package read

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// A Pipe is the read end of a FIFO.
type Pipe struct {
	FD     int
	Number int32 // which of the drainer's two it is, from 0
}

// A Watch is a drainer's state in the poller. A lock of the drainer guards it: the caller of each
// method that has a Watch holds it.
type Watch struct {
	epoll int32 // epoll of the poller
	// inner is, with two FIFOs, an epoll inside epoll that has both. It keeps the order in which
	// they became readable. With one FIFO it is 0.
	inner             int32
	index, generation int32 // 0: not watched
}

// Watch watches the FIFOs that a drainer has by now. Output that is there already causes an event
// at once. After an error, the FIFOs for which it worked are watched, and it may be called again.
func (p *Poller) Watch(w *Watch, owner Drainer, pipes ...Pipe) error {
	if p.isStopped() {
		return nil
	}
	before := w.index > 0
	if before && (len(pipes) == 1 || w.inner > 0) {
		return nil
	}
	both := -1
	var err error
	if len(pipes) > 1 {
		both, err = newInnerEpoll(pipes)
	}
	if serr := p.register(w, owner); serr != nil {
		syscalls.Close(both)
		return fmt.Errorf("watch output: %w", serr)
	}
	if both >= 0 {
		if err = os.NewSyscallError("epoll_ctl", control(w.epoll, unix.EPOLL_CTL_ADD, both, w.index, w.generation)); err == nil {
			w.inner = int32(both)
			for _, one := range pipes { // remove those that were watched directly
				_ = control(w.epoll, unix.EPOLL_CTL_DEL, one.FD, 0, 0)
			}
			return nil
		}
		syscalls.Close(both)
	}
	watched := before
	for _, one := range pipes { // without inner, only the order of two is unknown
		switch aerr := control(w.epoll, unix.EPOLL_CTL_ADD, one.FD, w.index, w.generation); aerr {
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

// newInnerEpoll returns an epoll with these FIFOs.
func newInnerEpoll(pipes []Pipe) (epoll int, err error) {
	if epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return -1, os.NewSyscallError("epoll_create1", err)
	}
	for _, one := range pipes {
		if err := control(int32(epoll), unix.EPOLL_CTL_ADD, one.FD, one.Number, 0); err != nil {
			syscalls.Close(epoll)
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

// Unwatch ends the watch. A worker may still be about to handle an earlier event.
func (p *Poller) Unwatch(w *Watch, pipes ...Pipe) {
	if w.index == 0 || p.isStopped() {
		return
	}
	// Closing is not enough: the keeper has the FIFOs open, too.
	if w.inner > 0 {
		_ = control(w.epoll, unix.EPOLL_CTL_DEL, int(w.inner), 0, 0)
	}
	for _, one := range pipes {
		_ = control(w.epoll, unix.EPOLL_CTL_DEL, one.FD, 0, 0)
	}
	p.unregister(w)
}

// Arm requests one more event for when one of these FIFOs has output, at once if one has some. Only
// the draining goroutine may call it.
func (w *Watch) Arm(pipes ...Pipe) {
	if w.index == 0 {
		return
	}
	for _, one := range pipes {
		if w.inner == 0 {
			_ = control(w.epoll, unix.EPOLL_CTL_MOD, one.FD, w.index, w.generation)
		} else {
			w.Rearm(one)
		}
	}
	if w.inner > 0 {
		_ = control(w.epoll, unix.EPOLL_CTL_MOD, int(w.inner), w.index, w.generation)
	}
}

// Rearm makes [Order] return this FIFO once more.
func (w *Watch) Rearm(one Pipe) {
	if w.inner > 0 {
		_ = control(w.inner, unix.EPOLL_CTL_MOD, one.FD, one.Number, 0)
	}
}

// Inner returns the descriptor for [Order], 0 if only one FIFO is watched.
func (w *Watch) Inner() int { return int(w.inner) }

// Close closes what the watch has open.
func (w *Watch) Close() {
	if w.inner > 0 {
		syscalls.Close(int(w.inner))
	}
}

// Order returns the numbers of those of two FIFOs that have become readable since [Watch.Arm], in
// that order. inner is their watch's; it needs no lock. Only the draining goroutine may call it.
func Order(inner int) (numbers []int32) {
	if inner == 0 {
		return nil
	}
	var events [2]unix.EpollEvent
	n, _ := unix.EpollWait(inner, events[:], 0) // it does not wait, so nothing interrupts it
	for _, e := range events[:max(n, 0)] {
		numbers = append(numbers, e.Fd)
	}
	return numbers
}

func (p *Poller) register(w *Watch, owner Drainer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	s.owner = owner
	w.epoll, w.index, w.generation = int32(set.epoll), n, s.generation
	return nil
}

// unregister releases the entry. With the last one the set ends.
func (p *Poller) unregister(w *Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.index == 0 {
		return
	}
	set := p.pollSet
	s := &set.entries[w.index]
	s.owner = nil
	s.generation++
	set.free = append(set.free, w.index)
	w.index = 0
	if len(set.free) == len(set.entries)-1 {
		p.pollSet = nil
		set.end()
	}
}
