package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxRepeatPause is the longest pause between two attempts to go on with a stream that has ended.
const maxRepeatPause = 500 * time.Millisecond

// A streaming is an answer in lines; if it is endless, the next request goes on where the last line was.
type streaming struct {
	request func() request
	endless bool
	line    func(line []byte) error // gets each line with its end
	idle    func() error            // called when no further line is there yet; may be nil
}

// stream makes a request and passes on the lines of the answer, until one is refused or superd ends the answer. Where an endless one is cut off, the
// next request is made: another superd may have come in the place of this one, after a crash or an upgrade. Where there is none, the
// stream has ended well.
func (c *Client) stream(ctx context.Context, s streaming) error {
	begun, pause, patience := false, repeatPause, time.Now().Add(c.repeat)
	for {
		x, err := c.do(ctx, s.request())
		switch {
		case err == nil:
			begun = true
			var some, cut bool
			some, cut, err = s.read(x)
			x.Close()
			if ctx.Err() == nil && !(cut && s.endless) {
				return err
			}
			if patience = time.Now().Add(c.repeat); some {
				pause = repeatPause
			}
		case begun && (errors.Is(err, ErrNoSuperd) || errors.Is(err, errEnded)):
			return nil
		case !begun || !isBusy(err) || time.Now().After(patience):
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

// isBusy tells whether superd has no time for anybody: it ends, or has too many clients.
func isBusy(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable
}

// read passes on the lines of an answer. cut tells that it has ended otherwise than it should, as where superd was killed. A line that is cut off is none.
func (s *streaming) read(answer io.Reader) (some, cut bool, err error) {
	for lines := bufio.NewReaderSize(answer, 64<<10); ; some = true {
		if s.idle != nil && lines.Buffered() == 0 {
			if err := s.idle(); err != nil {
				return some, false, err
			}
		}
		line, err := lines.ReadBytes('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			return some, false, nil
		case err != nil:
			return some, ended(err), fmt.Errorf("read answer of superd: %w", err)
		}
		if err := s.line(line); err != nil {
			return some, false, err
		}
	}
}
