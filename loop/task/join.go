package task

// Join waits in t until c has ended, and returns the error of its function. If c has ended already it returns
// at once; c goes on if t is cancelled meanwhile.
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
			panic("task: a task waits for the end of itself or of one above, which can't come before its own")
		}
	}
}

// A gather is a task that waits for several.
type gather struct {
	task  *Task
	left  int   // have not ended
	first bool  // an error is enough
	err   error // the first
}

// Gather waits until all of tasks have ended, and returns nil or the first error of one, upon which it
// cancels the others. If t is cancelled meanwhile, or a [Task.Timeout] is over, it cancels them all, waits for
// them and returns why.
func (t *Task) Gather(tasks ...*Task) error { return t.gather("Gather", true, tasks) }

// GatherAll waits until all of tasks have ended, and returns their errors in order, nil for those without one. If
// t is cancelled meanwhile, it cancels them all and waits for them.
func (t *Task) GatherAll(tasks ...*Task) []error {
	_ = t.gather("GatherAll", false, tasks) // it is among theirs, or returned by the next call
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
	g := &gather{task: t, left: len(tasks), first: first}
	for _, c := range tasks {
		if c.state == ended {
			g.ended(c)
		} else {
			c.joiners.push(&waiter{gather: g})
		}
	}
	defer g.finish(t, tasks)
	if err == nil && g.left > 0 && g.err == nil {
		err = t.suspend()
	}
	if err == nil {
		err = g.err
	}
	return err
}

// finish cancels those that have not ended and waits for them, also when the panic of a child goes through t.
func (g *gather) finish(t *Task, tasks []*Task) {
	if g.left > 0 {
		for _, c := range tasks {
			c.Cancel()
		}
		_ = t.Shield(func() error {
			for g.left > 0 && !t.closed {
				_ = t.suspend()
			}
			return nil
		})
	}
}

// ended is called when one of the tasks has ended.
func (g *gather) ended(c *Task) {
	g.left--
	enough := g.left == 0
	if c.err != nil && g.first && g.err == nil {
		g.err = c.err
		enough = true
	}
	if enough {
		g.task.wake()
	}
}

// A Result is a task that ends with a value.
type Result[T any] struct {
	Task  *Task
	value T
}

// Start starts a task that runs f, as a child of t, as [Task.Go] does.
func Start[T any](t *Task, f func(*Task) (T, error)) *Result[T] {
	r := &Result[T]{}
	r.Task = t.Go(func(t *Task) (err error) {
		r.value, err = f(t)
		return err
	})
	return r
}

// Join waits in t until the task has ended, and returns its result. It may be called again, and by several.
func (r *Result[T]) Join(t *Task) (T, error) {
	err := r.Task.Join(t)
	return r.value, err
}
