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
	s.adopt(&w.link, w)
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

func (w *ClockWatch) release() { w.Stop() }

// Boot returns CLOCK_BOOTTIME, read at the call: as [Loop.Now] it has no steps, but it goes on while the machine sleeps.
func (l *Loop) Boot() time.Duration { return l.poller.boot() }

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
