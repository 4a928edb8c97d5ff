package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"superd/config/codec"
)

// A Spec says when a program runs.
type Spec struct {
	Line     string         // "@every 5m" or a cron line, as for [codec.ParseSchedule]
	Location *time.Location // time zone of a cron line; nil: the machine's
	// Missed runs are not made up: [Table] reports them at once, without a delay
	Skip bool
	// Range of the random delay of each run, at most the time to the next one
	Jitter time.Duration
	Seed   uint64 // determines the delays; programs with different seeds get different delays
}

// A Reading holds the clocks at one instant.
type Reading struct {
	Wall time.Time
	Boot time.Duration // CLOCK_BOOTTIME, see [loop.Loop.Boot]
}

// A Run is a run that is due.
type Run struct {
	// Its time in the schedule, the first one if several were missed
	At     time.Time
	MadeUp bool // the time was missed; with [Spec.Skip] do not run
}

// A Plan computes when a program runs next. Its caller reads the clocks.
type Plan struct {
	spec   Spec
	every  time.Duration // 0: a cron line
	cron   *cronLine
	last   Reading
	after  time.Time     // cron: all times up to this one are handled
	grid   time.Duration // every: next point of the grid, on CLOCK_BOOTTIME
	at     time.Time     // next run; zero: none
	due    time.Duration // when it is due, on CLOCK_BOOTTIME
	madeUp bool
}

const (
	// correction is the largest clock change at which a line keeps its state. Source: cron(8).
	correction = 3 * time.Hour
	// punctual is the largest delay of a run that does not count as missed. It covers the
	// difference of two clocks read in sequence.
	punctual = time.Second
)

const never time.Duration = math.MaxInt64

// NewPlan returns the plan of a new program: its interval begins now, and no time of a cron line
// was missed.
func NewPlan(spec Spec, now Reading) (*Plan, error) {
	p, err := newPlan(spec)
	if err != nil {
		return nil, err
	}
	p.last, p.after, p.grid = now, now.Wall, now.Boot+p.every
	if p.grid < 0 { // overflow, in some 290 years
		p.grid = never
	}
	p.plan()
	return p, nil
}

func newPlan(spec Spec) (*Plan, error) {
	parsed, err := codec.ParseSchedule(spec.Line)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", spec.Line, err)
	}
	if spec.Location == nil {
		spec.Location = time.Local
	}
	p := &Plan{spec: spec, every: parsed.Every}
	if parsed.Cron != nil {
		p.cron = newCronLine(parsed.Cron, spec.Location)
	}
	return p, nil
}

// Due returns when the next run is due, on CLOCK_BOOTTIME, false if there is none.
func (p *Plan) Due() (time.Duration, bool) { return p.due, !p.at.IsZero() }

// Observe handles a clock change: the wall clock was set, or the machine has slept. What was missed
// is due once.
func (p *Plan) Observe(now Reading) {
	p.follow(now)
	p.plan()
}

// Take completes the run that is due, with all others due by now, and plans the next one.
func (p *Plan) Take(now Reading) Run {
	run := Run{At: p.at, MadeUp: p.madeUp}
	p.follow(now)
	if p.cron != nil {
		p.after = later(p.at, now.Wall)
	} else {
		p.grid += p.every * (1 + max(now.Boot-p.grid, 0)/p.every)
	}
	p.plan()
	return run
}

// follow adapts the handled times to a step of the wall clock. A large step corrects a wrong clock:
// nothing is missed or repeated, and the line follows the new time at once. The same holds for any
// step if the line runs in every hour. For other lines, times skipped by a small step are missed,
// and times that occur again are handled. Source: cron(8).
func (p *Plan) follow(now Reading) {
	step := now.Wall.Sub(p.last.Wall) - (now.Boot - p.last.Boot)
	p.last = now
	if p.cron == nil || step.Abs() < punctual || step.Abs() <= correction && !p.cron.everyHour {
		return
	}
	if missed := p.cron.next(p.after); missed.IsZero() || missed.After(now.Wall.Add(-step)) {
		p.after = now.Wall
	} else {
		p.after = p.after.Add(step) // missed even without the step
	}
}

// plan computes the next run as of the last reading.
func (p *Plan) plan() {
	now := p.last
	interval := p.every
	if p.cron != nil {
		// The clock may have been set back several times, or before the boot.
		if ahead := p.after.Sub(now.Wall); ahead > correction || ahead > punctual && p.cron.everyHour {
			p.after = now.Wall
		}
		if p.at = p.cron.next(p.after); p.at.IsZero() {
			return
		}
		interval = never
		if next := p.cron.next(p.at); !next.IsZero() {
			interval = next.Sub(p.at)
		}
	} else if p.grid == never {
		return
	} else {
		p.at = now.Wall.Add(p.grid - now.Boot)
	}
	onTime := now.Boot + p.at.Sub(now.Wall) + p.delay(interval)
	switch {
	case onTime > now.Boot-punctual:
		p.due, p.madeUp = onTime, false
	case p.spec.Skip:
		p.due, p.madeUp = now.Boot, true
	case !p.madeUp:
		p.due, p.madeUp = now.Boot+p.delay(interval), true
	}
}

// delay returns the intended delay of the next run, the same at each call.
func (p *Plan) delay(interval time.Duration) time.Duration {
	limit := min(p.spec.Jitter, interval)
	if limit <= 0 {
		return 0
	}
	which := uint64(p.at.Unix())
	if p.cron == nil {
		which = uint64(p.grid)
	}
	return time.Duration(rand.New(rand.NewPCG(p.spec.Seed, which)).Int64N(int64(limit)))
}
