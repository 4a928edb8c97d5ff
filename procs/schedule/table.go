// Package schedule computes when programs with a schedule run: "@every 5m" or a cron line.
//
// A [Plan] decides, without I/O, from readings of the clocks. A [Table] has the plans of one
// superd, on its loop: each has a timer, and one watch of the clock updates all when the clock is
// set or the machine resumes. Nothing happens between two runs.
//
// Intervals count CLOCK_BOOTTIME, so they have no steps, don't drift, and advance while the machine
// sleeps. Cron lines follow the wall clock in the machine's time zone as of superd's start; see
// [cronLine] for daylight saving.
//
// Times missed because the machine slept, superd did not run or the clock was set forward by 3
// hours or less are run once, however many there were. A larger change of the clock is a
// correction: nothing is missed then.
//
// This package does not decide whether a run takes place, as when the previous one still runs.
package schedule

import (
	"container/list"
	"time"
	_ "time/tzdata" // superd may be the only file of a container

	"superd/loop"
)

// A Table runs the plans of one superd. It belongs to its loop.
type Table struct {
	loop    *loop.Loop
	scope   *loop.Scope
	bootID  string
	entries list.List // of *Entry, in the order in which they were added
}

// watchPause is the pause before a failed watch is tried again.
const watchPause = 10 * time.Second

// NewTable returns an empty table, active until the scope is closed. bootID is the machine's boot.
// If the clock can't be watched, it calls warn once, and tries again; until then a clock change is
// noticed only when a run is due.
func NewTable(scope *loop.Scope, bootID string, warn func(error)) *Table {
	t := &Table{loop: scope.Loop(), scope: scope, bootID: bootID}
	if err := t.watch(); err != nil {
		warn(err)
		var retry *loop.Timer
		retry = scope.Every(watchPause, func() {
			if t.watch() == nil {
				retry.Stop()
				t.observe()
			}
		})
	}
	return t
}

func (t *Table) watch() error {
	_, err := t.scope.OnClockChange(t.observe)
	return err
}

// observe updates all plans after a clock change.
func (t *Table) observe() {
	now := t.read()
	for at := t.entries.Front(); at != nil; at = at.Next() {
		e := at.Value.(*Entry)
		e.plan.Observe(now)
		e.arm()
	}
}

func (t *Table) read() Reading {
	c := t.loop.Clocks()
	return Reading{Wall: c.Wall, Boot: c.Boot}
}

// An Entry is the entry of a program in a table.
type Entry struct {
	table *Table
	scope *loop.Scope
	plan  *Plan
	run   func(Run)
	timer *loop.Timer
	place *list.Element
}

// Add calls run whenever a run is due, after Add has returned, until the scope is closed. before is
// the state left by a predecessor, nil for a new program. run may close the scope.
func (t *Table) Add(scope *loop.Scope, spec Spec, before *State, run func(Run)) (*Entry, error) {
	var plan *Plan
	var err error
	if before != nil {
		plan, err = RestorePlan(spec, *before, t.bootID, t.read())
	} else {
		plan, err = NewPlan(spec, t.read())
	}
	if err != nil {
		return nil, err
	}
	e := &Entry{table: t, scope: scope, plan: plan, run: run}
	if scope.Closed() {
		return e, nil
	}
	e.place = t.entries.PushBack(e)
	scope.Defer(func() { t.entries.Remove(e.place) })
	e.arm()
	return e, nil
}

// Next returns when the program runs next by the wall clock, and the time until then, false if
// never.
func (e *Entry) Next() (at time.Time, in time.Duration, ok bool) {
	due, ok := e.plan.Due()
	if !ok {
		return time.Time{}, 0, false
	}
	now := e.table.read()
	return now.Wall.Add(due - now.Boot), max(due-now.Boot, 0), true
}

// Plan returns when the next run is due, on CLOCK_BOOTTIME, false if there is none.
func (e *Entry) Plan() (time.Duration, bool) { return e.plan.Due() }

// State returns what a successor must know. It changes with each run and is up to date when run is
// called: a caller that records it before it starts the program never runs the same time of the
// schedule twice.
func (e *Entry) State() State { return e.plan.State(e.table.bootID) }

// arm sets the timer to when the next run is due. While the machine is awake, the loop's clock
// advances like CLOCK_BOOTTIME.
func (e *Entry) arm() {
	e.timer.Stop()
	if due, ok := e.plan.Due(); ok {
		e.timer = e.scope.After(due-e.table.loop.Boot(), e.fire)
	}
}

func (e *Entry) fire() {
	now := e.table.read()
	if due, _ := e.plan.Due(); due > now.Boot {
		e.arm()
		return
	}
	run := e.plan.Take(now)
	e.arm()
	e.run(run)
}
