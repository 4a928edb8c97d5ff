package read

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// delays are the calls of drainers after a pause, see [Poller.After].
type delays struct {
	timer int       // a timerfd in the epoll, for the first of them; -1: the kernel refused one
	began time.Time // due counts from it
	all   []delay   // in the order in which they are due
}

type delay struct {
	due               time.Duration
	index, generation int32
}

// The index and generation of the timer's event. The epoll's other event with this index is that
// of its end.
const timerIndex, timerGeneration = 0, 1

// init adds a timer to the epoll.
func (d *delays) init(epoll int) {
	d.began = time.Now()
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		d.timer = -1
		return
	}
	// It is not read, so it stays readable. Edge-triggered it still causes an event each time.
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: timerIndex, Pad: timerGeneration}
	if unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &event) != nil {
		syscalls.Close(fd)
		fd = -1
	}
	d.timer = fd
}

// add adds a delay from now on. It reports false if there is no timer.
func (d *delays) add(pause time.Duration, index, generation int32) bool {
	if d.timer < 0 {
		return false
	}
	next := delay{time.Since(d.began) + pause, index, generation}
	at, _ := slices.BinarySearchFunc(d.all, next, func(a, b delay) int { return cmp.Compare(a.due, b.due) })
	d.all = slices.Insert(d.all, at, next)
	if at == 0 {
		d.set(pause)
	}
	return true
}

// take removes the first delay and returns it if it is due. It sets the timer for the next one,
// which another worker handles.
func (d *delays) take() (first delay, ok bool) {
	now := time.Since(d.began)
	if ok = len(d.all) > 0 && d.all[0].due <= now; ok {
		first = d.all[0]
		d.all = slices.Delete(d.all, 0, 1)
	}
	if len(d.all) > 0 {
		d.set(d.all[0].due - now)
	}
	return first, ok
}

// set makes the timer expire after a pause. It fails for no valid time.
func (d *delays) set(pause time.Duration) {
	value := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(pause, 1)))}
	_ = unix.TimerfdSettime(d.timer, 0, &value, nil)
}

// After requests one call of the drainer after a pause, instead of an event for its FIFOs. It
// reports false if that is not possible: nothing is watched, or the kernel has refused a timer. A
// lock of the drainer guards w, as in the methods of [Watch].
func (p *Poller) After(w *Watch, pause time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return w.index > 0 && p.pollSet != nil && p.pollSet.delays.add(pause, w.index, w.generation)
}
