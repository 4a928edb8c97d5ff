package main

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/loop/task"
)

// onLoop has a task for each connection. Only one runs at a time, so there is no lock. When one
// fails, the others are cancelled and close their connections.
func onLoop(server netip.AddrPort, n int) (*tally, error) {
	l, err := loop.New()
	if err != nil {
		return nil, err
	}
	counts := newTally()
	err = task.Run(l, func(t *task.Task) error {
		readers := make([]*task.Task, 0, n)
		for range n {
			fd, err := connect(t, server)
			if err != nil {
				return err
			}
			readers = append(readers, t.Go(func(t *task.Task) error {
				defer unix.Close(fd)
				return words(task.Conn{Task: t, FD: fd}, counts.add)
			}))
		}
		return t.Gather(readers...)
	})
	return counts, err
}

func connect(t *task.Task, server netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make a socket: %w", err)
	}
	if err := t.Connect(fd, &unix.SockaddrInet4{Addr: server.Addr().As4(), Port: int(server.Port())}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
