package task

import (
	"time"

	"superd/loop"
)

// A frame is an active Timeout or Shield of a task.
type frame struct {
	outer   *frame
	shield  bool
	expired bool
}

// Timeout runs f in t. Once d has passed, the current blocking call of t, and each later one that f
// makes, returns [ErrTimeout]. Timeout returns what f returns, which may be nil even after the
// time-out.
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

// Shield runs f in t. [Task.Cancel] or an outer [Task.Timeout] does not interrupt blocking calls of
// f, but the first one after f. A shield has no effect when the scope of the task is closed.
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
