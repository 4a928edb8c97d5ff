// Package loop runs callbacks when descriptors become ready, when timers expire and when other
// goroutines post work.
//
// A [Loop] belongs to the goroutine in [Loop.Run]. Everything of this package is called there, in a
// callback or before Run; only [Loop.Post], [Loop.PostSoon] and [Scope.Post] may be called from elsewhere. A callback
// must not block, and a panic in one is not caught.
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
// Each turn waits for a descriptor, a timer or posted work, reads the clock, and then gives each of
// the three its share: first the descriptors that the wait reported, then the timers due at that
// reading, then the work posted before it. What these callbacks cause comes in a later turn, so that
// nothing that is always busy starves the rest. [Lag] tells how late callbacks are.
//
// # Scopes
//
// Every registration belongs to a [Scope], which releases it when it is closed. What has a life, such as a
// connection, has a scope of its own, a child of the one that it is part of: [Scope.OnReadable] and the
// like watch descriptors for it, [Scope.After] and [Scope.Every] set its timers, [Scope.Defer] says what else
// there is to clean up, and one [Scope.Close] ends it all. A callback may stop any watch or timer and close
// any scope, its own among them; what is stopped is never called again, even if it is ready in the same turn.
//
// # Other goroutines
//
// What blocks runs in a goroutine of its own, and its result comes back by [Loop.Post]. Whoever prefers
// straight-line code to callbacks finds coroutines in the package task.
//
// # Tests
//
// [New] gives a loop over epoll, [NewVirtual] one over a simulated clock and descriptors in memory, on
// which hours pass at once, and in the same way each time.
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
	events []event // what one wait reports
	width  int     // how much of events the next wait may fill
	slots  []slot  // by descriptor number
	timers timerHeap
	armed  uint64 // number of the timer armed last, for order among those due at one instant
	lag    Lag
	clocks []*ClockWatch
	read   Clocks // of the turn readIn
	readIn uint64
	locals []any // see Local

	turnBegins, turnEnds func() // see OnTurn

	taken   queue         // posted earlier, and not run yet
	takenAt time.Duration // when the oldest of it was posted
	used    chunks        // that taken has no more use for

	mu       sync.Mutex // guards what follows, for Post
	posted   queue
	postedAt time.Duration // when the oldest of posted was
	free     chunks        // for posted
	sleeping bool          // the loop waits, or is about to, and has to be woken
	gathers  time.Duration // see Gather
	closed   bool

	waking sync.RWMutex // held by those who wake the loop
	gone   bool         // the poller is closed; guarded by waking
}

// A turn serves at least minShare ready descriptors, timers and posted functions, of each, and more while it is young: so
// what was posted when a thousand timers are due does not wait for all of them if they are slow, and if they are
// quick they need not pay for many turns. What is ready beyond its share comes next: epoll goes round.
const (
	minShare  = 16
	maxShare  = 1024
	maxEvents = 128 // that one wait reports, instead of maxShare
	youth     = time.Millisecond
)

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
	l := &Loop{poller: p, events: make([]event, maxEvents), width: minShare, turnBegins: func() {}, turnEnds: func() {}}
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

// OnTurn has begins called when a turn begins, after the wait, and ends when it has ended, for who watches that turns end. The
// turn that it is called in only ends.
func (l *Loop) OnTurn(begins, ends func()) { l.turnBegins, l.turnEnds = begins, ends }

// Turns returns how many turns the loop has begun. It stands still while nothing happens.
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
	l.tellClocks()
	l.fire(armed)
	l.runPosted()

	if oldest <= l.now {
		l.noteLag(l.poller.now() - oldest)
	}
	l.inTurn = false
	l.turnEnds()
	return nil
}

// adapt follows a wait that was full. What it reports has to be served in its turn, so that the next one must not report
// more than there is time for.
func (l *Loop) adapt() {
	if l.young() {
		l.width = min(2*l.width, maxEvents)
	} else {
		l.width = minShare
	}
}

// more reports whether a turn may call another timer, or posted function, after n of them.
func (l *Loop) more(n int) bool {
	return n < minShare || n < maxShare && (n%minShare != 0 || l.young())
}

func (l *Loop) young() bool { return l.poller.now()-l.now < youth }

// deadline returns until when the next wait may last, on the scale of Now: zero to look only, never
// when there is neither a timer nor work.
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
	l.gone = true
	l.poller.close()
}
