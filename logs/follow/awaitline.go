package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"superd/logs/frame"
	"superd/logs/segment"
)

const (
	awaitBuffer = 4 << 10  // bytes for each AwaitLine; a thousand may be active
	maxAwaited  = 16 << 10 // bytes of the start of a line that are matched
)

// AwaitLine reports the first line of the present run's output that matches the pattern, unless the
// writer is closed or ctx ends before. It gives report at most 1024 bytes of the line, as written.
//
// A line is complete with its newline. Of a longer one the first 16 KiB are matched. begin is for a
// run that began before the writer: where in the log the run begins; nil: the log had none of its
// output.
//
// The output is read from the log file. While that fails, report is called with an error after each
// attempt; retryDelay returns the delay before the next one. In a device no line ever matches.
func AwaitLine(ctx context.Context, l Log, pattern *regexp.Regexp, begin *segment.Cursor,
	retryDelay func(attempt int) time.Duration, report func(line string, err error),
) {
	wake := make(chan struct{}, 1)
	defer l.Notify(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})()
	m := &lineMatcher{pattern: pattern}
	f := &follower{ctx: ctx, log: l, readers: l.Readers(), w: m, buffer: make([]byte, awaitBuffer), lineEnded: true}
	m.format = func() frame.Format { return f.segments.OutputEnd().Format }
	positioned := false
	seek := func(f *follower) error {
		err := f.seekRun(begin)
		positioned = err == nil
		return err
	}
	for attempt := 0; ; attempt++ {
		var err error
		if positioned {
			err = f.resume(ctx, true, wake)
		} else {
			err = f.run(ctx, true, wake, seek)
		}
		f.closeFile()
		switch {
		case errors.Is(err, errMatched):
			report(m.matched, nil)
			return
		case err == nil || ctx.Err() != nil:
			return
		}
		report("", fmt.Errorf("await line of %s: %w", l.Name(), err))
		select {
		case <-time.After(retryDelay(attempt)):
		case <-ctx.Done():
			return
		}
	}
}

// seekRun sets the position to the start of the present run. begin is that cursor if the run began
// before this writer.
func (f *follower) seekRun(begin *segment.Cursor) error {
	if begin != nil {
		return f.read(func() error {
			f.position, _ = f.segments.Locate(*begin)
			return nil
		})
	}
	from, _ := f.segments.LastRun()
	if f.position = from; from == segment.Unknown {
		f.position = f.segments.First()
	}
	return nil
}

var errMatched = errors.New("a line matches")

// A lineMatcher is a writer of output that searches for a matching line.
type lineMatcher struct {
	pattern *regexp.Regexp
	format  func() frame.Format
	inFile  []byte // start of a line of the file
	line    []byte // start of a line of output, which may be several records
	matched string
}

// Write returns errMatched when a line matches.
func (m *lineMatcher) Write(p []byte) (int, error) {
	size := len(p)
	for {
		text, rest, ends := bytes.Cut(p, newline)
		format := m.format()
		limit := maxAwaited
		if format.Records() {
			limit = frame.BufferBytes // a record must be whole
		}
		m.inFile = appendLimited(m.inFile, text, limit)
		if !ends {
			return size, nil
		}
		part, partial := frame.Part(format, m.inFile)
		m.line = appendLimited(m.line, part, maxAwaited)
		m.inFile, p = m.inFile[:0], rest
		if partial {
			continue
		}
		line := bytes.TrimSuffix(m.line, []byte{'\r'})
		if m.pattern.Match(line) {
			m.matched = string(line[:min(len(line), frame.MaxShown)])
			return size, errMatched
		}
		m.line = m.line[:0]
	}
}

// appendLimited appends as much of more as fits into limit bytes.
func appendLimited(line, more []byte, limit int) []byte {
	return append(line, more[:min(len(more), max(0, limit-len(line)))]...)
}

// writeMissing discards the start of a line, as its rest is missing.
func (m *lineMatcher) writeMissing(int64, error) { m.inFile, m.line = m.inFile[:0], m.line[:0] }

// retract discards the start of a record, which will be shown again.
func (m *lineMatcher) retract(int64) { m.inFile = m.inFile[:0] }
