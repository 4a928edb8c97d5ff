// Package loop runs callbacks when descriptors become ready, when timers expire and when other
// goroutines post work.
//
// A [Loop] belongs to the goroutine in [Loop.Run]. Everything of this package is called there, in a
// callback or before Run; only [Loop.Post] and [Scope.Post] may be called from elsewhere. A callback
// must not block, and a panic in one is not caught.
//
// Each turn waits for a descriptor, a timer or posted work, reads the clock, and then gives each of
// the three its share: first the descriptors that the wait reported, then the timers due at that
// reading, then the work posted before it. What these callbacks cause comes in a later turn, so that
// nothing that is always busy starves the rest.
//
// Every registration belongs to a [Scope], which releases it when it is closed. A callback may stop
// any watch or timer and close any scope, its own among them; what is stopped is never called again,
// even if it is ready in the same turn.
//
// [New] gives a loop over epoll, [NewVirtual] one over a simulated clock and descriptors in memory.
package loop

import (
	"fmt"
	"sync"
	"time"
)

// A Loop is an event loop: the owner of a poller, a heap of timers and a queue of posted work.
type Loop struct {
	poller poller
	root   *Scope
	now    time.Duration // the clock as the turn read it
	inTurn bool
	stop   bool
	turns  uint64
	events []event // what one wait reports, at most batch
	slots  []slot  // by descriptor number
	timers timerHeap
	armed  uint64 // number of the timer armed last, for order among those due at one instant
	lag    Lag
	locals []any // see Local

	mu       sync.Mutex // guards what follows, for Post
	posted   []work
	postedAt time.Duration // when the oldest of posted was
	sleeping bool          // the loop waits, or is about to, and has to be woken
	closed   bool

	spare []work // the queue of the turn before, empty, for reuse
}

// batch is how many ready descriptors a turn takes. What is ready beyond it comes next: epoll goes
// round.
const batch = 128

// New returns a loop over epoll, with CLOCK_MONOTONIC for its timers. It holds two descriptors, which
// Run closes in the end.
func New() (*Loop, error) {
	p, err := newEpoll()
	if err != nil {
		return nil, err
	}
	return newLoop(p), nil
}

func newLoop(p poller) *Loop {
	l := &Loop{poller: p, events: make([]event, batch)}
	l.root = &Scope{loop: l}
	return l
}

// Run runs the loop on the calling goroutine until [Loop.Stop] or until Root is closed. Then it closes
// Root and the poller: the loop can't be used again. The error is one of the poller, which no
// callback can cause.
func (l *Loop) Run() error {
	var err error
	for !l.stop && err == nil {
		err = l.turn()
	}
	l.finish()
	return err
}

// Stop has Run return after this turn. Before Run, it has Run only close what there is.
func (l *Loop) Stop() { l.stop = true }

// Root returns the scope that all others descend from. Closing it stops the loop.
func (l *Loop) Root() *Scope { return l.root }

// Now returns the monotonic clock as read at the start of this turn: the same instant for all its
// callbacks. Outside of a turn it reads the clock. It does not tell the time of day, and it has no
// steps.
func (l *Loop) Now() time.Duration {
	if l.inTurn {
		return l.now
	}
	return l.poller.now()
}

// Wall returns the wall clock, read at the call. It steps when someone sets it: for showing only.
func (l *Loop) Wall() time.Time { return l.poller.wall() }

// Turns returns how many turns the loop has begun. It stands still while nothing happens.
func (l *Loop) Turns() uint64 { return l.turns }

func (l *Loop) turn() error {
	n, err := l.poller.wait(l.deadline(), l.events)
	if err != nil {
		return fmt.Errorf("wait for events: %w", err)
	}
	l.turns++
	l.inTurn = true
	posted, oldest := l.takePosted()
	l.now = l.poller.now()
	if len(l.timers) > 0 {
		oldest = min(oldest, l.timers[0].due)
	}
	armed := l.armed

	for _, e := range l.events[:n] {
		l.dispatch(e)
	}
	l.fire(armed)
	l.runPosted(posted)

	if oldest <= l.now {
		l.noteLag(l.poller.now() - oldest)
	}
	l.inTurn = false
	return nil
}

// deadline returns until when the next wait may last, on the scale of Now: zero to look only, never
// when there is neither a timer nor work.
func (l *Loop) deadline() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.posted) > 0 {
		return 0
	}
	l.sleeping = true
	if len(l.timers) > 0 {
		return l.timers[0].due
	}
	return never
}

func (l *Loop) finish() {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.posted = nil
	l.mu.Unlock()
	if again {
		return
	}
	l.root.Close()
	l.poller.close()
}
