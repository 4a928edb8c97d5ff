package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// maxRepeatPause is the longest pause between two attempts to continue a stream.
const maxRepeatPause = 500 * time.Millisecond

// A streaming is an answer in lines; if it is endless, the next request continues after the last
// line.
type streaming struct {
	request func() request
	endless bool
	line    func(line []byte) error // called with each line and its line end
	// text returns how many bytes of text follow a line; line is called with both. nil: none do
	text func(line []byte) (bytes int, err error)
	idle func() error // called when no further line has arrived yet; may be nil
}

// stream makes a request and passes the lines of the answer to line, until that returns an error or
// the answer ends. If an endless stream is cut off, it makes the next request, since a successor
// may run after a crash or an upgrade. If none does, the stream ends without an error.
func (c *Client) stream(ctx context.Context, s streaming) error {
	begun, pause, deadline := false, repeatPause, time.Now().Add(c.repeatTimeout)
	for {
		x, err := c.do(ctx, s.request())
		switch {
		case err == nil:
			begun = true
			var received, cut bool
			received, cut, err = s.read(x)
			x.Close()
			if ctx.Err() == nil && !(cut && s.endless) {
				return err
			}
			if deadline = time.Now().Add(c.repeatTimeout); received {
				pause = repeatPause
			}
		case begun && (errors.Is(err, ErrNoSuperd) || errors.Is(err, errEnded)):
			return nil
		case !begun || !isBusy(err) || time.Now().After(deadline):
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause = min(2*pause, maxRepeatPause)
	}
}

// isBusy reports whether superd refused a request because it is ending, or has too many clients.
func isBusy(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable
}

// read passes on the lines of an answer. cut reports that the answer did not end regularly, as when
// superd was killed. An incomplete last line is dropped.
func (s *streaming) read(answer io.Reader) (received, cut bool, err error) {
	var line []byte
	for lines := bufio.NewReaderSize(answer, 64<<10); ; received = true {
		if s.idle != nil && lines.Buffered() == 0 {
			if err := s.idle(); err != nil {
				return received, false, err
			}
		}
		var err error
		line, err = s.readLine(lines, line[:0])
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return received, false, nil
		case err != nil:
			return received, ended(err), fmt.Errorf("read answer of superd: %w", err)
		}
		if err := s.line(line); err != nil {
			return received, false, err
		}
	}
}

// readLine appends the next line and the text that follows it.
func (s *streaming) readLine(lines *bufio.Reader, line []byte) ([]byte, error) {
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
	if s.text == nil {
		return line, nil
	}
	n, err := s.text(line)
	if err != nil {
		return line, err
	}
	head := len(line)
	line = slices.Grow(line, n)[:head+n]
	_, err = io.ReadFull(lines, line[head:])
	return line, err
}
