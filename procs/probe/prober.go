// Package probe checks periodically whether programs answer: for readiness until a check passes,
// for health while they run.
//
// A [Checker] performs one check. Those of this package connect or send HTTP requests, in a
// goroutine; commands are run by a package that can kill their process trees. The [Prober]
// schedules checks on the loop. It spreads them, runs a limited number at the same time, and
// applies time-outs; one that hangs costs its own program a failure and does not affect others. So
// all of it can be simulated by a virtual loop with its own checkers.
package probe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"superd/internal/terminal"
	"superd/loop"
)

// A Checker performs checks of one kind on one target.
type Checker interface {
	// Check begins a check and does not block. done is called once on the loop, after Check has
	// returned: with nil if the check has passed, with an [Uncounted] if it has no result, else
	// with the reason. stop may be called at any time and repeatedly. After stop, done is called as
	// soon as nothing of the check is left; its error is then ignored. stop returns false if the
	// check had not begun, where checks wait for their turn; it then says nothing about its target.
	Check(done func(error)) (stop func() (begun bool))
}

// Failing returns a checker whose checks fail with err, in scope.
func Failing(scope *loop.Scope, err error) Checker { return &failing{scope, err} }

type failing struct {
	scope *loop.Scope
	err   error
}

// Check implements [Checker].
func (f *failing) Check(done func(error)) (stop func() (begun bool)) {
	f.scope.Post(func() { done(f.err) })
	return func() bool { return true }
}

// An Uncounted is the reason why a check has no result: superd itself lacks a resource.
type Uncounted struct{ Err error }

func (e Uncounted) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e Uncounted) Unwrap() error { return e.Err }

// A Result is the result of a check.
type Result struct {
	Outcome Outcome
	Reason  string // why it did not pass: one short line, safe for a terminal
	// Address of a failed connection, with which Reason begins; else empty
	Address string
	Cause   string        // Reason without the address
	At      time.Duration // when it began, on the scale of [loop.Loop.Now]
	Took    time.Duration
	Waited  bool // Void since the check waited for its turn during all of its time-out
}

// Outcome is what a result says about the target.
type Outcome uint8

// Values of Outcome.
const (
	Passed Outcome = iota
	Failed
	Void // no result: superd lacks resources, or the machine slept meanwhile
)

const (
	maxReason = 200 // columns
	// A pause is drawn from pause·[1-jitter, 1+jitter).
	jitter      = 0.1
	eagerJitter = 0.5
	eagerSteps  = 5 // first pauses of an eager probe are interval/2^5, /2^4, …
	// a light check that takes longer waits for its answer, and releases its slot
	slotTime    = 200 * time.Millisecond
	maxDetached = 1000 // each has a descriptor
	// slack is the largest difference that reading two clocks in sequence may show without a sleep.
	slack = time.Second
)

// A Prober runs the probes of one superd. It belongs to its loop.
type Prober struct {
	loop  *loop.Loop
	rng   *rand.Rand
	heavy lane
	light lane
}

// A lane has the checks of one kind, of which a limited number run at the same time.
type lane struct {
	limit    int
	running  int // checks that count toward limit
	detached int // running checks that have released their slots
	// Probes that wait for their turn; eager ones first, each in order of arrival
	eager  []*Probe
	others []*Probe
}

// New returns a prober that runs at most limit checks at the same time, and as many light ones. The
// seed determines how they are spread.
func New(l *loop.Loop, limit int, seed uint64) *Prober {
	return &Prober{loop: l, heavy: lane{limit: limit}, light: lane{limit: limit}, rng: rand.New(rand.NewPCG(seed, 0))}
}

// Options say when to check.
type Options struct {
	Interval time.Duration // from the start of a check to the next one, ±10 %
	Timeout  time.Duration // time-out of a check
	// Eager makes the first check start at once, and the next ones after pauses that grow to
	// Interval: for readiness. Otherwise the first one starts within Interval. Eager probes precede
	// others that wait for their turn.
	Eager bool
	// Light marks a check that needs no process or thread while it waits for an answer. Others may
	// run meanwhile.
	Light bool
}

// A Probe checks one target periodically.
type Probe struct {
	prober  *Prober
	lane    *lane
	scope   *loop.Scope
	checker Checker
	options Options
	result  func(Result)

	began    int         // number of checks begun
	timer    *loop.Timer // of the next check, or of the time-out
	waits    bool        // in the queue
	check    *check      // running check; nil: none
	overtime *check      // a check that has timed out and not ended yet
}

// A check is a running check.
type check struct {
	stop     func() (begun bool)
	at       time.Duration // when it began
	boot     time.Duration // the same on CLOCK_BOOTTIME
	detached bool          // it has released its slot
}

// Start calls result on the loop with each result until the scope is closed, which result may do.
// Closing it stops a running check.
func (p *Prober) Start(scope *loop.Scope, c Checker, o Options, result func(Result)) *Probe {
	b := &Probe{prober: p, lane: &p.heavy, scope: scope, checker: c, options: o, result: result}
	if o.Light {
		b.lane = &p.light
	}
	scope.Defer(b.close)
	first := time.Duration(p.rng.Int64N(int64(o.Interval)))
	if o.Eager {
		first = 0
	}
	b.timer = scope.After(first, b.due)
	return b
}

// Next returns when the next check is due, on the scale of [loop.Loop.Now]; false while one runs or
// waits for its turn.
func (b *Probe) Next() (time.Duration, bool) {
	return b.timer.Due(), b.check == nil && !b.waits && b.timer.Active()
}

// due begins the next check, or queues it.
func (b *Probe) due() {
	l := b.lane
	if b.overtime != nil {
		// The next one would hang as well.
		at := b.prober.loop.Now()
		b.next(at)
		b.report(Result{Outcome: Failed, At: at, Reason: fmt.Sprintf("the previous check has been running for %s", (at - b.overtime.at).Round(time.Second))})
		return
	}
	switch {
	case l.running < l.limit:
		b.begin()
		return
	case b.options.Eager:
		l.eager = append(l.eager, b)
	default:
		l.others = append(l.others, b)
	}
	b.waits = true
}

// Waits reports whether a check is due and waits for its turn.
func (b *Probe) Waits() bool { return b.waits }

func (b *Probe) begin() {
	l := b.prober.loop
	b.lane.running++
	b.began++
	c := &check{at: l.Now(), boot: l.Boot()}
	b.check = c
	if b.options.Light && b.options.Timeout > slotTime {
		b.timer = b.scope.After(slotTime, func() { b.detach(c) })
	} else {
		b.timer = b.scope.After(b.options.Timeout, func() { b.timedOut(c) })
	}
	c.stop = b.checker.Check(func(err error) { b.ended(c, err) })
}

// detach releases the slot of a light check that waits for its answer.
func (b *Probe) detach(c *check) {
	b.timer = b.scope.After(b.options.Timeout-slotTime, func() { b.timedOut(c) })
	if l := b.lane; l.detached < maxDetached {
		c.detached = true
		l.detached++
		l.running--
		l.startNext()
	}
}

// ended handles the end of a check, in time or late.
func (b *Probe) ended(c *check, err error) {
	if b.overtime == c {
		b.overtime = nil
	}
	if b.check == c {
		b.finish(c, err)
	}
}

func (b *Probe) timedOut(c *check) {
	b.overtime = c
	err := fmt.Errorf("no answer within %s", b.options.Timeout)
	if !c.stop() {
		err = Uncounted{fmt.Errorf("%w within %s", errNoTurn, b.options.Timeout)}
	}
	b.finish(c, err)
}

var errNoTurn = errors.New("not begun")

// finish releases the slot of the check and reports the result.
func (b *Probe) finish(c *check, err error) {
	l := b.prober.loop
	r := Result{At: c.at, Took: l.Now() - c.at}
	r.Waited = errors.Is(err, errNoTurn)
	slept := l.Boot() - c.boot - r.Took
	switch _, uncounted := errors.AsType[Uncounted](err); {
	case slept > slack:
		r.Outcome, r.Reason = Void, "the machine slept"
	case uncounted:
		r.Outcome = Void
	case err != nil:
		r.Outcome = Failed
	}
	if err != nil && r.Reason == "" {
		r.Reason = shortText(err)
		if refused, ok := errors.AsType[*connectError](err); ok {
			r.Address, r.Cause = refused.address, shortText(refused.cause)
		}
	}
	b.releaseSlot()
	if r.Waited {
		b.next(l.Now()) // it ends only in the next turn of the loop
	} else {
		b.next(c.at)
	}
	b.report(r)
}

// shortText returns an error as one short line, safe for a terminal.
func shortText(err error) string { return terminal.Cut(terminal.Sanitize(err.Error()), maxReason) }

func (b *Probe) report(r Result) { b.result(r) }

// releaseSlot releases the slot of the current check.
func (b *Probe) releaseSlot() {
	b.timer.Stop()
	if b.check.detached {
		b.lane.detached--
	} else {
		b.lane.running--
	}
	b.check = nil
	b.lane.startNext()
}

// startNext starts waiting checks in free slots.
func (l *lane) startNext() {
	for l.running < l.limit {
		queue := &l.eager
		if len(l.eager) == 0 {
			queue = &l.others
		}
		if len(*queue) == 0 {
			break
		}
		first := (*queue)[0]
		(*queue)[0] = nil
		if *queue = (*queue)[1:]; len(*queue) == 0 {
			*queue = nil
		}
		if first.waits { // otherwise its scope was closed
			first.waits = false
			first.begin()
		}
	}
}

// next schedules the check after the one begun at that time.
func (b *Probe) next(at time.Duration) {
	pause, share := b.options.Interval, jitter
	if b.options.Eager && b.began <= eagerSteps {
		pause, share = pause>>(eagerSteps+1-b.began), eagerJitter
	}
	pause += time.Duration((2*b.prober.rng.Float64() - 1) * share * float64(pause))
	b.timer = b.scope.After(at+pause-b.prober.loop.Now(), b.due)
}

// close stops the probe when its scope is closed.
func (b *Probe) close() {
	b.waits = false
	if c := b.check; c != nil {
		b.releaseSlot()
		c.stop()
	}
}
