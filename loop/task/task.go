// Package task runs straight-line code on a [loop.Loop]: coroutines that sleep, wait for descriptors and
// for each other, and clean up after themselves.
//
// A [Task] is a function that runs until it makes a blocking call, one of the methods of Task that may
// wait. Then the loop goes on, and with it callbacks and other tasks, until what the task waits for has
// happened. Only one task runs at a time, and it is never interrupted elsewhere: between two blocking
// calls it has all that belongs to the loop to itself, without a lock. A switch is one of the runtime's
// coroutines, by way of [iter.Pull]: it needs no thread, no channel and no lock, and takes about half as long as
// handing a value to another goroutine.
//
// # Life
//
// [Go] starts a task in a scope, [Task.Go] a child of another task, [Start] a child with a result. The call only
// puts it into the queue: its function runs when the present callback or task has returned or waits, in the order of
// the starts. It always runs, once.
//
// A task ends when its function has returned and all its children have ended. If the function returns nil it
// waits for them; if it returns an error, panics, or was cancelled, it cancels them first. The error of a task is
// for whoever joins it, by [Task.Join] or [Task.Gather], and is lost if nobody does. Since deferred functions
// run when the function returns, what the children use is to be released in [Task.Scope], or after they
// were joined.
//
// # Cancellation
//
// [Task.Cancel] makes the blocking call that the task is in, and every later one, return [ErrCanceled]. So
// a task ends by its own code, and its deferred functions run:
//
//	for {
//		if err := t.Sleep(time.Second); err != nil {
//			return err
//		}
//		tick()
//	}
//
// A deferred function that makes a blocking call gets ErrCanceled at once, too, rather than hang; what has
// to wait while it cleans up does so in [Task.Shield]. A task that goes on and on making blocking calls
// after it was cancelled panics, since it would spin for ever. One that is cancelled before it has run
// still runs, to its first blocking call: so what it was handed, such as a connection, is closed by its
// deferred functions. [Task.Timeout] is the same for a part of a task and a time.
//
// When the scope of a task is closed, as all are when the loop stops, the task and those below it are cancelled
// and have ended when Close returns, the newest first; only a task that called Close itself goes
// on, to its own end. There is no time then to wait for anything, so that a shield does not hold.
//
// # Panics
//
// A panic goes up the tree as it goes up a call stack: the tasks below it are cancelled, and it goes on in
// the task above, in the blocking call that it is in, as a [Panic] that has the stacks of both. From a task
// that Go has started it goes on in the loop, out of Run.
//
// # Other goroutines
//
// Like the loop itself, everything here is for the loop's goroutine, in callbacks and tasks. What blocks a
// thread runs in a goroutine of its own, which comes back with [loop.Loop.Post] and resolves a [Future]
// that the task awaits.
package task

import (
	"runtime"

	"superd/loop"
)

// A Task is a function that runs on a loop and may wait. Those of its methods that wait are for the
// function itself, and panic elsewhere.
type Task struct {
	waiter // the place of the task in the one queue that it is in
	sched  *sched
	f      func(*Task) error
	err    error  // of f
	fault  *Panic // to be raised in the task, or the one that has ended it

	parent       *Task
	newest       *Task // of the children
	older, newer *Task // among those of parent

	next  func() (struct{}, bool) // has the coroutine go on; nil: it has not begun
	yield func(struct{}) bool     // has the loop go on

	state    state
	canceled bool
	closed   bool // the scope was closed
	want     want
	refused  int32 // blocking calls in a row that were refused
	frames   *frame
	wait     wait
	due      func() // the callback of what wait arms

	joiners waiters
	scope   *loop.Scope    // of Scope; nil: not asked for
	hook    *loop.Deferred // in the scope that the task was started in; nil: it has a parent
	started [4]uintptr
}

// A state tells who acts next.
type state uint8

const (
	ready     state = iota // the scheduler: the task is in its queue
	running                // the task
	suspended              // whatever the task waits for
	returned               // the children: f has returned
	ended
)

// Go starts a task that runs f, in the scope s: it is cancelled when s is closed. If s is closed, f runs at
// once and each of its blocking calls returns [ErrCanceled].
func Go(s *loop.Scope, f func(*Task) error) *Task {
	t := newTask(schedOf(s.Loop()), f)
	t.hook = s.Defer(t.kill) // at once, if s is closed
	return t
}

// Go starts a task that runs f, as a child of t: t does not end before it. If t has ended, f runs at once
// and each of its blocking calls returns [ErrCanceled].
func (t *Task) Go(f func(*Task) error) *Task {
	c := newTask(t.sched, f)
	if t.state == ended {
		c.kill()
		return c
	}
	c.closed = t.closed
	c.parent, c.older = t, t.newest
	if t.newest != nil {
		t.newest.newer = c
	}
	t.newest = c
	return c
}

func newTask(s *sched, f func(*Task) error) *Task {
	t := &Task{sched: s, f: f}
	t.task = t
	t.due = func() {
		t.disarm()
		s.run(t)
	}
	runtime.Callers(3, t.started[:])
	s.push(t)
	return t
}

// Run runs f as a task on l, and l until the task has ended, and returns its error, or that of
// [loop.Loop.Run]. It is for programs and tests that are one task in the main.
func Run(l *loop.Loop, f func(*Task) error) error {
	t := Go(l.Root(), f)
	t.Scope().Defer(l.Stop)
	if err := l.Run(); err != nil {
		return err
	}
	return t.err
}

// Cancel makes the blocking call that t is in, and every later one, return [ErrCanceled], but for those in
// a [Task.Shield]. The children of t are cancelled when its function has returned. Cancelling a task again, or
// one that has ended, does nothing; a task may cancel itself.
func (t *Task) Cancel() {
	if t.canceled || t.state == ended {
		return
	}
	t.canceled = true
	if t.state == returned {
		t.cancelChildren()
	} else {
		t.interrupt()
	}
}

func (t *Task) cancelChildren() {
	for c := t.newest; c != nil; c = c.older {
		c.Cancel()
	}
}

// Ended reports whether the function of t has returned and all below it has ended.
func (t *Task) Ended() bool { return t.state == ended }

// Scope returns a scope that is closed when t ends: after its children, and before whoever joins it goes on. What
// the children use is to be released there rather than by a deferred function of t, which runs when the
// function returns and does not wait for them.
func (t *Task) Scope() *loop.Scope {
	if t.scope == nil {
		t.scope = t.sched.loop.Root().Child()
		t.scope.Detach() // closed with the root it would be before t has ended
		if t.state == ended {
			t.scope.Close()
		}
	}
	return t.scope
}

// Loop returns the loop that t runs on.
func (t *Task) Loop() *loop.Loop { return t.sched.loop }
