package task_test

import (
	"bufio"
	"fmt"

	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/loop/task"
)

// A connection reads like a file, with package bufio, while other tasks run.
func ExampleConn() {
	l, err := loop.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	err = task.Run(l, func(t *task.Task) error {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		t.Scope().Defer(func() { unix.Close(p[1]) }) // after the children
		t.Go(func(t *task.Task) error {
			defer unix.Close(p[0])
			for _, word := range []string{"one", "two"} {
				if _, err := fmt.Fprintln(task.Conn{Task: t, FD: p[0]}, word); err != nil {
					return err
				}
			}
			return nil
		})
		lines := bufio.NewScanner(task.Conn{Task: t, FD: p[1]})
		for lines.Scan() {
			fmt.Println("received", lines.Text())
		}
		return lines.Err()
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// received one
	// received two
}
