package sink

import (
	"bytes"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
	"superd/internal/terminal"
	"superd/logs/frame"
	"superd/logs/pipe"
)

// A sharedOutput is superd's own standard output as a sink. All collectors write whole records to
// it, one after the other.
type sharedOutput struct {
	fd       int
	terminal bool          // control characters are written in a visible form
	busy     chan struct{} // holds a token of the writer
	// midLine wrote last, without a line end; nil: the last line is complete. busy guards it.
	midLine *ownOutput
}

// An ownOutput is the sharedOutput as the sink of one collector. Only raw output may leave a line
// without its end; the line is ended before another collector writes.
type ownOutput struct{ shared *sharedOutput }

// Close implements [Sink].
func (o *ownOutput) Close() {}

// Put implements [Sink].
func (o *ownOutput) Put(dropRecord *[]byte, records []byte, stop <-chan struct{}) (written int, err error) {
	return o.shared.put(o, dropRecord, records, stop)
}

// stdoutFD is superd's own standard output.
const stdoutFD = 1

func newSharedOutput(fd int) *sharedOutput {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return &sharedOutput{fd: fd, terminal: err == nil, busy: make(chan struct{}, 1)}
}

// put implements [Sink] for from. Standard output may be a file description shared with other
// processes. So it stays blocking, and is polled before each write.
func (s *sharedOutput) put(from *ownOutput, dropRecord *[]byte, records []byte, stop <-chan struct{}) (written int, err error) {
	select {
	case s.busy <- struct{}{}:
	case <-stop:
		return 0, errClosed
	}
	defer func() { <-s.busy }()
	if s.midLine != nil && (s.midLine != from || *dropRecord != nil) {
		if _, err := s.write([]byte{'\n'}, stop); err != nil {
			return 0, err
		}
		s.midLine = nil
	}
	if *dropRecord != nil {
		if n, err := s.write(*dropRecord, stop); n < len(*dropRecord) {
			return 0, err
		}
		*dropRecord = nil
	}
	written, err = s.write(records, stop)
	if written > 0 {
		s.midLine = nil
		if records[written-1] != '\n' {
			s.midLine = from
		}
	}
	return written, err
}

// write writes records and returns how many bytes are written: whole records, except for the last
// one if stop is closed while it stalls.
func (s *sharedOutput) write(records []byte, stop <-chan struct{}) (written int, err error) {
	for rest := records; len(rest) > 0; {
		next := wholeRecords(rest)
		visible := s.visible(next)
		for done := 0; done < len(visible); {
			if err := s.await(stop); err != nil {
				return written, err
			}
			n, err := syscalls.Write(s.fd, visible[done:min(len(visible), done+pipe.AtomicBytes)])
			if done += n; err != nil && !errors.Is(err, unix.EAGAIN) {
				return written, err
			}
		}
		written += len(next)
		rest = rest[len(next):]
	}
	return written, nil
}

func (s *sharedOutput) visible(records []byte) []byte {
	if !s.terminal {
		return records
	}
	var text []byte
	for record := range bytes.Lines(records) {
		line, whole := bytes.CutSuffix(record, []byte{'\n'})
		text = append(text, terminal.Sanitize(string(line))...)
		if whole {
			text = append(text, '\n')
		}
	}
	return text
}

// wholeRecords returns as many records as can be written in one piece, and at least one; of a raw
// line without an end, a piece.
func wholeRecords(records []byte) []byte {
	end := 0
	for i, b := range records {
		if b != '\n' {
			continue
		}
		if i >= pipe.AtomicBytes && end > 0 {
			break
		}
		if end = i + 1; end >= pipe.AtomicBytes {
			break
		}
	}
	if end == 0 {
		end = frame.WholeRunes(records[:min(len(records), pipe.AtomicBytes)])
	}
	return records[:end]
}

// await waits until standard output is writable.
func (s *sharedOutput) await(stop <-chan struct{}) error {
	for {
		events := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(events, int(pipe.PollTimeout.Milliseconds()))
		if n > 0 || err != nil && err != unix.EINTR {
			return err
		}
		select {
		case <-stop:
			return errClosed
		default:
		}
	}
}

// An interleavedWriter is the writer that BetweenRecords returns.
type interleavedWriter struct {
	records *sharedOutput
	io.Writer
}

// Write writes p between two records.
func (w *interleavedWriter) Write(p []byte) (int, error) {
	w.records.busy <- struct{}{}
	defer func() { <-w.records.busy }()
	if w.records.midLine != nil {
		if _, err := w.Writer.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		w.records.midLine = nil
	}
	return w.Writer.Write(p)
}
