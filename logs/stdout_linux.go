package logs

import (
	"bytes"
	"errors"
	"time"

	"superd/terminal"

	"golang.org/x/sys/unix"
)

// A sharedOutput is superd's own standard output as a sink: all captures write whole records there, one after the other.
type sharedOutput struct {
	fd       int
	terminal bool          // somebody looks at it: what a terminal would obey is shown instead
	busy     chan struct{} // held by who writes
}

// stdoutFD is superd's own standard output.
const stdoutFD = 1

func newSharedOutput(fd int) *sharedOutput {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return &sharedOutput{fd: fd, terminal: err == nil, busy: make(chan struct{}, 1)}
}

// pipeAtomic is how much is written at a time: a pipe that is writable takes that much without waiting, and in one piece.
// Source: man 7 pipe, PIPE_BUF.
const pipeAtomic = 4096

// put implements sink. Standard output may be a description that others have, too, so it stays as it is, blocking: it is asked first whether
// it takes something.
func (s *sharedOutput) put(gap *[]byte, records []byte, quit <-chan struct{}) (written int, err error) {
	select {
	case s.busy <- struct{}{}:
	case <-quit:
		return 0, errQuit
	}
	defer func() { <-s.busy }()
	if *gap != nil {
		if n, err := s.write(*gap, quit); n < len(*gap) {
			return 0, err
		}
		*gap = nil
	}
	return s.write(records, quit)
}

// write writes records and returns how many bytes of them are there: whole ones, but for the last one where that stalls and nobody waits any more.
func (s *sharedOutput) write(records []byte, quit <-chan struct{}) (written int, err error) {
	for rest := records; len(rest) > 0; {
		next := wholeRecords(rest)
		shown := s.shown(next)
		for done := 0; done < len(shown); {
			if err := s.await(quit); err != nil {
				return written, err
			}
			n, err := write(s.fd, shown[done:min(len(shown), done+pipeAtomic)])
			if done += n; err != nil && !errors.Is(err, unix.EAGAIN) {
				return written, err
			}
		}
		written += len(next)
		rest = rest[len(next):]
	}
	return written, nil
}

// shown returns what is to be written of records.
func (s *sharedOutput) shown(records []byte) []byte {
	if !s.terminal {
		return records
	}
	var text []byte
	for record := range bytes.Lines(records) {
		text = append(append(text, terminal.Sanitize(string(record))...), '\n')
	}
	return text
}

// wholeRecords returns as many records as can be written in one piece, and at least one.
func wholeRecords(records []byte) []byte {
	end := 0
	for i, b := range records {
		if b != '\n' {
			continue
		}
		if i >= pipeAtomic && end > 0 {
			break
		}
		if end = i + 1; end >= pipeAtomic {
			break
		}
	}
	return records[:end]
}

// await waits until standard output takes something.
func (s *sharedOutput) await(quit <-chan struct{}) error {
	for {
		events := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(events, int(patienceOfPoll.Milliseconds()))
		if n > 0 || err != nil && err != unix.EINTR {
			return err
		}
		select {
		case <-quit:
			return errQuit
		default:
		}
	}
}

// patienceOfPoll is how long one look at standard output takes at most.
const patienceOfPoll = 250 * time.Millisecond

func (s *sharedOutput) close() {}
