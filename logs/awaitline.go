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
	awaitBuffer = 4 << 10  // bytes for each AwaitLine; a thousand may be active
	maxAwaited  = 16 << 10 // bytes of the start of a line that are matched
)

// AwaitLine calls done on the loop with the first line of the present run's output that matches the
// pattern, unless the scope is closed before. It reads the log of the stream. done gets at most
// 1024 bytes of the line, as written.
//
// Lines that the run wrote before the call count, from [Collector.BeginRun] on. A line is complete
// with its newline. Of a longer one the first 16 KiB are matched. from is for a run that began
// before this collector: where in the log the run begins; nil: the log had none of its output.
//
// The output is read from the log file, off the loop. While that fails, done is called with an
// error after each attempt, at growing intervals of up to 2 s. In a device no line ever matches.
func (c *Collector) AwaitLine(scope *loop.Scope, which Stream, pattern *regexp.Regexp, from *Cursor, done func(line string, err error)) {
	ctx, cancel := context.WithCancel(context.Background())
	scope.Defer(cancel)
	// The barrier of BeginRun was added before, so it is reached first: then the run's start
	// is known.
	c.addBarrier(runBarrier, func() {
		go c.awaitLine(ctx, which, pattern, from, func(line string, err error) { scope.Post(func() { done(line, err) }) })
	})
}

// awaitLine reads until a line matches, the collector is closed or ctx ends.
func (c *Collector) awaitLine(ctx context.Context, which Stream, pattern *regexp.Regexp, begin *Cursor, report func(line string, err error)) {
	wake := make(chan struct{}, 1)
	defer c.Notify(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})()
	m := &lineMatcher{pattern: pattern}
	f := &follower{ctx: ctx, readers: &c.store.readers, collector: c, which: which, w: m, buffer: make([]byte, awaitBuffer), lineEnded: true}
	m.format = func() Format { return f.segments.outputEnd().format }
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
		report("", fmt.Errorf("await line of %s: %w", c.name, err))
		select {
		case <-time.After(c.store.retryDelay(attempt)):
		case <-ctx.Done():
			return
		}
	}
}

// seekRun sets the position to the start of the present run. begin is that cursor if the run began
// before this collector.
func (f *follower) seekRun(begin *Cursor) error {
	if begin != nil {
		return f.read(func() error {
			f.position, _ = f.segments.locate(*begin)
			return nil
		})
	}
	from, _ := f.segments.lastRun()
	if f.position = from; from == unknown {
		f.position = f.segments.first()
	}
	return nil
}

var errMatched = errors.New("a line matches")

// A lineMatcher is a writer of output that searches for a matching line.
type lineMatcher struct {
	pattern *regexp.Regexp
	format  func() Format
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
		if format.records() {
			limit = recordBytes // a record must be whole
		}
		m.inFile = appendLimited(m.inFile, text, limit)
		if !ends {
			return size, nil
		}
		part, partial := partIn(format, m.inFile)
		m.line = appendLimited(m.line, part, maxAwaited)
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

// appendLimited appends as much of more as fits into limit bytes.
func appendLimited(line, more []byte, limit int) []byte {
	return append(line, more[:min(len(more), max(0, limit-len(line)))]...)
}

// writeMissing discards the start of a line, as its rest is missing.
func (m *lineMatcher) writeMissing(int64, error) { m.inFile, m.line = m.inFile[:0], m.line[:0] }

// retract discards the start of a record, which will be shown again.
func (m *lineMatcher) retract(int64) { m.inFile = m.inFile[:0] }
