package task_test

import (
	"errors"
	"fmt"
	"time"

	"superd/loop"
	"superd/loop/task"
)

// Two tasks sleep side by side on one goroutine. On a virtual loop the seconds pass at once.
func Example() {
	v := loop.NewVirtual(1)
	start := v.Now()
	err := task.Run(v.Loop, func(t *task.Task) error {
		nap := func(name string, d time.Duration) func(*task.Task) error {
			return func(t *task.Task) error {
				err := t.Sleep(d)
				fmt.Println(name, "slept", v.Now()-start)
				return err
			}
		}
		return t.Gather(t.Go(nap("long", 7*time.Second)), t.Go(nap("short", 5*time.Second)))
	})
	fmt.Println("both ended after", v.Now()-start, err)
	// Output:
	// short slept 5s
	// long slept 7s
	// both ended after 7s <nil>
}

// A task belongs to a scope, like a callback, and ends with it.
func ExampleGo() {
	v := loop.NewVirtual(1)
	job := v.Root().Child()
	task.Go(job, func(t *task.Task) error {
		defer fmt.Println("cleaned up")
		for i := 1; ; i++ {
			if err := t.Sleep(time.Second); err != nil {
				return err
			}
			fmt.Println("tick", i)
		}
	})
	v.Root().After(3500*time.Millisecond, job.Close)
	v.RunFor(time.Minute)
	// Output:
	// tick 1
	// tick 2
	// tick 3
	// cleaned up
}

// A parent does not end before its children.
func ExampleTask_Go() {
	v := loop.NewVirtual(1)
	_ = task.Run(v.Loop, func(t *task.Task) error {
		parent := t.Go(func(t *task.Task) error {
			t.Go(func(t *task.Task) error {
				defer fmt.Println("child ended")
				return t.Sleep(time.Second)
			})
			fmt.Println("parent returns")
			return nil
		})
		err := parent.Join(t)
		fmt.Println("parent ended")
		return err
	})
	// Output:
	// parent returns
	// child ended
	// parent ended
}

// A task that joins another gets its error, even after its end.
func ExampleTask_Join() {
	v := loop.NewVirtual(1)
	_ = task.Run(v.Loop, func(t *task.Task) error {
		child := t.Go(func(t *task.Task) error { return errors.New("out of paper") })
		if err := t.Sleep(time.Second); err != nil {
			return err
		}
		fmt.Println(child.Ended(), child.Join(t))
		return nil
	})
	// Output: true out of paper
}

// A task may return a value.
func ExampleStart() {
	v := loop.NewVirtual(1)
	_ = task.Run(v.Loop, func(t *task.Task) error {
		answer := task.Start(t, func(t *task.Task) (int, error) {
			return 42, t.Sleep(time.Second)
		})
		n, err := answer.Join(t)
		fmt.Println(n, err)
		return err
	})
	// Output: 42 <nil>
}

// The first error cancels the others, and all have ended when Gather returns.
func ExampleTask_Gather() {
	v := loop.NewVirtual(1)
	start := v.Now()
	_ = task.Run(v.Loop, func(t *task.Task) error {
		err := t.Gather(
			t.Go(func(t *task.Task) error {
				defer fmt.Println("the slow one ended")
				return t.Sleep(time.Hour)
			}),
			t.Go(func(t *task.Task) error {
				if err := t.Sleep(time.Second); err != nil {
					return err
				}
				return errors.New("no route to host")
			}),
		)
		fmt.Println(err, "after", v.Now()-start)
		return nil
	})
	// Output:
	// the slow one ended
	// no route to host after 1s
}

// A cancelled task ends by its own code.
func ExampleTask_Cancel() {
	v := loop.NewVirtual(1)
	_ = task.Run(v.Loop, func(t *task.Task) error {
		ticker := t.Go(func(t *task.Task) error {
			defer fmt.Println("ticker ends")
			for t.Sleep(100*time.Millisecond) == nil {
				fmt.Println("tick")
			}
			return t.Err()
		})
		if err := t.Sleep(250 * time.Millisecond); err != nil {
			return err
		}
		ticker.Cancel()
		fmt.Println("asked to end")
		fmt.Println(ticker.Join(t))
		return nil
	})
	// Output:
	// tick
	// tick
	// asked to end
	// ticker ends
	// task canceled
}

// Clean-up code that has to wait does so in a shield.
func ExampleTask_Shield() {
	v := loop.NewVirtual(1)
	_ = task.Run(v.Loop, func(t *task.Task) error {
		server := t.Go(func(t *task.Task) error {
			defer func() {
				_ = t.Shield(func() error { return t.Sleep(5 * time.Second) })
				fmt.Println("drained")
			}()
			return t.Sleep(time.Hour)
		})
		if err := t.Sleep(time.Second); err != nil {
			return err
		}
		server.Cancel()
		return server.Join(t)
	})
	// Output: drained
}

// A time limit covers all waits of f.
func ExampleTask_Timeout() {
	v := loop.NewVirtual(1)
	_ = task.Run(v.Loop, func(t *task.Task) error {
		var ready task.Future[string] // never resolved
		err := t.Timeout(10*time.Second, func() error {
			_, err := ready.Await(t)
			return err
		})
		fmt.Println(errors.Is(err, task.ErrTimeout))
		return nil
	})
	// Output: true
}

// A callback wakes a task: here two machines start one after the other.
func ExampleFuture() {
	v := loop.NewVirtual(1)
	start := v.Now()
	power := func(name string) *task.Future[string] {
		ready := new(task.Future[string])
		v.Root().After(2*time.Second, func() { ready.Resolve(name + " is up") })
		return ready
	}
	_ = task.Run(v.Loop, func(t *task.Task) error {
		for _, name := range []string{"db", "web"} {
			state, err := power(name).Await(t)
			if err != nil {
				return err
			}
			fmt.Println(state, "after", v.Now()-start)
		}
		return nil
	})
	// Output:
	// db is up after 2s
	// web is up after 4s
}

// A blocking call runs in a goroutine, and the task waits for its result.
func ExampleFuture_Resolve() {
	l, err := loop.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	err = task.Run(l, func(t *task.Task) error {
		answer := new(task.Future[int])
		go func() {
			n := 6 * 7 // slow, or blocking
			l.Post(func() { answer.Resolve(n) })
		}()
		n, err := answer.Await(t)
		fmt.Println(n)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 42
}

// Without a task, a future is a promise between callbacks.
func ExampleFuture_Then() {
	v := loop.NewVirtual(1)
	var f task.Future[int]
	f.Then(v.Root(), func(n int, err error) { fmt.Println("got", n, err) })
	fmt.Println(f.Resolve(1), f.Resolve(2))
	v.Step()
	// Output:
	// true false
	// got 1 <nil>
}

// A panic in a task passes up its tree and out of Run, with the stacks of all tasks on its way.
func ExamplePanic() {
	v := loop.NewVirtual(1)
	defer func() {
		p := recover().(*task.Panic)
		fmt.Println("panic:", p.Value)
	}()
	_ = task.Run(v.Loop, func(t *task.Task) error {
		defer fmt.Println("parent cleaned up")
		return t.Gather(t.Go(func(t *task.Task) error { panic("a bug") }))
	})
	// Output:
	// parent cleaned up
	// panic: a bug
}
