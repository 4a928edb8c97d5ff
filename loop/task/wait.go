package task

import (
	"errors"
	"fmt"
	"time"

	"superd/loop"
)

var (
	// ErrCanceled is what blocking calls return in a task that was cancelled, or the scope of which was closed.
	ErrCanceled = errors.New("task canceled")
	// ErrTimeout is what blocking calls return when the time of [Task.Timeout] is over.
	ErrTimeout = errors.New("timeout")
)

// patience is how many blocking calls in a row may be refused before a task has to have ended.
const patience = 100_000

// A want is what the loop is to arm when a task has been suspended. It is the loop that does it, since its
// stack is large already: that of a task need not grow beyond its first 2 KiB for it.
type want uint8

const (
	nothing want = iota // what wakes the task knows it
	turn                // its next turn
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

// Sleep waits for d, as [loop.Scope.After] does.
func (t *Task) Sleep(d time.Duration) error {
	if err := t.enter("Sleep"); err != nil {
		return err
	}
	t.want, t.wait.d = instant, d
	return t.suspend()
}

// Yield lets those tasks run that are about to. Once in a while the loop has its turn, too: a task that
// computes for long should call it now and then.
func (t *Task) Yield() error {
	if err := t.enter("Yield"); err != nil {
		return err
	}
	t.want = turn
	return t.suspend()
}

// Readable waits until fd is readable, hung up or in error. It fails as [loop.Scope.OnReadable] does. Cancel
// whoever waits for a descriptor before it is closed: closing it wakes nobody.
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

func (t *Task) await(fd int, w want) error {
	t.want, t.wait.fd = w, fd
	return t.suspend()
}

// Err returns what a blocking call would return at once: [ErrCanceled], [ErrTimeout] or nil.
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

// enter begins a blocking call. Its error is why there is nothing to wait for.
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
	panic(fmt.Sprintf("task: %s called from outside of its task: only the function that the task runs may wait", call))
}

// suspend lets others run until t is woken, and returns why it was, if it is not for what t waits for.
//
// It has no helper between itself and the switches, since after a switch the processor predicts no return.
func (t *Task) suspend() error {
	s := t.sched
	t.refused = 0
	t.state = suspended
	if t.want == turn {
		t.want = nothing
		s.push(t)
	}
	var u *Task
	if t.want == nothing {
		u = s.handTo(t)
	}
	if u != nil && u != t {
		u.next()
	}
	if u == nil || !s.handBack(t, u) {
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

// arm follows the suspension of t, on the side of the loop.
func (t *Task) arm() {
	w := t.want
	t.want = nothing
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
	}
	if t.wait.err != nil {
		t.sched.push(t)
	}
}

// disarm undoes what t waits for.
func (t *Task) disarm() {
	t.wait.timer.Stop()
	if t.wait.watch != nil {
		t.wait.watch.Stop()
		t.wait.watch = nil
	}
	t.leave()
}

// wake has t go on, after those that are about to.
func (t *Task) wake() {
	if t.state == suspended {
		t.disarm()
		t.sched.push(t)
	}
}

// interrupt wakes t if there is a reason for its present call to return.
func (t *Task) interrupt() {
	if t.Err() != nil || t.fault != nil && !t.shielded() {
		t.wake()
	}
}
