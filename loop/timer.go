package loop

import "time"

// A Timer calls a function at an instant of the monotonic clock, or at a period.
type Timer struct {
	link
	f      func()
	due    time.Duration
	period time.Duration // zero: once
	armed  uint64        // orders timers that are due at one instant
	index  int           // in the heap
}

// After has f called once, d after [Loop.Now]: never earlier, but as much later as the loop is busy.
// Timers due at one instant are called in the order in which they were armed. A d of zero or less is
// due in the next turn.
func (s *Scope) After(d time.Duration, f func()) *Timer {
	return s.arm(max(d, 0), 0, f)
}

// Every has f called again and again: the n-th tick, counted from 1, is due n periods after
// [Loop.Now], however late the ones before were called. If several are due by then f is called once for
// them all. A period that is not positive panics, as that of [time.NewTicker] does.
func (s *Scope) Every(period time.Duration, f func()) *Timer {
	if period <= 0 {
		panic("loop: period of Every is not positive")
	}
	return s.arm(period, period, f)
}

// Stop ends the timer. It is not called again, even if it is due in this turn. A nil or stopped timer
// stays as it is.
func (t *Timer) Stop() {
	if t == nil {
		return
	}
	if t.leave() {
		t.scope.loop.timers.remove(t)
	}
}

// Release implements [Owned].
func (t *Timer) Release() { t.Stop() }

// Reset has f called d after [Loop.Now] instead of when it was due, be the timer active or not: once, if it is one of
// After, and at its period from then on, if it is one of Every. It is After and Stop for a timer that is set
// again and again. A timer of a closed scope stays as it is.
func (t *Timer) Reset(d time.Duration) {
	if !t.scope.closed {
		t.set(max(d, 0))
	}
}

// Active reports whether f will be called. In f itself it is false for After.
func (t *Timer) Active() bool { return t != nil && t.linked() }

// Due returns when f is to be called next, on the scale of [Loop.Now]. If the timer is not active it
// is when f was called, or would have been.
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

// set makes t due in d, and active if it is not.
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

// fire calls this turn's share of the timers that are due at its start. last is the timer armed last by then.
func (l *Loop) fire(last uint64) {
	for n := 0; len(l.timers) > 0 && l.more(n); n++ {
		t := l.timers[0].timer
		// A timer armed in this turn comes after all that are due.
		if t.due > l.now || t.armed > last {
			return
		}
		if t.period == 0 {
			t.leave()
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

// A timerHeap is a heap of four children a node, the timer due first at the top.
type timerHeap []entry

// An entry repeats due, so that most comparisons do not touch the timer.
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
		h.place(t.index, last)
	}
	if n < cap(*h)/4 && n > 1024 {
		*h = append(make(timerHeap, 0, 2*n), *h...)
	}
}

// fix moves t to where it belongs after its due time changed.
func (h timerHeap) fix(t *Timer) { h.place(t.index, entry{t.due, t}) }

// place puts e at index i, or above or below it.
func (h timerHeap) place(i int, e entry) {
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
