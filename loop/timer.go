package loop

import "time"

// A Timer calls a function at an instant of the monotonic clock, or at a period.
type Timer struct {
	link
	f      func()
	due    time.Duration
	period time.Duration // zero: the timer fires once
	armed  uint64        // orders timers that are due at the same instant
	index  int           // index in the heap
}

// After calls f once, d after [Loop.Now]: never earlier, and later if the loop is busy. Timers due
// at the same instant are called in the order in which they were armed. A d of zero or less is due
// in the next turn.
func (s *Scope) After(d time.Duration, f func()) *Timer {
	return s.arm(max(d, 0), 0, f)
}

// Every calls f periodically: the n-th call, counted from 1, is due n periods after [Loop.Now],
// however late earlier ones were. If several are due, f is called once for all of them. A period
// that is not positive panics, as in [time.NewTicker].
func (s *Scope) Every(period time.Duration, f func()) *Timer {
	if period <= 0 {
		panic("loop: period of Every is not positive")
	}
	return s.arm(period, period, f)
}

// Stop ends the timer. It is not called again, even if it is due in this turn. It does nothing for
// a nil or stopped timer.
func (t *Timer) Stop() {
	if t == nil {
		return
	}
	if t.unlink() {
		t.scope.loop.timers.remove(t)
	}
}

// Release implements [Owned].
func (t *Timer) Release() { t.Stop() }

// Reset makes f due d after [Loop.Now], whether the timer is active or not: once for a timer of
// After, and at its period from then on for one of Every. It replaces Stop and After for a timer
// that is set repeatedly. It does nothing for a timer of a closed scope.
func (t *Timer) Reset(d time.Duration) {
	if !t.scope.closed {
		t.set(max(d, 0))
	}
}

// Active reports whether f will be called. In f itself it is false for After.
func (t *Timer) Active() bool { return t != nil && t.linked() }

// Due returns when f is called next, on the scale of [Loop.Now]. If the timer is not active it is
// when f was called, or would have been.
func (t *Timer) Due() time.Duration { return t.due }

func (s *Scope) arm(d, period time.Duration, f func()) *Timer {
	t := &Timer{f: f, period: period}
	t.scope = s
	if s.closed {
		t.due = s.loop.Now() + d
		return t
	}
	t.set(d)
	return t
}

// set makes t due in d, and activates it if necessary.
func (t *Timer) set(d time.Duration) {
	l := t.scope.loop
	t.due = l.Now() + d
	if t.due < 0 { // overflow
		t.due = never
	}
	l.armed++
	t.armed = l.armed
	if t.linked() {
		l.timers.fix(t)
		return
	}
	t.scope.Adopt(&t.link, t)
	l.timers.push(t)
}

// fire calls this turn's share of the due timers. last is the number of the last timer armed
// before.
func (l *Loop) fire(last uint64) {
	for n := 0; len(l.timers) > 0 && l.more(n); n++ {
		t := l.timers[0].timer
		// Timers armed in this turn come after all that are due.
		if t.due > l.now || t.armed > last {
			return
		}
		if t.period == 0 {
			t.unlink()
			l.timers.remove(t)
		} else {
			l.armed++
			t.armed = l.armed
			t.due += t.period * (1 + (l.now-t.due)/t.period)
			l.timers.fix(t)
		}
		t.f()
	}
}

// A timerHeap is a heap with four children per node and the earliest timer at the top.
type timerHeap []entry

// An entry has a copy of due, so that most comparisons do not access the timer.
type entry struct {
	due   time.Duration
	timer *Timer
}

func (e entry) before(o entry) bool {
	return e.due < o.due || e.due == o.due && e.timer.armed < o.timer.armed
}

func (h *timerHeap) push(t *Timer) {
	*h = append(*h, entry{})
	h.up(len(*h)-1, entry{t.due, t})
}

func (h *timerHeap) remove(t *Timer) {
	n := len(*h) - 1
	last := (*h)[n]
	(*h)[n] = entry{}
	*h = (*h)[:n]
	if last.timer != t {
		h.sift(t.index, last)
	}
	if n < cap(*h)/4 && n > 1024 {
		*h = append(make(timerHeap, 0, 2*n), *h...)
	}
}

// fix moves t to its position after its due time changed.
func (h timerHeap) fix(t *Timer) { h.sift(t.index, entry{t.due, t}) }

// sift puts e at index i, or moves it up or down from there.
func (h timerHeap) sift(i int, e entry) {
	if i > 0 && e.before(h[(i-1)/4]) {
		h.up(i, e)
	} else {
		h.down(i, e)
	}
}

func (h timerHeap) up(i int, e entry) {
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(h[parent]) {
			break
		}
		h.set(i, h[parent])
		i = parent
	}
	h.set(i, e)
}

func (h timerHeap) down(i int, e entry) {
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if !h[least].before(e) {
			break
		}
		h.set(i, h[least])
		i = least
	}
	h.set(i, e)
}

func (h timerHeap) set(i int, e entry) {
	h[i] = e
	e.timer.index = i
}
