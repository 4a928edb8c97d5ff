// Package loop runs callbacks when descriptors become ready, when timers expire and when other
// goroutines post work.
//
// A [Loop] belongs to the goroutine in [Loop.Run]. All of this package must be called there, in a
// callback or before Run; only [Loop.Post], [Loop.PostSoon] and [Scope.Post] may be called from
// elsewhere. A callback must not block, and a panic in one is not caught.
//
//	l, err := loop.New()
//	if err != nil {
//		return err
//	}
//	l.Root().Every(time.Second, func() { fmt.Println("tick") })
//	l.Root().After(time.Minute, l.Stop)
//	return l.Run()
//
// # Turns
//
// Each turn waits for a descriptor, a timer or posted work, reads the clock, and then serves a
// share of each: first the descriptors that the wait reported, then the timers due at that reading,
// then the work posted before it. What these callbacks cause comes in a later turn, so that no busy
// source starves the others. [Lag] is the delay of callbacks.
//
// # Scopes
//
// Every registration belongs to a [Scope], which releases it when it is closed. Anything with a
// lifetime, such as a connection, has its own scope, a child of the scope that it is part of.
// [Scope.OnReadable] and similar methods watch its descriptors, [Scope.After] and [Scope.Every] set
// its timers, [Scope.Defer] registers other cleanup, and one [Scope.Close] ends it all. A callback
// may stop any watch or timer and close any scope, including its own. What is stopped is never
// called again, even if it is ready in the same turn.
//
// # Other goroutines
//
// Blocking work runs in its own goroutine, and its result comes back by [Loop.Post]. For
// straight-line code instead of callbacks, package task has coroutines.
//
// # Tests
//
// [New] returns a loop over epoll, [NewVirtual] one over a simulated clock and descriptors in
// memory, on which hours pass at once, and reproducibly.
package loop

import (
	"fmt"
	"sync"
	"time"
)

// A Loop is an event loop. It owns a poller, a heap of timers and a queue of posted work.
type Loop struct {
	poller poller
	root   *Scope
	now    time.Duration // clock at the beginning of the turn
	inTurn bool
	stop   bool
	turns  uint64
	events []event // result of one wait
	width  int     // how much of events the next wait may fill
	slots  []slot  // by descriptor number
	timers timerHeap
	armed  uint64 // number of the last timer armed, for the order of those due at one instant
	lag    lagMeter
	clocks []*ClockWatch
	read   Clocks // clocks of the turn readIn
	readIn uint64
	epoch  time.Time // wall clock at Now 0, for WallAt
	locals []any     // see Local

	turnBegins, turnEnds func() // see OnTurn

	taken   queue         // work posted earlier and not yet run
	takenAt time.Duration // when its oldest entry was posted
	used    chunks        // chunks that taken no longer uses

	mu       sync.Mutex // guards the following fields, for Post
	posted   queue
	postedAt time.Duration // when its oldest entry was posted
	free     chunks        // spare chunks for posted
	sleeping bool          // the loop waits, or is about to, and must be woken
	gathers  time.Duration // see Gather
	closed   bool

	waking       sync.RWMutex // held by goroutines that wake the loop
	pollerClosed bool         // the poller is closed; guarded by waking
}

// A turn serves at least minShare ready descriptors, timers and posted functions each, and more
// within its first youth. So posted work does not wait for a thousand due timers if they are slow,
// and quick ones need not pay for many turns. Ready descriptors beyond the share come next: epoll
// rotates.
const (
	minShare  = 16
	maxShare  = 1024
	maxEvents = 128 // events of one wait at most, instead of maxShare
	youth     = time.Millisecond
)

// New returns a loop over epoll, with CLOCK_MONOTONIC for its timers. It holds two descriptors
// until Run ends.
func New() (*Loop, error) {
	p, err := newEpoll()
	if err != nil {
		return nil, err
	}
	return newLoop(p), nil
}

func newLoop(p poller) *Loop {
	l := &Loop{poller: p, events: make([]event, maxEvents), width: minShare, turnBegins: func() {}, turnEnds: func() {}}
	l.root = &Scope{loop: l}
	return l
}

// Run runs the loop on the calling goroutine until [Loop.Stop] or until Root is closed. Then it
// closes Root and the poller; the loop can't be used again. The error is one of the poller; no
// callback can cause it.
func (l *Loop) Run() error {
	var err error
	for !l.stop && err == nil {
		err = l.turn()
	}
	l.finish()
	return err
}

// Stop makes Run return after this turn. Before Run, it makes Run only close the loop.
func (l *Loop) Stop() { l.stop = true }

// Root returns the scope from which all others descend. Closing it stops the loop.
func (l *Loop) Root() *Scope { return l.root }

// Now returns the monotonic clock at the start of this turn, the same for all its callbacks.
// Outside a turn it reads the clock. It is not the time of day, and has no steps.
func (l *Loop) Now() time.Duration {
	if l.inTurn {
		return l.now
	}
	return l.poller.now()
}

// OnTurn sets functions to call when a turn begins, after the wait, and when it ends. A watchdog
// uses them. For the turn in which it is called, only ends is called.
func (l *Loop) OnTurn(begins, ends func()) { l.turnBegins, l.turnEnds = begins, ends }

// Turns returns how many turns the loop has begun. An idle loop has no turns.
func (l *Loop) Turns() uint64 { return l.turns }

func (l *Loop) turn() error {
	n, err := l.poller.wait(l.deadline(), l.events[:l.width])
	if err != nil {
		return fmt.Errorf("wait for events: %w", err)
	}
	l.turnBegins()
	l.turns++
	l.inTurn = true
	oldest := l.takePosted()
	l.now = l.poller.now()
	if len(l.timers) > 0 {
		oldest = min(oldest, l.timers[0].due)
	}
	armed := l.armed

	for _, e := range l.events[:n] {
		l.dispatch(e)
	}
	if n == l.width {
		l.adapt()
	}
	l.notifyClockWatches()
	l.fire(armed)
	l.runPosted()

	if oldest <= l.now {
		l.noteLag(l.poller.now() - oldest)
	}
	l.inTurn = false
	l.turnEnds()
	return nil
}

// adapt sets how many events the next wait may report, after a wait that was full. All reported
// events are served in their turn, so the number must fit the time they take.
func (l *Loop) adapt() {
	if l.young() {
		l.width = min(2*l.width, maxEvents)
	} else {
		l.width = minShare
	}
}

// more reports whether a turn may call another timer or posted function after n of them.
func (l *Loop) more(n int) bool {
	return n < minShare || n < maxShare && (n%minShare != 0 || l.young())
}

func (l *Loop) young() bool { return l.poller.now()-l.now < youth }

// deadline returns the deadline of the next wait, on the scale of Now: zero to poll only, never if
// there are neither timers nor work.
func (l *Loop) deadline() time.Duration {
	if l.taken.first != nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.posted.first != nil {
		return 0
	}
	l.sleeping = true
	due := never
	if len(l.timers) > 0 {
		due = l.timers[0].due
	}
	if l.gathers > 0 {
		due = min(due, l.poller.now()+l.gathers)
	}
	return due
}

func (l *Loop) finish() {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.posted, l.taken = queue{}, queue{}
	l.mu.Unlock()
	if again {
		return
	}
	l.root.Close()
	l.waking.Lock()
	defer l.waking.Unlock()
	l.pollerClosed = true
	l.poller.close()
}
