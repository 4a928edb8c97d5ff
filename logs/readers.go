package logs

import (
	"context"
	"io"
	"regexp"

	"superd/logs/follow"
	"superd/logs/segment"
	"superd/loop"
)

// Log returns the log of a stream, for readers; nil if the stream has none of its own. Safe for
// concurrent use.
func (c *Collector) Log(which Stream) follow.Log {
	if s := c.stream(which); s != nil {
		return s
	}
	return nil
}

// Follow writes the last lines of the output to w: see [follow.Lines]. It must not run on the loop.
func (c *Collector) Follow(ctx context.Context, lines int, goOn bool, w io.Writer) error {
	return follow.Lines(ctx, c.Log(Stdout), lines, goOn, w)
}

// AwaitLine calls done on the loop with the first line of the present run's output that matches the
// pattern, unless the scope is closed before: see [follow.AwaitLine]. Lines that the run wrote
// before the call count, from [Collector.BeginRun] on. from is for a run that began before this
// collector: where in the log the run begins; nil: the log had none of its output.
func (c *Collector) AwaitLine(scope *loop.Scope, which Stream, pattern *regexp.Regexp, from *segment.Cursor, done func(line string, err error)) {
	ctx, cancel := context.WithCancel(context.Background())
	scope.Defer(cancel)
	report := func(line string, err error) { scope.Post(func() { done(line, err) }) }
	// The barrier of BeginRun was added before, so it is reached first: then the run's start
	// is known.
	c.addBarrier(runBarrier, func() {
		if log := c.Log(which); log != nil {
			go follow.AwaitLine(ctx, log, pattern, from, c.store.retryDelay, report)
		}
	})
}

// Segments implements [follow.Log].
func (s *stream) Segments() (segs *segment.Log, final bool) {
	c := s.c
	c.shared.Lock()
	defer c.shared.Unlock()
	first := c.shared.streams[0].file
	switch {
	case s.which == Stdout:
		return first.Log(), c.shared.released
	case s.file != first:
		return s.file.Log(), c.shared.released
	}
	return nil, c.shared.released || c.shared.options.stderrSetting() == nil
}

// Unwritten implements [follow.Log].
func (s *stream) Unwritten() *segment.Log {
	o := s.c.setting()
	return segment.New(o.StderrPath, &o.fileOptions)
}

// Program implements [follow.Log].
func (s *stream) Program() string { return s.c.setting().Program }

// OfStderr implements [follow.Log].
func (s *stream) OfStderr() bool { return s.which == Stderr }

// MinFree implements [follow.Log].
func (s *stream) MinFree() int64 { return s.c.setting().MinFree }

// Readers implements [follow.Log].
func (s *stream) Readers() *follow.Readers { return &s.c.store.readers }

// Destination implements [follow.Log].
func (s *stream) Destination() string {
	if o := s.c.setting(); o.Sink != "" {
		return o.destination()
	}
	return ""
}

// OutageText implements [follow.Log].
func (s *stream) OutageText() string {
	if o := s.c.outage.Load(); o != nil {
		return o.text(s.c.store.now())
	}
	return ""
}

// RecentLine implements [follow.Log].
func (s *stream) RecentLine() (line string, ok bool) {
	if s.c.setting().Sink == "" {
		return "", false
	}
	return s.c.recentLine(), true
}

// Name implements [follow.Log].
func (s *stream) Name() string { return s.c.name }

// Notify implements [follow.Log].
func (s *stream) Notify(f func()) (cancel func()) { return s.c.Notify(f) }
