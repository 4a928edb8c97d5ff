// Package probe checks again and again whether programs answer: for readiness until one check passes, for health as long as they run.
//
// A [Checker] performs one check; those of this package connect or ask by HTTP, in a goroutine; commands are run by whoever can kill
// them with all they bring forth. The [Prober] decides when, on the loop: checks are spread, so many at a time at most, each has its
// timeout, and one that hangs costs its own program a failure and nobody else anything. So a virtual loop with checkers
// of its own simulates all of it.
package probe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"superd/loop"
	"superd/terminal"
)

// A Checker performs checks of one kind on one target.
type Checker interface {
	// Check begins a check and does not block. done is called once on the loop, not before Check has returned: with nil if
	// the check has passed, an [Uncounted] if nothing can be said, else with the reason. After stop, which may be called
	// at any time and again, it is called as soon as nothing of the check is left; its error doesn't matter then. stop returns false if the
	// check had not come to its turn yet, where checks wait for one: then it says nothing of its target.
	Check(done func(error)) (stop func() (begun bool))
}

// An Uncounted is why a check says nothing of its target: superd itself lacks something.
type Uncounted struct{ Err error }

func (e Uncounted) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e Uncounted) Unwrap() error { return e.Err }

// A Result is what came of a check.
type Result struct {
	Outcome Outcome
	Reason  string        // why it did not pass: one short line, fit for a terminal
	At      time.Duration // when it began, as [loop.Loop.Now] counts
	Took    time.Duration
	Waited  bool // it is Void since the check had to wait for its turn for all of its timeout
}

// Outcome is what a result says of the target.
type Outcome uint8

// The outcomes.
const (
	Passed Outcome = iota
	Failed
	Void // nothing: superd lacks resources, or the machine slept meanwhile
)

const (
	maxReason = 200 // columns
	// Jitter is drawn from pause·[1-jitter, 1+jitter).
	jitter      = 0.1
	eagerJitter = 0.5
	eagerSteps  = 5 // the first pauses of an eager probe are interval/2^5, /2^4, …
	// A light check that takes longer waits, rather than works, and lets others go on.
	placePatience = 200 * time.Millisecond
	maxAway       = 1000 // each has a descriptor
	// slack is what reading two clocks one after the other may make of no sleep at all.
	slack = time.Second
)

// A Prober carries out the probes of one superd. It belongs to its loop.
type Prober struct {
	loop  *loop.Loop
	rng   *rand.Rand
	heavy lane
	light lane
}

// A lane has the checks of one kind, so many of which are under way at a time.
type lane struct {
	limit   int
	running int      // checks that hold a place
	away    int      // checks under way that have given theirs up
	eager   []*Probe // who waits for a place; those of these come first, and of each the first come
	others  []*Probe
}

// New returns a prober that has limit checks run at a time, and as many that are light. The seed decides how they are spread.
func New(l *loop.Loop, limit int, seed uint64) *Prober {
	return &Prober{loop: l, heavy: lane{limit: limit}, light: lane{limit: limit}, rng: rand.New(rand.NewPCG(seed, 0))}
}

// Options say when to check.
type Options struct {
	Interval time.Duration // from the start of a check to that of the next one, give or take a tenth
	Timeout  time.Duration // of a check
	// Eager has the first check come at once and the next ones soon, after pauses that grow to Interval: for readiness. Else the
	// first one comes within Interval. It goes before others that wait for a place.
	Eager bool
	// Light is a check that takes no process and no thread while it waits for an answer. If it has to, others go on meanwhile.
	Light bool
}

// A Probe checks one target again and again.
type Probe struct {
	prober  *Prober
	lane    *lane
	scope   *loop.Scope
	checker Checker
	options Options
	result  func(Result)

	began    int         // checks
	timer    *loop.Timer // of the next check, or of the timeout
	waits    bool        // in the queue
	check    *check      // under way; nil: none
	overtime *check      // that has timed out and not ended yet
}

// A check is one that has begun.
type check struct {
	stop func() (begun bool)
	at   time.Duration // when it began
	boot time.Duration // the same on CLOCK_BOOTTIME
	away bool          // it has given up its place
}

// Start has result called on the loop with each result, until the scope is closed, as result may do. A check under way is
// stopped then.
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

// Next returns when the next check is due, as [loop.Loop.Now] counts; false while one is under way or waits for its turn.
func (b *Probe) Next() (time.Duration, bool) {
	return b.timer.Due(), b.check == nil && !b.waits && b.timer.Active()
}

// due has the next check begin, or wait for a place.
func (b *Probe) due() {
	l := b.lane
	if b.overtime != nil {
		// The next one would hang in the same place.
		at := b.prober.loop.Now()
		b.next(at)
		b.report(Result{Outcome: Failed, At: at, Reason: fmt.Sprintf("the check before has not ended for %s", (at - b.overtime.at).Round(time.Second))})
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
	if b.options.Light && b.options.Timeout > placePatience {
		b.timer = b.scope.After(placePatience, func() { b.giveWay(c) })
	} else {
		b.timer = b.scope.After(b.options.Timeout, func() { b.timedOut(c) })
	}
	c.stop = b.checker.Check(func(err error) { b.ended(c, err) })
}

// giveWay lets another check go on while one waits for its answer.
func (b *Probe) giveWay(c *check) {
	b.timer = b.scope.After(b.options.Timeout-placePatience, func() { b.timedOut(c) })
	if l := b.lane; l.away < maxAway {
		c.away = true
		l.away++
		l.running--
		l.fill()
	}
}

// ended takes the end of a check, in time or late.
func (b *Probe) ended(c *check, err error) {
	if b.overtime == c {
		b.overtime = nil
	}
	if b.check == c {
		b.settle(c, err)
	}
}

func (b *Probe) timedOut(c *check) {
	b.overtime = c
	err := fmt.Errorf("no answer within %s", b.options.Timeout)
	if !c.stop() {
		err = Uncounted{fmt.Errorf("%w within %s", errNoTurn, b.options.Timeout)}
	}
	b.settle(c, err)
}

var errNoTurn = errors.New("its turn did not come")

// settle gives the place of the check to the next one and reports the result.
func (b *Probe) settle(c *check, err error) {
	l := b.prober.loop
	r := Result{At: c.at, Took: l.Now() - c.at}
	r.Waited = errors.Is(err, errNoTurn)
	slept := l.Boot() - c.boot - r.Took
	switch _, uncounted := errors.AsType[Uncounted](err); {
	case slept > slack:
		r.Outcome, r.Reason = Void, "the machine slept meanwhile"
	case uncounted:
		r.Outcome = Void
	case err != nil:
		r.Outcome = Failed
	}
	if err != nil && r.Reason == "" {
		r.Reason = terminal.Cut(terminal.Sanitize(err.Error()), maxReason)
	}
	b.leave()
	if r.Waited {
		b.next(l.Now()) // it is not over before the next turn of the loop
	} else {
		b.next(c.at)
	}
	b.report(r)
}

// report comes last: the scope may be closed by it.
func (b *Probe) report(r Result) { b.result(r) }

// leave gives up the place.
func (b *Probe) leave() {
	b.timer.Stop()
	if b.check.away {
		b.lane.away--
	} else {
		b.lane.running--
	}
	b.check = nil
	b.lane.fill()
}

// fill gives the places that are free to those who wait.
func (l *lane) fill() {
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
		if first.waits { // else its scope was closed
			first.waits = false
			first.begin()
		}
	}
}

// next has the check come that follows the one begun at an instant.
func (b *Probe) next(at time.Duration) {
	pause, share := b.options.Interval, jitter
	if b.options.Eager && b.began <= eagerSteps {
		pause, share = pause>>(eagerSteps+1-b.began), eagerJitter
	}
	pause += time.Duration((2*b.prober.rng.Float64() - 1) * share * float64(pause))
	b.timer = b.scope.After(at+pause-b.prober.loop.Now(), b.due)
}

// close is the scope's clean-up.
func (b *Probe) close() {
	b.waits = false
	if c := b.check; c != nil {
		b.leave()
		c.stop()
	}
}
