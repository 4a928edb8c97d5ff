package loop

import (
	"fmt"
	"slices"
	"time"
)

// A ClockWatch calls a function when the wall clock was set, and when the machine has slept. It
// needs no wakeups in between, since the kernel reports both.
type ClockWatch struct {
	link
	loop *Loop
	f    func()
}

// OnClockChange calls f when the wall clock was set, by any amount, and when the machine has
// resumed from sleep: whenever [Loop.Wall] and [Loop.Now] have advanced differently. f may also be
// called without cause; the clocks show what happened.
//
// The first one of a loop opens a descriptor, and fails if there is none. In a closed scope f is
// never called.
func (s *Scope) OnClockChange(f func()) (*ClockWatch, error) {
	w := &ClockWatch{loop: s.loop, f: f}
	if s.closed {
		return w, nil
	}
	if err := s.loop.poller.watchClock(); err != nil {
		return nil, fmt.Errorf("watch clock: %w", err)
	}
	s.Adopt(&w.link, w)
	s.loop.clocks = append(s.loop.clocks, w)
	return w, nil
}

// Stop ends the watch. It does nothing for a nil or stopped one.
func (w *ClockWatch) Stop() {
	if w == nil || !w.unlink() {
		return
	}
	w.loop.clocks = slices.DeleteFunc(slices.Clone(w.loop.clocks), func(o *ClockWatch) bool { return o == w })
}

// Release implements [Owned].
func (w *ClockWatch) Release() { w.Stop() }

// Clocks are readings of several clocks at one instant.
type Clocks struct {
	Now time.Duration // see [Loop.Now]
	// Time of day, which steps when it is set; without a monotonic reading, which would hide that
	Wall time.Time
	// CLOCK_BOOTTIME: like Now without steps, but it advances while the machine sleeps
	Boot time.Duration
}

// Clocks returns the clocks as of the beginning of this turn, or the current ones outside a turn.
// The time between two instants is equal on all clocks, however long a turn takes, unless the clock
// was set or the machine slept; [Scope.OnClockChange] reports these. Turns that do not call it read
// no extra clock.
func (l *Loop) Clocks() Clocks {
	if !l.inTurn {
		return l.readClocks()
	}
	if l.readIn != l.turns {
		c := l.readClocks()
		since := c.Now - l.now
		l.read, l.readIn = Clocks{Now: l.now, Wall: c.Wall.Add(-since), Boot: c.Boot - since}, l.turns
	}
	return l.read
}

// Wall returns the wall clock of [Loop.Clocks].
func (l *Loop) Wall() time.Time { return l.Clocks().Wall }

// WallAt returns the reading of the wall clock, as currently set, at a time on the scale of Now. It
// is the same for the same time until the clock is set by a millisecond or more.
func (l *Loop) WallAt(at time.Duration) time.Time {
	c := l.Clocks()
	// The two readings are not of the same instant
	if epoch := c.Wall.Add(-c.Now); epoch.Sub(l.epoch).Abs() >= atOnce {
		l.epoch = epoch
	}
	return l.epoch.Add(at)
}

// Boot returns CLOCK_BOOTTIME of [Loop.Clocks].
func (l *Loop) Boot() time.Duration { return l.Clocks().Boot }

const (
	atOnce       = time.Millisecond // longest time to read three clocks without an interruption
	readingTries = 10
)

// readClocks reads the clocks as if at one instant. It retries if it was interrupted between them.
func (l *Loop) readClocks() Clocks {
	for try := 1; ; try++ {
		c := Clocks{Now: l.poller.now(), Wall: l.poller.wall().Round(0), Boot: l.poller.boot()}
		if l.poller.now()-c.Now < atOnce || try == readingTries {
			return c
		}
	}
}

// notifyClockWatches calls the clock watches if the clock has changed, except those that another
// one has stopped.
func (l *Loop) notifyClockWatches() {
	if !l.poller.clockChanged() {
		return
	}
	for _, w := range l.clocks { // Stop replaces the slice instead of changing it
		if w.linked() {
			w.f()
		}
	}
}
