// Package schedule tells when programs run that have a schedule: "@every 5m" or a cron line.
//
// A [Plan] decides, without any I/O, from readings of the clocks. A [Table] has the plans of one superd, on its loop: each
// waits in a timer of its own, and one watch of the clock has all of them look again when somebody sets it or the machine wakes.
// Nothing happens between two runs.
//
// Intervals count CLOCK_BOOTTIME, so they have no steps, don't drift, and go on while the machine sleeps. Cron lines follow the
// wall clock in the machine's time zone, as it was when superd started; see [cronLine] for daylight saving.
//
// What was missed, because the machine slept, superd did not run or the clock was set forward by 3 hours or less, is run once,
// however many times of the schedule it was. Setting the clock by more corrects it: that makes nothing missed.
//
// Whether a run takes place, because the one before it still lasts, is not for this package.
package schedule

import (
	"container/list"
	"time"
	_ "time/tzdata" // superd may be the only file of a container

	"superd/loop"
)

// A Table is where the plans of one superd are carried out. It belongs to its loop.
type Table struct {
	loop    *loop.Loop
	scope   *loop.Scope
	bootID  string
	entries list.List // of *Entry, in the order in which they were added
}

// watchPause is how long a table waits for a descriptor where there was none.
const watchPause = 10 * time.Second

// NewTable returns an empty table, at work until the scope is closed. bootID names the machine's boot. Where the clock can't be watched, warn is
// told once, and the table tries again; until then a clock that was set is noticed when something else is due.
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

// observe has all plans look at clocks that were set.
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

// An Entry is a program's place in a table.
type Entry struct {
	table *Table
	scope *loop.Scope
	plan  *Plan
	run   func(Run)
	timer *loop.Timer
	place *list.Element
}

// Add has run called whenever a run is due, never before Add has returned, until the scope is closed. before is the state that an
// earlier superd has left, nil for a program that comes to be. run may close the scope.
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

// Next returns when the program runs next by the wall clock, and how long that is from now, false if never.
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

// State returns what the next superd must know. It changes with each run and is up to date when run is called: who writes it
// down before he starts the program will never run the same time of the schedule twice.
func (e *Entry) State() State { return e.plan.State(e.table.bootID) }

// arm has the timer fire when the next run is due. While the machine is awake, the loop's clock goes on as CLOCK_BOOTTIME does.
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
