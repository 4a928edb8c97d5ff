package loop

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// A clockFD is a timer of the wall clock that never expires. It becomes readable when the clock is
// set; for the kernel that includes resuming from sleep. Source: timerfd_create(2),
// TFD_TIMER_CANCEL_ON_SET.
type clockFD struct {
	fd      int // -1: not open
	changed bool
}

func openClockFD() (clockFD, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return clockFD{fd: -1}, err
	}
	c := clockFD{fd: fd}
	if err := c.arm(); err != nil {
		unix.Close(fd)
		return clockFD{fd: -1}, err
	}
	return c, nil
}

func (c *clockFD) arm() error {
	never := unix.ItimerSpec{}
	never.Value.Sec = math.MaxInt32 // fits int64 and int32
	if math.MaxInt == math.MaxInt64 {
		never.Value.Sec <<= 28 // the kernel caps it at its latest time
	}
	err := unix.TimerfdSettime(c.fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &never, nil)
	if err == unix.ECANCELED { // armed all the same; the clock was set since the last time
		c.changed = true
		return nil
	}
	return err
}

// read reads the state of the timer.
func (c *clockFD) read() {
	var count [8]byte
	_, err := syscalls.RetryInt(func() (int, error) { return unix.Read(c.fd, count[:]) })
	if err == unix.EAGAIN {
		return
	}
	c.changed = true
	_ = c.arm() // stays armed if the kernel keeps it armed
}

func (e *epoll) watchClock() error {
	if e.clock.fd >= 0 {
		return nil
	}
	c, err := openClockFD()
	if err != nil {
		return err
	}
	if err := e.add(c.fd, registration{interest: Readable}); err != nil {
		unix.Close(c.fd)
		return err
	}
	e.clock = c
	return nil
}

func (e *epoll) clockChanged() bool {
	changed := e.clock.changed
	e.clock.changed = false
	return changed
}

// boot returns CLOCK_BOOTTIME, which exists since Linux 2.6.39, so that reading it can't fail.
func (e *epoll) boot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}
