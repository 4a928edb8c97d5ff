package task

import "superd/loop"

// A Future is a value or an error that will be set later: a promise between callbacks, and a way
// for a callback to wake a task. The zero Future is ready for use. It must not be copied.
type Future[T any] struct {
	settled bool
	value   T
	err     error
	waiters waiters
	then    []then[T]
}

type then[T any] struct {
	scope *loop.Scope
	f     func(T, error)
}

// Resolve sets the value of f. It returns false, and does nothing, if f is already settled.
func (f *Future[T]) Resolve(value T) bool { return f.set(value, nil) }

// Reject sets the error of f. It returns false, and does nothing, if f is already settled.
func (f *Future[T]) Reject(err error) bool {
	var zero T
	return f.set(zero, err)
}

func (f *Future[T]) set(value T, err error) bool {
	if f.settled {
		return false
	}
	f.settled, f.value, f.err = true, value, err
	f.waiters.wakeAll(nil)
	for _, c := range f.then {
		f.post(c)
	}
	f.then = nil
	return true
}

// Then calls g with the value or the error once f is settled, in a later turn, in the order of the
// calls of Then. It does not call g if s is closed by then.
func (f *Future[T]) Then(s *loop.Scope, g func(T, error)) {
	c := then[T]{s, g}
	if f.settled {
		f.post(c)
	} else {
		f.then = append(f.then, c)
	}
}

func (f *Future[T]) post(c then[T]) {
	c.scope.Post(func() { c.f(f.value, f.err) })
}

// Settled reports whether f has a value or an error.
func (f *Future[T]) Settled() bool { return f.settled }

// Await waits in t until f is settled, and returns its value or error. If f is settled it returns
// at once.
func (f *Future[T]) Await(t *Task) (T, error) {
	if err := t.enter("Await"); err != nil {
		var zero T
		return zero, err
	}
	if !f.settled {
		f.waiters.push(&t.waiter)
		if err := t.suspend(); err != nil {
			var zero T
			return zero, err
		}
	}
	return f.value, f.err
}
