package loop

import (
	"math"
	"time"
)

// Ready is a set of conditions of a descriptor.
type Ready uint8

const (
	Readable Ready = 1 << iota // EPOLLIN
	Writable                   // EPOLLOUT
	Hangup                     // EPOLLHUP or EPOLLERR: reported whether asked for or not
)

// never is the deadline of a wait that nothing but an event ends.
const never time.Duration = math.MaxInt64

// A poller waits for events and has the clocks. The loop adds scopes, timers and fairness to it.
//
// Its registrations have the meaning of epoll's: one for each descriptor, kept by the open file, so
// that one may vanish, or report after its descriptor was closed. Hence the generation, which comes
// back in each event.
type poller interface {
	// now and wake may be called from any goroutine, the others only from that of the loop.
	now() time.Duration
	wake() // ends the present wait, or the next

	wall() time.Time
	boot() time.Duration

	// watchClock has clockChanged report, after a wait that it ends, whether the wall clock was set or the machine has slept
	// since it last was asked.
	watchClock() error
	clockChanged() bool

	// add fails with syscall.EPERM for a file that is always ready, as regular files are. modify fails
	// with syscall.ENOENT if the number is now that of another file. It reports anew what is ready, so
	// that no edge is lost. remove does nothing if there is no such registration.
	add(fd int, r registration) error
	modify(fd int, r registration) error
	remove(fd int)

	// wait fills events and returns how many there are. It returns without any at the deadline, which
	// is on the scale of now, or after wake.
	wait(deadline time.Duration, events []event) (int, error)

	close()
}

// A registration is what a poller is to report about a descriptor.
type registration struct {
	want       Ready
	edge       bool // only when something became ready, rather than while it is
	generation uint32
}

// An event is what a poller reports.
type event struct {
	fd         int
	generation uint32
	ready      Ready
}
