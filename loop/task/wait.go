package task

import (
	"errors"
	"fmt"
	"time"

	"superd/loop"
)

var (
	// ErrCanceled is the error of blocking calls in a task that was cancelled, or whose scope was
	// closed.
	ErrCanceled = errors.New("task canceled")
	// ErrTimeout is the error of blocking calls after a [Task.Timeout] has expired.
	ErrTimeout = errors.New("timeout")
)

// patience is how many consecutive blocking calls of a task may fail before it must have ended.
const patience = 100_000

// An awaited is what the loop arms when a task was suspended. The loop arms it since its stack is
// large already, so that a task's stack need not grow beyond its first 2 KiB.
type awaited uint8

const (
	nothing awaited = iota // the waking side knows the task
	turn                   // the task's next turn
	instant
	readable
	writable
)

// A wait is what is armed for a suspended task.
type wait struct {
	d     time.Duration // for instant
	fd    int           // for readable and writable
	timer *loop.Timer   // nil: the task has never slept
	watch *loop.Watch
	err   error
}

// Sleep waits for d, like [loop.Scope.After].
func (t *Task) Sleep(d time.Duration) error {
	if err := t.enter("Sleep"); err != nil {
		return err
	}
	t.awaits, t.wait.d = instant, d
	return t.suspend()
}

// Yield lets queued tasks run, and from time to time the loop. A task that computes for long should
// call it now and then.
func (t *Task) Yield() error {
	if err := t.enter("Yield"); err != nil {
		return err
	}
	t.awaits = turn
	return t.suspend()
}

// Readable waits until fd is readable, hung up or in error. It fails like [loop.Scope.OnReadable].
// Cancel tasks that wait for a descriptor before closing it: closing wakes no task.
func (t *Task) Readable(fd int) error {
	if err := t.enter("Readable"); err != nil {
		return err
	}
	return t.await(fd, readable)
}

// Writable waits until fd is writable, hung up or in error.
func (t *Task) Writable(fd int) error {
	if err := t.enter("Writable"); err != nil {
		return err
	}
	return t.await(fd, writable)
}

func (t *Task) await(fd int, w awaited) error {
	t.awaits, t.wait.fd = w, fd
	return t.suspend()
}

// Err returns the error that a blocking call would return at once: [ErrCanceled], [ErrTimeout] or
// nil.
func (t *Task) Err() error {
	if t.frames == nil && !t.canceled && !t.closed {
		return nil
	}
	return t.why()
}

func (t *Task) why() error {
	if t.closed {
		return ErrCanceled
	}
	var err error
	for f := t.frames; f != nil; f = f.outer {
		if f.shield {
			return err
		}
		if f.expired {
			err = ErrTimeout
		}
	}
	if t.canceled {
		return ErrCanceled
	}
	return err
}

// enter begins a blocking call. Its error says why the call must not wait.
func (t *Task) enter(call string) error {
	if t.sched.current != t {
		t.misused(call)
	}
	if t.fault != nil {
		t.reraise()
	}
	err := t.Err()
	if err != nil {
		if t.refused++; t.refused > patience {
			panic(fmt.Sprintf("task: %d blocking calls in a row were refused (%v): the task has to end", patience, err))
		}
	}
	return err
}

func (t *Task) misused(call string) {
	panic(fmt.Sprintf("task: %s called from outside of its task: only the task's own function may wait", call))
}

// suspend lets others run until t is woken. It returns an error if t was woken for another reason
// than the awaited event.
//
// It calls the switches directly, without helpers, since after a switch the processor mispredicts
// returns.
func (t *Task) suspend() error {
	s := t.sched
	t.refused = 0
	t.state = suspended
	if t.awaits == turn {
		t.awaits = nothing
		s.push(t)
	}
	var u *Task
	if t.awaits == nothing {
		u = s.switchTarget(t)
	}
	if u != nil && u != t {
		u.next()
	}
	if u == nil || !s.resumesAfter(t, u) {
		t.yield(struct{}{})
	}

	if t.fault != nil {
		t.reraise()
	}
	if t.wait.err == nil {
		return t.Err()
	}
	err := t.wait.err
	t.wait.err = nil
	if e := t.Err(); e != nil {
		return e
	}
	return err
}

// arm handles the suspension of t, on the loop's stack.
func (t *Task) arm() {
	w := t.awaits
	t.awaits = nothing
	root := t.sched.loop.Root()
	switch w {
	case instant:
		if t.wait.timer == nil {
			t.wait.timer = root.After(t.wait.d, t.due)
		} else {
			t.wait.timer.Reset(t.wait.d)
		}
	case readable:
		t.wait.watch, t.wait.err = root.OnReadable(t.wait.fd, t.due)
	case writable:
		t.wait.watch, t.wait.err = root.OnWritable(t.wait.fd, t.due)
	case nothing, turn: // neither a timer nor a watch is needed
	}
	if t.wait.err != nil {
		t.sched.push(t)
	}
}

// disarm cancels what t waits for.
func (t *Task) disarm() {
	t.wait.timer.Stop()
	if t.wait.watch != nil {
		t.wait.watch.Stop()
		t.wait.watch = nil
	}
	t.unlink()
}

// wake queues t to continue.
func (t *Task) wake() {
	if t.state == suspended {
		t.disarm()
		t.sched.push(t)
	}
}

// interrupt wakes t if its current call must return.
func (t *Task) interrupt() {
	if t.Err() != nil || t.fault != nil && !t.shielded() {
		t.wake()
	}
}
