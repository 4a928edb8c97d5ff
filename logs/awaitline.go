package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"superd/loop"
)

const (
	awaitBuffer = 4 << 10  // of each who waits for a line; a thousand may do so at a time
	maxAwaited  = 16 << 10 // how much of the beginning of a line is matched
)

// AwaitLine has done called, on the loop, with the first line of the present run's output, as the log of a stream has it, that matches the pattern, unless the
// scope is closed before: with at most 1024 bytes of it, as they were written. Lines that the run wrote before the call count, from
// [Capture.BeginRun] on. A line is complete with its newline, and of a longer one the first 16 KiB are matched. If the run began
// before this capture, from is where in the log that is; nil: nothing of it was there.
//
// The output is read from the log file, off the loop. While it can't be read, done is called with an error each time that was tried, every 2 s at
// last. Of a device no line ever matches.
func (c *Capture) AwaitLine(scope *loop.Scope, which Stream, pattern *regexp.Regexp, from *Cursor, done func(line string, err error)) {
	ctx, cancel := context.WithCancel(context.Background())
	scope.Defer(cancel)
	// The mark of BeginRun was made before, so it is reached before: then it is known where the run begins.
	c.mark(ofRun, func() {
		go c.awaitLine(ctx, which, pattern, from, func(line string, err error) { scope.Post(func() { done(line, err) }) })
	})
}

// awaitLine reads until a line matches, the capture is closed or ctx ends.
func (c *Capture) awaitLine(ctx context.Context, which Stream, pattern *regexp.Regexp, begin *Cursor, tell func(line string, err error)) {
	wake := make(chan struct{}, 1)
	defer c.Notify(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})()
	m := &lineMatcher{pattern: pattern}
	f := &follower{ctx: ctx, readers: &c.store.readers, capture: c, which: which, w: m, buffer: make([]byte, awaitBuffer), lineEnded: true}
	m.format = func() Format { return f.chain.newest().format }
	placed := false
	place := func(f *follower) error {
		err := f.placeRun(begin)
		placed = err == nil
		return err
	}
	for attempt := 0; ; attempt++ {
		var err error
		if placed {
			err = f.goOn(ctx, true, wake)
		} else {
			err = f.run(ctx, true, wake, place)
		}
		f.leave()
		switch {
		case errors.Is(err, errMatched):
			tell(m.matched, nil)
			return
		case err == nil || ctx.Err() != nil:
			return
		}
		tell("", fmt.Errorf("await line of %s: %w", c.name, err))
		select {
		case <-time.After(c.store.pause(attempt)):
		case <-ctx.Done():
			return
		}
	}
}

// placeRun sets the position to where the present run begins: at begin, if it began before this capture.
func (f *follower) placeRun(begin *Cursor) error {
	if begin != nil {
		return f.read(func() error {
			f.position, _ = f.chain.locate(*begin)
			return nil
		})
	}
	from, _ := f.chain.lastRun()
	if f.position = from; from == unknown {
		f.position = f.chain.first()
	}
	return nil
}

var errMatched = errors.New("a line matches")

// A lineMatcher takes output as a writer and looks for a line.
type lineMatcher struct {
	pattern *regexp.Regexp
	format  func() Format
	inFile  []byte // what has come of a line of the file, and is kept
	line    []byte // what has come of a line of output: of records that go on it has several
	matched string
}

// Write returns errMatched at the line that matches.
func (m *lineMatcher) Write(p []byte) (int, error) {
	size := len(p)
	for {
		text, rest, ends := bytes.Cut(p, newline)
		format := m.format()
		most := maxAwaited
		if format.records() {
			most = recordBytes // a record must be whole
		}
		m.inFile = keep(m.inFile, text, most)
		if !ends {
			return size, nil
		}
		part, partial := partIn(format, m.inFile)
		m.line = keep(m.line, part, maxAwaited)
		m.inFile, p = m.inFile[:0], rest
		if partial {
			continue
		}
		line := bytes.TrimSuffix(m.line, []byte{'\r'})
		if m.pattern.Match(line) {
			m.matched = string(line[:min(len(line), maxLineBytes)])
			return size, errMatched
		}
		m.line = m.line[:0]
	}
}

// keep appends as much of more as has room in most.
func keep(line, more []byte, most int) []byte {
	return append(line, more[:min(len(more), max(0, most-len(line)))]...)
}

// gap drops what has come of a line: its rest is missing.
func (m *lineMatcher) gap(int64, error) { m.inFile, m.line = m.inFile[:0], m.line[:0] }

// retract drops what has come of a record that comes once more.
func (m *lineMatcher) retract(int64) { m.inFile = m.inFile[:0] }
