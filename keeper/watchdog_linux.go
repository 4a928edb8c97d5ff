package keeper

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
)

// abortTimeout is how long a supervisor may take to write its goroutine traces.
const abortTimeout = 5 * time.Second

// A watchdog detects a supervisor whose loop hangs. It needs no wakeups in either process while the
// loop runs.
//
// The supervisor arms a timer when a turn of its loop begins and disarms it when the turn ends. The
// timer is a timerfd that the keeper watches, so the keeper wakes up only if a turn has taken too
// long. Also, when the keeper has sent a message, it checks once after that time whether it was
// read: a stopped supervisor, or one whose loop does not turn, reads nothing. A supervisor that
// replaces another arms the timer when its start begins.
//
// A hanging supervisor gets SIGABRT, which makes Go write all goroutine traces, then SIGKILL.
type watchdog struct {
	k        *Keeper
	fd       int // the timer; -1: no watchdog
	lastSent time.Duration
	check    *loop.Timer // runs checkRead; nil: no message was sent lately
	aborting bool        // SIGABRT was sent
}

func (w *watchdog) open(k *Keeper) error {
	w.k = k
	if k.options.Watchdog <= 0 {
		return nil
	}
	if w.fd < 0 {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
			k.log.Warn("superd's keeper does not detect a hung supervisor: timerfd_create is refused; "+
				"allow it in the system call filter (seccomp)", "error", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("make watchdog's timer: %w", err)
		}
		w.fd = fd
	}
	_, err := k.loop.Root().OnReadable(w.fd, w.expired)
	return err
}

// expired handles the expiry of the timer.
func (w *watchdog) expired() {
	var count [8]byte
	if n, _ := unix.Read(w.fd, count[:]); n == len(count) { // otherwise the turn has just ended
		w.abortHung("a turn of its loop does not end")
	}
}

// sent schedules a check after a message was sent.
func (w *watchdog) sent() {
	if w.fd < 0 || w.k.supervisor == nil {
		return
	}
	w.lastSent = w.k.loop.Now()
	if w.check == nil {
		w.check = w.k.scope.After(w.k.options.Watchdog, w.checkRead)
	}
}

// checkRead checks whether messages were read.
func (w *watchdog) checkRead() {
	w.check = nil
	unread, err := unix.IoctlGetInt(w.k.channel, unix.SIOCOUTQ)
	switch rest := w.lastSent + w.k.options.Watchdog - w.k.loop.Now(); {
	case err != nil || unread == 0:
	case rest > 0:
		w.check = w.k.scope.After(rest, w.checkRead)
	default:
		w.abortHung("it does not read messages")
	}
}

// abortHung kills a hanging supervisor, after it has written its goroutine traces.
func (w *watchdog) abortHung(how string) {
	if w.k.supervisor == nil || w.aborting {
		return
	}
	w.aborting = true
	w.k.log.Error("superd hangs: it is aborted and restarted", "pid", w.k.supervisor.Pid(),
		"because", how, "watchdog", w.k.options.Watchdog)
	w.k.supervisor.Signal(unix.SIGABRT)
	w.k.supervisor.Signal(unix.SIGCONT) // a stopped process can't handle SIGABRT
	w.k.scope.After(abortTimeout, func() { w.k.supervisor.Signal(unix.SIGKILL) })
}

// reset resets the watchdog after the end of a supervisor.
func (w *watchdog) reset() {
	w.check, w.aborting = nil, false
	if w.fd >= 0 {
		unix.TimerfdSettime(w.fd, 0, &unix.ItimerSpec{}, nil)
	}
}

// A turnTimer is the supervisor's side of the watchdog: it arms the timer for each turn.
type turnTimer struct {
	fd    int
	limit unix.ItimerSpec
}

func newTurnTimer(fd int, limit time.Duration) *turnTimer {
	return &turnTimer{fd, unix.ItimerSpec{Value: unix.NsecToTimespec(limit.Nanoseconds())}}
}

func (g *turnTimer) begin() { unix.TimerfdSettime(g.fd, 0, &g.limit, nil) }
func (g *turnTimer) end()   { unix.TimerfdSettime(g.fd, 0, &unix.ItimerSpec{}, nil) }
