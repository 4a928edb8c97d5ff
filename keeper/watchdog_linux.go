package keeper

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
)

// abortPatience is how long a supervisor may take to write down its goroutines.
const abortPatience = 5 * time.Second

// A watchdog notices a supervisor whose loop is stuck, and costs nothing while all is well: no clock ticks for it in either process.
//
// The supervisor arms a timer when a turn of its loop begins and disarms it when the turn ends: a timerfd, which the keeper watches. So the
// keeper wakes up only when a turn has taken too long. And when the keeper has sent something that lies unread in the socket, it looks
// once after that time: a supervisor that is stopped, or whose loop does not turn at all, reads nothing. One that takes the place of another arms
// the timer when it begins to come up.
//
// Who is stuck gets SIGABRT, which has Go write down all goroutines, then SIGKILL.
type watchdog struct {
	k        *Keeper
	fd       int // the timer; -1: no watchdog
	lastSent time.Duration
	look     *loop.Timer // nil: nothing was sent lately
	aborting bool        // SIGABRT was sent
}

func (w *watchdog) open(k *Keeper) error {
	w.k = k
	if k.options.Watchdog <= 0 {
		return nil
	}
	if w.fd < 0 {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if err != nil {
			return fmt.Errorf("make watchdog's timer: %w", err)
		}
		w.fd = fd
	}
	_, err := k.loop.Root().OnReadable(w.fd, w.expired)
	return err
}

// expired is told by the timer.
func (w *watchdog) expired() {
	var count [8]byte
	if n, _ := unix.Read(w.fd, count[:]); n == len(count) { // else the turn has just ended
		w.stuck("a turn of its loop does not end")
	}
}

// sent is told when something was sent.
func (w *watchdog) sent() {
	if w.fd < 0 || w.k.supervisor == nil {
		return
	}
	w.lastSent = w.k.loop.Now()
	if w.look == nil {
		w.look = w.k.scope.After(w.k.options.Watchdog, w.lookWhetherRead)
	}
}

// lookWhetherRead looks whether what was sent has been read.
func (w *watchdog) lookWhetherRead() {
	w.look = nil
	unread, err := unix.IoctlGetInt(w.k.channel, unix.SIOCOUTQ)
	switch rest := w.lastSent + w.k.options.Watchdog - w.k.loop.Now(); {
	case err != nil || unread == 0:
	case rest > 0:
		w.look = w.k.scope.After(rest, w.lookWhetherRead)
	default:
		w.stuck("it does not read what it is told")
	}
}

// stuck ends a supervisor.
func (w *watchdog) stuck(how string) {
	if w.k.supervisor == nil || w.aborting {
		return
	}
	w.aborting = true
	w.k.log.Error("superd is stuck: it is to write down what it does, and is started anew", "pid", w.k.supervisor.Pid(),
		"because", how, "watchdog", w.k.options.Watchdog)
	w.k.supervisor.Signal(unix.SIGABRT)
	w.k.supervisor.Signal(unix.SIGCONT) // one that is stopped can't act on it
	w.k.scope.After(abortPatience, func() { w.k.supervisor.Signal(unix.SIGKILL) })
}

// rest forgets a supervisor that has ended.
func (w *watchdog) rest() {
	w.look, w.aborting = nil, false
	if w.fd >= 0 {
		unix.TimerfdSettime(w.fd, 0, &unix.ItimerSpec{}, nil)
	}
}

// A guard is the supervisor's side: it arms the timer for each turn.
type guard struct {
	fd    int
	limit unix.ItimerSpec
}

func newGuard(fd int, limit time.Duration) *guard {
	return &guard{fd, unix.ItimerSpec{Value: unix.NsecToTimespec(limit.Nanoseconds())}}
}

func (g *guard) begin() { unix.TimerfdSettime(g.fd, 0, &g.limit, nil) }
func (g *guard) end()   { unix.TimerfdSettime(g.fd, 0, &unix.ItimerSpec{}, nil) }
