package main

import (
	"errors"

	"superd/loop"
	"superd/loop/task"
)

// coroutines has a task for each thing to follow, written like blocking calls, on the same loop as
// the callbacks. A cancelled task ends by its own code, and no task outlives its parent.
func coroutines(s *stage) error {
	l, err := loop.New()
	if err != nil {
		return err
	}
	err = task.Run(l, func(t *task.Task) error {
		go func() {
			<-s.interrupted
			l.Post(t.Cancel)
		}()
		heart := t.Go(s.heartTask)
		defer heart.Cancel()
		return t.Gather(t.Go(s.follow(s.children[0])), t.Go(s.follow(s.children[1])))
	})
	if errors.Is(err, task.ErrCanceled) {
		return nil // interrupted
	}
	return err
}

// follow shows the lines of a child until it ends.
func (s *stage) follow(c *child) func(*task.Task) error {
	return func(t *task.Task) error {
		listener := t.Go(func(t *task.Task) error {
			for c.open {
				if err := t.Readable(c.output); err != nil {
					return err
				}
				changed, err := c.read()
				if err != nil {
					return err
				}
				if changed {
					s.show()
				}
			}
			return nil
		})
		defer listener.Cancel()
		if err := t.Readable(c.process.FD()); err != nil {
			return err
		}
		listener.Cancel()
		_, err := c.end()
		s.show()
		return err
	}
}

func (s *stage) heartTask(t *task.Task) error {
	for {
		if err := t.Sleep(s.beat); err != nil {
			return err
		}
		s.show()
	}
}
