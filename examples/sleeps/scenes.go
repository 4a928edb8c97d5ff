package main

import (
	"errors"
	"fmt"

	"superd/loop/task"
)

var scenes = []scene{
	{"Two sleeps, one after the other:", inTurn},
	{"The same two side by side, gathered:", gathered},
	{"A ticker in the background of a main task:", background},
	{"Five sleepers, and two readers beside them:", readers},
	{"A child with a result:", result},
	{"A child that fails:", failure},
	{"A child that is cancelled:", cancelled},
}

func inTurn(st *stage, t *task.Task) error {
	if err := st.sleeper("one", 0.5)(t); err != nil {
		return err
	}
	return st.sleeper("two", 0.7)(t)
}

func gathered(st *stage, t *task.Task) error {
	return t.Gather(t.Go(st.sleeper("one", 0.5)), t.Go(st.sleeper("two", 0.7)))
}

// background has a task without an end, which is cancelled when the main task is done.
func background(st *stage, t *task.Task) error {
	ticker := t.Go(func(t *task.Task) error {
		for i := 1; ; i++ {
			if err := t.Sleep(st.seconds(0.1)); err != nil {
				return err
			}
			st.printf("tick %d", i)
		}
	})
	defer ticker.Cancel()
	return st.sleeper("main", 0.55)(t)
}

func readers(st *stage, t *task.Task) error {
	var all []*task.Task
	for i := range 5 {
		all = append(all, t.Go(st.sleeper(fmt.Sprint("sleeper ", i+1), float64(5-i)/10)))
	}
	all = append(all, t.Go(st.readUrandom), t.Go(st.readSocket))
	return t.Gather(all...)
}

func result(st *stage, t *task.Task) error {
	sum := task.Start(t, func(t *task.Task) (int, error) {
		st.printf("the child thinks")
		return 6 * 7, t.Sleep(st.seconds(0.3))
	})
	st.printf("the parent waits")
	n, err := sum.Join(t)
	st.printf("the parent gets %d", n)
	if err != nil {
		return err
	}
	n, err = sum.Join(t)
	st.printf("and again, though the child has ended: %d", n)
	return err
}

// failure has a parent that sees the error of its child and continues.
func failure(st *stage, t *task.Task) error {
	child := t.Go(func(t *task.Task) error {
		defer st.printf("the child cleans up")
		if err := t.Sleep(st.seconds(0.2)); err != nil {
			return err
		}
		return errors.New("out of paper")
	})
	st.printf("the parent joins: %v", child.Join(t))
	return nil
}

func cancelled(st *stage, t *task.Task) error {
	child := t.Go(func(t *task.Task) error {
		defer st.printf("the child cleans up")
		return t.Sleep(st.seconds(60))
	})
	if err := t.Sleep(st.seconds(0.2)); err != nil {
		return err
	}
	child.Cancel()
	child.Cancel() // harmless
	st.printf("the parent joins: %v", child.Join(t))
	return nil
}
