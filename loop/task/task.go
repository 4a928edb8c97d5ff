// Package task runs straight-line code on a [loop.Loop]: coroutines that sleep, wait for
// descriptors and for each other, and clean up after themselves.
//
// A [Task] is a function that runs until it makes a blocking call, one of the methods of Task that
// may wait. Then the loop, and with it callbacks and other tasks, continue until the awaited event
// has happened. Only one task runs at a time, and it is never interrupted elsewhere: between two
// blocking calls it may use all of the loop's data without a lock. A switch is one of the runtime's
// coroutines, through [iter.Pull]: it needs no thread, channel or lock, and takes about half as
// long as passing a value to another goroutine.
//
// # Life
//
// [Go] starts a task in a scope, [Task.Go] a child of another task, [Start] a child with a result.
// The call only queues it: its function runs when the current callback or task has returned or
// waits, in the order of the starts. It always runs, once.
//
// A task ends when its function has returned and all its children have ended. If the function
// returns nil it waits for them; if it returns an error, panics, or was cancelled, it cancels them
// first. The error of a task is returned by [Task.Join] or [Task.Gather], and is otherwise lost.
// Deferred functions run when the function returns. So release what the children use in
// [Task.Scope], or after joining them.
//
// # Cancellation
//
// [Task.Cancel] makes the current blocking call of the task, and every later one, return
// [ErrCanceled]. So a task ends by its own code, and its deferred functions run:
//
//	for {
//		if err := t.Sleep(time.Second); err != nil {
//			return err
//		}
//		tick()
//	}
//
// A blocking call in a deferred function gets ErrCanceled at once, too, and does not hang; cleanup
// that must wait uses [Task.Shield]. A cancelled task that continues to make blocking calls panics,
// since it would spin forever. A task cancelled before it has run still runs, up to its first
// blocking call, so that its deferred functions close what it was given, such as a connection.
// [Task.Timeout] does the same for a part of a task after a time.
//
// When the scope of a task is closed, as all are when the loop stops, the task and its descendants
// are cancelled, the newest first. They have ended when Close returns. Only a task that called
// Close itself continues to its own end. There is no time to wait then, so a shield has no effect.
//
// # Panics
//
// A panic goes up the tree like up a call stack: descendants are cancelled, and it continues in the
// parent, in its current blocking call, as a [Panic] with the stacks of both. From a task started
// by Go it continues in the loop, out of Run.
//
// # Other goroutines
//
// Like the loop, all of this package is for the loop's goroutine, in callbacks and tasks. Work that
// blocks a thread runs in its own goroutine, which calls [loop.Loop.Post] and resolves a [Future]
// that the task awaits.
package task

import (
	"runtime"

	"superd/loop"
)

// A Task is a function that runs on a loop and may wait. Methods that wait may only be called by
// the function itself, and panic elsewhere.
type Task struct {
	waiter // position of the task in the queue that it is in
	sched  *sched
	f      func(*Task) error
	err    error  // error of f
	fault  *Panic // panic to raise in the task, or the one that has ended it

	parent       *Task
	newest       *Task // newest child
	older, newer *Task // siblings

	next  func() (struct{}, bool) // resumes the coroutine; nil: it has not begun
	yield func(struct{}) bool     // returns to the loop

	state    state
	canceled bool
	closed   bool // the scope was closed
	awaits   awaited
	refused  int32 // number of consecutive blocking calls that failed
	frames   *frame
	wait     wait
	due      func() // callback of what wait arms

	joiners waiters
	scope   *loop.Scope // result of Scope; nil: not requested
	// Registration in the scope in which the task was started; nil: it has a parent
	hook    *loop.Deferred
	started [4]uintptr
}

// A state says what acts next.
type state uint8

const (
	ready     state = iota // the scheduler: the task is in its queue
	running                // the task
	suspended              // the source of the awaited event
	returned               // the children: f has returned
	ended
)

// Go starts a task that runs f in the scope s: it is cancelled when s is closed. If s is closed, f
// runs at once and each of its blocking calls returns [ErrCanceled].
func Go(s *loop.Scope, f func(*Task) error) *Task {
	t := newTask(schedOf(s.Loop()), f)
	t.hook = s.Defer(t.kill) // called at once if s is closed
	return t
}

// Go starts a task that runs f, as a child of t: t does not end before it. If t has ended, f runs
// at once and each of its blocking calls returns [ErrCanceled].
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

// Run runs f as a task on l, and l until the task has ended. It returns the task's error, or that
// of [loop.Loop.Run]. It serves programs and tests whose main part is one task.
func Run(l *loop.Loop, f func(*Task) error) error {
	t := Go(l.Root(), f)
	t.Scope().Defer(l.Stop)
	if err := l.Run(); err != nil {
		return err
	}
	return t.err
}

// Cancel makes the current blocking call of t, and every later one, return [ErrCanceled], except
// within a [Task.Shield]. The children of t are cancelled when its function has returned.
// Cancelling a task again, or one that has ended, does nothing; a task may cancel itself.
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

// Ended reports whether the function of t has returned and all its descendants have ended.
func (t *Task) Ended() bool { return t.state == ended }

// Scope returns a scope that is closed when t ends: after its children, and before tasks that join
// it continue. Release what the children use there. A deferred function of t would run too early:
// when the function returns, before the children have ended.
func (t *Task) Scope() *loop.Scope {
	if t.scope == nil {
		t.scope = t.sched.loop.Root().Child()
		t.scope.Detach() // closing it with the root would be before t has ended
		if t.state == ended {
			t.scope.Close()
		}
	}
	return t.scope
}

// Loop returns the loop that t runs on.
func (t *Task) Loop() *loop.Loop { return t.sched.loop }
