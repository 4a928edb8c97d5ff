package pipe

import (
	"bytes"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// AtomicBytes is how many bytes are written at a time. A writable pipe takes that much without
// waiting, and in one piece. Source: man 7 pipe, PIPE_BUF.
const AtomicBytes = 4096

// PollTimeout is how long one poll of a descriptor to write takes at most.
const PollTimeout = 250 * time.Millisecond

// ErrReaderStalls is the error when a FIFO or device accepts no output.
var ErrReaderStalls = errors.New("its reader stalls")

// WritePieces writes p to a non-blocking FIFO or device, and returns how many bytes were written.
// It writes pieces that a FIFO accepts whole or not at all. If the reader stalls, it waits only
// briefly, as the goroutine serves other streams, too.
func WritePieces(fd int, p []byte) (n int, err error) {
	for waited := false; n < len(p); {
		got, err := syscalls.Write(fd, Piece(p[n:]))
		n += got
		switch {
		case err == nil:
			waited = false
		case err == unix.EAGAIN && !waited:
			waited = true
			err := syscalls.Retry(func() error {
				events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
				_, err := unix.Poll(events, int(PollTimeout.Milliseconds()))
				return err
			})
			if err != nil {
				return n, err
			}
		case err == unix.EAGAIN:
			return n, ErrReaderStalls
		default:
			return n, err
		}
	}
	return n, nil
}

// Piece returns the first piece of text.
func Piece(text []byte) []byte {
	if len(text) <= AtomicBytes {
		return text
	}
	if end := bytes.LastIndexByte(text[:AtomicBytes], '\n') + 1; end > 0 {
		return text[:end]
	}
	return text[:AtomicBytes]
}
