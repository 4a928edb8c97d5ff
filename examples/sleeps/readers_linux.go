package main

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"superd/loop/task"
)

const size = 32 << 10

// readUrandom reads a device that is always ready, so it never waits.
func (st *stage) readUrandom(t *task.Task) error {
	fd, err := unix.Open("/dev/urandom", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/urandom: %w", err)
	}
	defer unix.Close(fd)
	n, err := io.ReadFull(task.Conn{Task: t, FD: fd}, make([]byte, size))
	st.printf("read %d bytes from /dev/urandom", n)
	return err
}

// readSocket reads from a socket into which a child task writes an eighth every 0.05 s.
func (st *stage) readSocket(t *task.Task) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket pair: %w", err)
	}
	t.Scope().Defer(func() { unix.Close(pair[0]) }) // after the child, should this task fail
	t.Go(func(t *task.Task) error {
		defer unix.Close(pair[1])
		for range 8 {
			if err := t.Sleep(st.seconds(0.05)); err != nil {
				return err
			}
			if _, err := t.Write(pair[1], make([]byte, size/8)); err != nil {
				return err
			}
		}
		return nil
	})
	n, err := io.Copy(io.Discard, task.Conn{Task: t, FD: pair[0]})
	st.printf("read %d bytes from a socket", n)
	return err
}
