package notify

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"superd/loop"
)

// maxBeforeNewline is how many bytes a program may write to its descriptor before the newline.
const maxBeforeNewline = 64 << 10

// AwaitNewline calls done once, on the loop, when a program has written a newline to the other end
// of the pipe fd: with nil, or with the reason why none will come. It owns fd, the read end, and
// closes it then or with the scope, also after an error. A program that writes more gets SIGPIPE,
// as with s6. The newline stays in the pipe, so that another process with the read end can wait for
// it, too.
//
// Source: s6:doc/notifywhenup.html.
func AwaitNewline(scope *loop.Scope, fd int, done func(error)) error {
	own := scope.Child()
	own.Defer(func() { unix.Close(fd) })
	if err := unix.SetNonblock(fd, true); err != nil {
		own.Close()
		return fmt.Errorf("await newline: %w", os.NewSyscallError("fcntl", err))
	}
	consumed := 0
	finish := func(err error) {
		own.Close()
		done(err)
	}
	_, err := own.OnReadable(fd, func() {
		n, found, err := takeUpToNewline(fd)
		consumed += max(n, 0)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
		case err != nil:
			finish(fmt.Errorf("await newline: %w", err))
		case found:
			finish(nil)
		case n == 0:
			finish(errNoNewline)
		case consumed > maxBeforeNewline:
			finish(fmt.Errorf("await newline: none in %d bytes", consumed))
		}
	})
	if err != nil {
		own.Close()
		return fmt.Errorf("await newline: %w", err)
	}
	return nil
}

var errNoNewline = errors.New("await newline: the descriptor was closed without one")

// takeUpToNewline reads n bytes from the pipe unless there is a newline among them; then found is
// true and nothing is read. n is 0 at the end.
func takeUpToNewline(fd int) (n int, found bool, err error) {
	var buffer [4096]byte
	var peek [2]int
	// Without descriptors for a peek, read.
	if err := unix.Pipe2(peek[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		n, err = unix.Read(fd, buffer[:])
		return n, bytes.IndexByte(buffer[:max(n, 0)], '\n') >= 0, err
	}
	defer unix.Close(peek[0])
	defer unix.Close(peek[1])
	seen, err := unix.Tee(fd, peek[1], len(buffer), unix.SPLICE_F_NONBLOCK)
	if err == unix.ENOSYS || err == unix.EPERM { // a system call filter refuses tee
		n, err = unix.Read(fd, buffer[:])
		return n, bytes.IndexByte(buffer[:max(n, 0)], '\n') >= 0, err
	}
	if err != nil || seen == 0 {
		return 0, false, err
	}
	if n, err = unix.Read(peek[0], buffer[:seen]); err != nil {
		return 0, false, os.NewSyscallError("read", err)
	}
	if bytes.IndexByte(buffer[:n], '\n') >= 0 {
		return n, true, nil
	}
	if n, err = unix.Read(fd, buffer[:n]); err != nil {
		return 0, false, os.NewSyscallError("read", err)
	}
	return n, false, nil
}
