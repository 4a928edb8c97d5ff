package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"superd/config"
)

// A Spec says when a program runs.
type Spec struct {
	Line     string         // "@every 5m" or a cron line, as [config.ParseSchedule] takes it
	Location *time.Location // of a cron line; nil: the machine's
	Skip     bool           // what was missed is not made up: [Table] tells of it at once, without a delay
	Jitter   time.Duration  // each run is late by a share of this, and of the time to the next one at most
	Seed     uint64         // decides how late; programs that are to differ have different ones
}

// A Reading is what the clocks say at one instant.
type Reading struct {
	Wall time.Time
	Boot time.Duration // CLOCK_BOOTTIME, see [loop.Loop.Boot]
}

// A Run is due.
type Run struct {
	At     time.Time // the time of the schedule that it stands for, of several missed ones the first
	MadeUp bool      // that time was missed; with [Spec.Skip] nothing is to run for it
}

// A Plan knows when one program runs next. It does nothing by itself: whoever has it reads the clocks.
type Plan struct {
	spec   Spec
	every  time.Duration // 0: a cron line
	cron   *cronLine
	last   Reading
	after  time.Time     // cron: all times up to this one are settled
	grid   time.Duration // every: the next point of the grid, of CLOCK_BOOTTIME
	at     time.Time     // the run that is next; zero: there is none
	due    time.Duration // when, on CLOCK_BOOTTIME
	madeUp bool
}

const (
	// correction is how far the clock may be set for a line to keep what it knew. Source: cron(8).
	correction = 3 * time.Hour
	// punctual is how late a run may be that was not missed. It is no less than what reading two clocks one after the
	// other may make of no step at all.
	punctual = time.Second
)

const never time.Duration = math.MaxInt64

// NewPlan returns the plan of a program that comes to be: an interval begins now, and no time of a cron line has been missed.
func NewPlan(spec Spec, now Reading) (*Plan, error) {
	p, err := newPlan(spec)
	if err != nil {
		return nil, err
	}
	p.last, p.after, p.grid = now, now.Wall, now.Boot+p.every
	if p.grid < 0 { // overflow: in some 290 years
		p.grid = never
	}
	p.plan()
	return p, nil
}

func newPlan(spec Spec) (*Plan, error) {
	parsed, err := config.ParseSchedule(spec.Line)
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

// Observe takes notice of clocks that have not gone on together: the wall clock was set, or the machine has slept. What was missed
// meanwhile is due once.
func (p *Plan) Observe(now Reading) {
	p.follow(now)
	p.plan()
}

// Take settles the run that is due, with what else is by now, and plans the next one.
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

// follow has what is settled follow a step of the wall clock. A clock that was set by much was wrong before: that makes nothing
// missed and repeats nothing, the line goes by the new time at once. So does a line that runs in every hour whenever
// the clock is set. For any other, times that are skipped by a little are missed ones and those that come again are settled.
// Source: cron(8).
func (p *Plan) follow(now Reading) {
	step := now.Wall.Sub(p.last.Wall) - (now.Boot - p.last.Boot)
	p.last = now
	if p.cron == nil || step.Abs() < punctual || step.Abs() <= correction && !p.cron.everyHour {
		return
	}
	if missed := p.cron.next(p.after); missed.IsZero() || missed.After(now.Wall.Add(-step)) {
		p.after = now.Wall
	} else {
		p.after = p.after.Add(step) // it was missed without the step
	}
}

// plan finds the run that is next, as of the last reading.
func (p *Plan) plan() {
	now := p.last
	gap := p.every
	if p.cron != nil {
		// The clock may have been set back several times, or before the machine was booted.
		if ahead := p.after.Sub(now.Wall); ahead > correction || ahead > punctual && p.cron.everyHour {
			p.after = now.Wall
		}
		if p.at = p.cron.next(p.after); p.at.IsZero() {
			return
		}
		gap = never
		if next := p.cron.next(p.at); !next.IsZero() {
			gap = next.Sub(p.at)
		}
	} else if p.grid == never {
		return
	} else {
		p.at = now.Wall.Add(p.grid - now.Boot)
	}
	onTime := now.Boot + p.at.Sub(now.Wall) + p.delay(gap)
	switch {
	case onTime > now.Boot-punctual:
		p.due, p.madeUp = onTime, false
	case p.spec.Skip:
		p.due, p.madeUp = now.Boot, true
	case !p.madeUp:
		p.due, p.madeUp = now.Boot+p.delay(gap), true
	}
}

// delay returns by how much the run that is next is late on purpose: the same at each call.
func (p *Plan) delay(gap time.Duration) time.Duration {
	most := min(p.spec.Jitter, gap)
	if most <= 0 {
		return 0
	}
	which := uint64(p.at.Unix())
	if p.cron == nil {
		which = uint64(p.grid)
	}
	return time.Duration(rand.New(rand.NewPCG(p.spec.Seed, which)).Int64N(int64(most)))
}
