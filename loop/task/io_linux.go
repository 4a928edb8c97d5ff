package task

import (
	"io"

	"golang.org/x/sys/unix"
)

// Read reads from a non-blocking descriptor into p: what is there, at least one byte, waiting for it if need be. At
// the end it returns [io.EOF].
func (t *Task) Read(fd int, p []byte) (int, error) {
	if err := t.enter("Read"); err != nil {
		return 0, err
	}
	for {
		n, err := unix.Read(fd, p)
		switch {
		case err == nil && n == 0 && len(p) > 0:
			return 0, io.EOF
		case err == nil:
			return n, nil
		case err != unix.EAGAIN && err != unix.EINTR:
			return 0, err
		case err == unix.EAGAIN:
			if err := t.Readable(fd); err != nil {
				return 0, err
			}
		}
	}
}

// Write writes all of p to a non-blocking descriptor, waiting as often as need be. If it returns an error,
// n is how much was written before.
func (t *Task) Write(fd int, p []byte) (n int, err error) {
	if err := t.enter("Write"); err != nil {
		return 0, err
	}
	for n < len(p) {
		k, err := unix.Write(fd, p[n:])
		switch err {
		case nil:
			n += k
		case unix.EINTR:
		case unix.EAGAIN:
			if err := t.Writable(fd); err != nil {
				return n, err
			}
		default:
			return n, err
		}
	}
	return n, nil
}

// Accept waits for a connection to a non-blocking listening socket. It returns a descriptor that is non-blocking
// and close-on-exec, and the caller's to close, and the address of the peer.
func (t *Task) Accept(fd int) (int, unix.Sockaddr, error) {
	if err := t.enter("Accept"); err != nil {
		return -1, nil, err
	}
	for {
		conn, peer, err := unix.Accept4(fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			return conn, peer, nil
		case unix.EINTR, unix.ECONNABORTED:
		case unix.EAGAIN:
			if err := t.Readable(fd); err != nil {
				return -1, nil, err
			}
		default:
			return -1, nil, err
		}
	}
}

// Connect connects a non-blocking socket, and waits until it is or can't be.
func (t *Task) Connect(fd int, to unix.Sockaddr) error {
	if err := t.enter("Connect"); err != nil {
		return err
	}
	err := unix.Connect(fd, to)
	if err != unix.EINPROGRESS && err != unix.EINTR {
		return err
	}
	if err := t.Writable(fd); err != nil {
		return err
	}
	errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	return err
}

// A Conn is a non-blocking descriptor as an [io.ReadWriter] of one task, for package bufio and the like.
type Conn struct {
	Task *Task
	FD   int
}

// Read is [Task.Read].
func (c Conn) Read(p []byte) (int, error) { return c.Task.Read(c.FD, p) }

// Write is [Task.Write].
func (c Conn) Write(p []byte) (int, error) { return c.Task.Write(c.FD, p) }
