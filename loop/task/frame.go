package task

import (
	"time"

	"superd/loop"
)

// A frame is a Timeout or a Shield that a task is in.
type frame struct {
	outer   *frame
	shield  bool
	expired bool
}

// Timeout runs f in t. Once d has passed, the blocking call that t is in, and each later one that f makes,
// returns [ErrTimeout]. Timeout returns what f returns: nil if it was done in spite of it.
func (t *Task) Timeout(d time.Duration, f func() error) error {
	if t.sched.current != t {
		t.misused("Timeout")
	}
	fr := &frame{outer: t.frames}
	var timer *loop.Timer
	if d <= 0 {
		fr.expired = true
	} else {
		timer = t.sched.loop.Root().After(d, func() {
			fr.expired = true
			t.interrupt()
		})
	}
	t.frames = fr
	defer func() {
		timer.Stop()
		t.frames = fr.outer
	}()
	return f()
}

// Shield runs f in t. The blocking calls that f makes are not interrupted by [Task.Cancel], nor by a
// [Task.Timeout] around it; the first one after f is. A shield does not hold against the end of the
// scope.
func (t *Task) Shield(f func() error) error {
	if t.sched.current != t {
		t.misused("Shield")
	}
	fr := &frame{outer: t.frames, shield: true}
	t.frames = fr
	defer func() { t.frames = fr.outer }()
	return f()
}

func (t *Task) shielded() bool {
	for f := t.frames; f != nil; f = f.outer {
		if f.shield {
			return true
		}
	}
	return false
}
