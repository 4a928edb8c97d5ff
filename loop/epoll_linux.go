package loop

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// An epoll is the poller of the kernel: epoll(7), with an eventfd(2) for wakeups.
type epoll struct {
	fd      int
	eventFD int
	precise bool // epoll_pwait2(2), since Linux 5.11, takes nanoseconds
	start   time.Time
	offset  time.Duration // CLOCK_MONOTONIC at start
	busy    bool          // the last wait returned events
	clock   clockFD
	buf     [maxEvents]unix.EpollEvent
}

func newEpoll() (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	eventFD, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	e := &epoll{fd: fd, eventFD: eventFD, clock: clockFD{fd: -1}}
	// Each write to an eventfd is an edge, so it need not be read.
	if err := e.add(eventFD, registration{interest: Readable, edge: true}); err != nil {
		e.close()
		return nil, fmt.Errorf("watch eventfd: %w", err)
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		e.close()
		return nil, fmt.Errorf("read clock: %w", err)
	}
	e.start, e.offset = time.Now(), time.Duration(ts.Nano())
	// Old kernels return ENOSYS, old seccomp filters EPERM.
	_, err = e.pwait2(e.buf[:], 0)
	e.precise = err == nil
	return e, nil
}

// now returns CLOCK_MONOTONIC through package time, which needs no system call.
func (e *epoll) now() time.Duration { return e.offset + time.Since(e.start) }

func (e *epoll) wall() time.Time { return time.Now() }

// wake ends a wait. It can't fail: the counter would overflow only after 2^64 writes.
func (e *epoll) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(e.eventFD, one[:])
}

func (e *epoll) add(fd int, r registration) error {
	return unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, r.epollEvent(fd))
}

func (e *epoll) modify(fd int, r registration) error {
	return unix.EpollCtl(e.fd, unix.EPOLL_CTL_MOD, fd, r.epollEvent(fd))
}

// remove ignores an error, since a closed fd was removed with its close.
func (e *epoll) remove(fd int) {
	_ = unix.EpollCtl(e.fd, unix.EPOLL_CTL_DEL, fd, nil)
}

func (e *epoll) wait(deadline time.Duration, events []event) (int, error) {
	n, err := syscalls.RetryInt(func() (int, error) { return e.waitOnce(deadline, e.buf[:len(events)]) })
	if err != nil {
		return 0, err
	}
	k := 0
	for _, raw := range e.buf[:n] {
		switch int(raw.Fd) {
		case e.eventFD:
		case e.clock.fd:
			e.clock.read()
		default:
			events[k] = fromEpoll(raw)
			k++
		}
	}
	return k, nil
}

// waitOnce fills buf and returns the number of events.
func (e *epoll) waitOnce(deadline time.Duration, buf []unix.EpollEvent) (n int, err error) {
	defer func() { e.busy = n > 0 }()
	if e.busy || deadline == 0 {
		if n, err = e.poll(buf); n > 0 || err != nil || deadline == 0 {
			return n, err
		}
	}
	timeout := time.Duration(-1)
	if deadline != never {
		timeout = max(deadline-e.now(), 0)
	}
	if e.precise {
		return e.pwait2(buf, timeout)
	}
	return unix.EpollWait(e.fd, buf, milliseconds(timeout))
}

// poll is an epoll_pwait(2) that does not block. It bypasses the runtime's bookkeeping of system
// calls, which costs as much as a few callbacks; a busy loop looks before it waits.
func (e *epoll) poll(buf []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(e.fd),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// pwait2 is epoll_pwait2(2) without a signal mask. A negative timeout means none.
func (e *epoll) pwait2(buf []unix.EpollEvent, timeout time.Duration) (int, error) {
	ts := struct{ sec, nsec int64 }{ // the kernel's type, 64 bits on all platforms
		int64(timeout / time.Second), int64(timeout % time.Second),
	}
	p := unsafe.Pointer(&ts)
	if timeout < 0 {
		p = nil
	}
	// Not RawSyscall: the runtime must know that this goroutine may block.
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(e.fd),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), uintptr(p), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func (e *epoll) close() {
	if e.clock.fd >= 0 {
		unix.Close(e.clock.fd)
	}
	unix.Close(e.eventFD)
	unix.Close(e.fd)
}

// milliseconds returns the timeout for epoll_wait(2), rounded up, since an early wakeup requires a
// second one.
func milliseconds(timeout time.Duration) int {
	if timeout < 0 {
		return -1
	}
	ms := timeout / time.Millisecond
	if timeout%time.Millisecond > 0 {
		ms++
	}
	return int(min(ms, math.MaxInt32))
}

// epollEvent packs the descriptor and the generation into the 64 bits of user data of epoll.
func (r registration) epollEvent(fd int) *unix.EpollEvent {
	var bits uint32
	if r.interest&Readable != 0 {
		bits |= unix.EPOLLIN
	}
	if r.interest&Writable != 0 {
		bits |= unix.EPOLLOUT
	}
	if r.edge {
		bits |= unix.EPOLLET
	}
	return &unix.EpollEvent{Events: bits, Fd: int32(fd), Pad: int32(r.generation)}
}

func fromEpoll(raw unix.EpollEvent) event {
	ev := event{fd: int(raw.Fd), generation: uint32(raw.Pad)}
	if raw.Events&unix.EPOLLIN != 0 {
		ev.ready |= Readable
	}
	if raw.Events&unix.EPOLLOUT != 0 {
		ev.ready |= Writable
	}
	if raw.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		ev.ready |= Hangup
	}
	return ev
}
