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
	Hangup                     // EPOLLHUP or EPOLLERR, always reported
)

// never is the deadline of a wait that only an event ends.
const never time.Duration = math.MaxInt64

// A poller waits for events and has the clocks. The loop adds scopes, timers and fairness to it.
//
// Its registrations have the semantics of epoll: one for each descriptor, owned by the open file,
// so that one may vanish, or report after its descriptor was closed. Therefore each event has the
// generation of its registration.
type poller interface {
	// now and wake may be called from any goroutine, the others only from the loop's.
	now() time.Duration
	wake() // ends the current wait, or the next

	wall() time.Time
	boot() time.Duration

	// watchClock makes clockChanged report whether the wall clock was set or the machine has slept
	// since the last call. Such a change ends a wait.
	watchClock() error
	clockChanged() bool

	// add fails with syscall.EPERM for a file that is always ready, such as a regular file. modify
	// fails with syscall.ENOENT if the number belongs to another file now. It reports anew what is
	// ready, so that no edge is lost. remove does nothing if there is no such registration.
	add(fd int, r registration) error
	modify(fd int, r registration) error
	remove(fd int)

	// wait fills events and returns their number. It returns 0 at the deadline, which is on the
	// scale of now, or after wake.
	wait(deadline time.Duration, events []event) (int, error)

	close()
}

// A registration says what a poller reports about a descriptor.
type registration struct {
	interest   Ready
	edge       bool // report only changes to ready, not the state
	generation uint32
}

// An event is one report of a poller.
type event struct {
	fd         int
	generation uint32
	ready      Ready
}
