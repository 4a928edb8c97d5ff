package task

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Read reads at least one byte from a non-blocking descriptor into p, and waits for data if
// necessary. At the end it returns [io.EOF].
func (t *Task) Read(fd int, p []byte) (int, error) {
	for {
		if err := t.enter("Read"); err != nil {
			return 0, err
		}
		n, err := unix.Read(fd, p)
		switch err {
		case nil:
			if n == 0 && len(p) > 0 {
				return 0, io.EOF
			}
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			if err := t.await(fd, readable); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("read descriptor %d: %w", fd, err)
		}
	}
}

// Write writes all of p to a non-blocking descriptor, and waits as often as necessary. If it
// returns an error, n is the number of bytes written before.
func (t *Task) Write(fd int, p []byte) (n int, err error) {
	for {
		if err := t.enter("Write"); err != nil {
			return n, err
		}
		k, err := unix.Write(fd, p[n:])
		switch err {
		case nil:
			if n += k; n == len(p) {
				return n, nil
			}
		case unix.EINTR:
		case unix.EAGAIN:
			if err := t.await(fd, writable); err != nil {
				return n, err
			}
		default:
			return n, fmt.Errorf("write descriptor %d: %w", fd, err)
		}
	}
}

// Accept waits for a connection to a non-blocking listening socket. It returns the address of the
// peer, and a non-blocking, close-on-exec descriptor that the caller must close.
func (t *Task) Accept(fd int) (int, unix.Sockaddr, error) {
	for {
		if err := t.enter("Accept"); err != nil {
			return -1, nil, err
		}
		conn, peer, err := unix.Accept4(fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			return conn, peer, nil
		case unix.EINTR, unix.ECONNABORTED:
		case unix.EAGAIN:
			if err := t.await(fd, readable); err != nil {
				return -1, nil, err
			}
		default:
			return -1, nil, fmt.Errorf("accept on descriptor %d: %w", fd, err)
		}
	}
}

// Connect connects a non-blocking socket, and waits until it is connected or fails. For a Unix
// socket with a full backlog it fails with unix.EAGAIN at once, since the kernel does not report
// when there is room.
func (t *Task) Connect(fd int, to unix.Sockaddr) error {
	if err := t.enter("Connect"); err != nil {
		return err
	}
	err := unix.Connect(fd, to)
	if err == unix.EINPROGRESS || err == unix.EINTR {
		if err := t.await(fd, writable); err != nil {
			return err
		}
		var errno int
		errno, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && errno != 0 {
			err = unix.Errno(errno)
		}
	}
	if err != nil {
		return fmt.Errorf("connect descriptor %d: %w", fd, err)
	}
	return nil
}

// A Conn makes a non-blocking descriptor an [io.ReadWriter] for one task, for example for package
// bufio.
type Conn struct {
	Task *Task
	FD   int
}

// Read is [Task.Read].
func (c Conn) Read(p []byte) (int, error) { return c.Task.Read(c.FD, p) }

// Write is [Task.Write].
func (c Conn) Write(p []byte) (int, error) { return c.Task.Write(c.FD, p) }
