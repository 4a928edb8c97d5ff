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

// AwaitNewline has done called once, on the loop, when a program has written a newline to the other end of the pipe fd: with nil, or
// with why that will not come. It takes ownership of fd, the read end, and closes it then or with the scope, also when it returns
// an error. A program that goes on writing gets SIGPIPE, as with s6.
//
// Source: s6:doc/notifywhenup.html.
func AwaitNewline(scope *loop.Scope, fd int, done func(error)) error {
	own := scope.Child()
	own.Defer(func() { unix.Close(fd) })
	if err := unix.SetNonblock(fd, true); err != nil {
		own.Close()
		return fmt.Errorf("await newline: %w", os.NewSyscallError("fcntl", err))
	}
	var buffer [4096]byte
	taken := 0
	finish := func(err error) {
		own.Close()
		done(err)
	}
	_, err := own.OnReadable(fd, func() {
		n, err := unix.Read(fd, buffer[:])
		taken += max(n, 0)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
		case err != nil:
			finish(fmt.Errorf("await newline: %w", os.NewSyscallError("read", err)))
		case bytes.IndexByte(buffer[:n], '\n') >= 0:
			finish(nil)
		case n == 0:
			finish(errNoNewline)
		case taken > maxBeforeNewline:
			finish(fmt.Errorf("await newline: none in %d bytes", taken))
		}
	})
	if err != nil {
		own.Close()
		return fmt.Errorf("await newline: %w", err)
	}
	return nil
}

var errNoNewline = errors.New("await newline: the descriptor was closed without one")
