package loop

import (
	"fmt"
	"slices"
	"time"
)

// A ClockWatch calls a function when somebody has set the wall clock, and when the machine has slept. While neither
// happens it costs nothing: the kernel tells.
type ClockWatch struct {
	link
	loop *Loop
	f    func()
}

// OnClockChange has f called when the wall clock was set, however little, and when the machine has woken from sleep: whenever
// [Loop.Wall] and [Loop.Now] have not gone on together. It may be called without a cause. The clocks tell what happened.
//
// The first one of a loop takes a descriptor, and fails where there is none. In a closed scope f is never called.
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

// Stop ends the watch. A nil or stopped one stays as it is.
func (w *ClockWatch) Stop() {
	if w == nil || !w.leave() {
		return
	}
	w.loop.clocks = slices.DeleteFunc(slices.Clone(w.loop.clocks), func(o *ClockWatch) bool { return o == w })
}

// Release implements [Owned].
func (w *ClockWatch) Release() { w.Stop() }

// Clocks is what the clocks show at one instant.
type Clocks struct {
	Now  time.Duration // see [Loop.Now]
	Wall time.Time     // the time of day, which steps when someone sets it; without a monotonic reading, which would hide that
	Boot time.Duration // CLOCK_BOOTTIME: as Now it has no steps, but it goes on while the machine sleeps
}

// Clocks returns the clocks as they were when this turn began, outside of a turn as they are: what has happened between two instants on the one is
// the same on the others, however long a turn takes, unless somebody has set the clock or the machine has slept.
// Who follows these is told by [Scope.OnClockChange]. A turn that does not ask reads no clock for it.
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

// WallAt returns what the wall clock shows, as it is set now, at a time on the scale of Now.
func (l *Loop) WallAt(at time.Duration) time.Time {
	c := l.Clocks()
	return c.Wall.Add(at - c.Now)
}

// Boot returns CLOCK_BOOTTIME of [Loop.Clocks].
func (l *Loop) Boot() time.Duration { return l.Clocks().Boot }

const (
	atOnce       = time.Millisecond // what reading three clocks takes at most, where nobody interrupts it
	readingTries = 10
)

// readClocks reads the clocks as if at once. It tries again when it was interrupted between them.
func (l *Loop) readClocks() Clocks {
	for try := 1; ; try++ {
		c := Clocks{Now: l.poller.now(), Wall: l.poller.wall().Round(0), Boot: l.poller.boot()}
		if l.poller.now()-c.Now < atOnce || try == readingTries {
			return c
		}
	}
}

// tellClocks calls the clock watches if the clock has changed. One that was stopped by another is not called.
func (l *Loop) tellClocks() {
	if !l.poller.clockChanged() {
		return
	}
	for _, w := range l.clocks { // Stop replaces the slice rather than change it
		if w.linked() {
			w.f()
		}
	}
}
