package task

// Join waits in t until c has ended, and returns the error of its function. If c has ended it
// returns at once. c continues if t is cancelled meanwhile.
func (c *Task) Join(t *Task) error {
	if err := t.enter("Join"); err != nil {
		return err
	}
	t.mustNotBelow(c)
	if c.state != ended {
		c.joiners.push(&t.waiter)
		if err := t.suspend(); err != nil {
			return err
		}
	}
	return c.err
}

// mustNotBelow panics if c can't end before t does.
func (t *Task) mustNotBelow(c *Task) {
	for a := t; a != nil; a = a.parent {
		if a == c {
			panic("task: a task waits for itself or an ancestor, which can't end before it")
		}
	}
}

// A gather is a task that waits for several others.
type gather struct {
	task      *Task
	remaining int   // number of tasks that have not ended
	first     bool  // stop at the first error
	err       error // first error
}

// Gather waits until all tasks have ended, and returns nil or the first error, at which it cancels
// the others. If t is cancelled meanwhile, or a [Task.Timeout] expires, it cancels all, waits for
// them and returns the reason.
func (t *Task) Gather(tasks ...*Task) error { return t.gather("Gather", true, tasks) }

// GatherAll waits until all tasks have ended, and returns their errors in order, nil for those
// without one. If t is cancelled meanwhile, it cancels all and waits for them.
func (t *Task) GatherAll(tasks ...*Task) []error {
	// The error is among theirs, or the next call returns it.
	_ = t.gather("GatherAll", false, tasks)
	errs := make([]error, len(tasks))
	for i, c := range tasks {
		if errs[i] = c.err; c.state != ended {
			errs[i] = ErrCanceled
		}
	}
	return errs
}

func (t *Task) gather(call string, first bool, tasks []*Task) error {
	err := t.enter(call)
	for _, c := range tasks {
		t.mustNotBelow(c)
	}
	g := &gather{task: t, remaining: len(tasks), first: first}
	for _, c := range tasks {
		if c.state == ended {
			g.ended(c)
		} else {
			c.joiners.push(&waiter{gather: g})
		}
	}
	defer g.finish(t, tasks)
	if err == nil && g.remaining > 0 && g.err == nil {
		err = t.suspend()
	}
	if err == nil {
		err = g.err
	}
	return err
}

// finish cancels the tasks that have not ended and waits for them, also when a child's panic passes
// through t.
func (g *gather) finish(t *Task, tasks []*Task) {
	if g.remaining > 0 {
		for _, c := range tasks {
			c.Cancel()
		}
		_ = t.Shield(func() error {
			for g.remaining > 0 && !t.closed {
				_ = t.suspend()
			}
			return nil
		})
	}
}

// ended is called when one of the tasks has ended.
func (g *gather) ended(c *Task) {
	g.remaining--
	enough := g.remaining == 0
	if c.err != nil && g.first && g.err == nil {
		g.err = c.err
		enough = true
	}
	if enough {
		g.task.wake()
	}
}

// A Result is a task that returns a value.
type Result[T any] struct {
	Task  *Task
	value T
}

// Start starts a task that runs f, as a child of t, like [Task.Go].
func Start[T any](t *Task, f func(*Task) (T, error)) *Result[T] {
	r := &Result[T]{}
	r.Task = t.Go(func(t *Task) (err error) {
		r.value, err = f(t)
		return err
	})
	return r
}

// Join waits in t until the task has ended, and returns its result. It may be called repeatedly,
// and by several tasks.
func (r *Result[T]) Join(t *Task) (T, error) {
	err := r.Task.Join(t)
	return r.value, err
}
