package logs

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"superd/logs/segment"
)

// countWritten counts n more bytes in the file and notifies watchers.
func (s *stream) countWritten(n int64) {
	if n == 0 {
		return
	}
	s.total += n
	s.c.written.Add(n)
	if s.c.silent.Load() {
		s.c.reportRunStart()
	}
	s.c.notifyWatchers()
}

// reportRunStart reports where the output of the present run begins, when it prints for the first
// time.
func (c *Collector) reportRunStart() {
	c.silent.Store(false)
	segs, _ := c.segments()
	begin, _ := segs.LastRun()
	if c.store.onFirstOutput == nil || begin == segment.Unknown {
		return
	}
	c.store.onFirstOutput(c.runStart(Stdout, segs.Cursor(begin)))
}

func (c *Collector) notifyWatchers() {
	c.show()
	c.shared.Lock()
	watchers := c.shared.watching()
	c.shared.Unlock()
	for _, f := range watchers {
		(*f)()
	}
}

// reportResult logs what has changed; err is the error of the last turn. The caller holds no slot,
// as writing superd's log may stall, too.
func (s *stream) reportResult(err error) {
	switch {
	case s.c.state.Load() == closing:
		return
	case err != nil:
		s.beginOutage(err)
		s.failBarriers(err)
		if o := s.ensureErrors(); o.failures == 0 {
			o.since = s.c.store.now().UnixNano()
			if s.file.set.Drop {
				s.log().Warn("output does not get into its log: it is dropped", "error", err)
			} else {
				s.log().Warn("output does not get into its log: the program blocks when its pipe is full", "error", err)
			}
		}
		s.failures++
	case s.failing && s.dropped.bytes == 0:
		// nothing was written since a drop, if there was one
		if s.failures > 0 {
			s.failures = 0
			s.log().Info("output gets into its log again", "after", time.Duration(s.c.store.now().UnixNano()-s.since))
		}
		s.endOutage()
	}
	if rotationErr := s.file.RotationError(); (rotationErr != nil) != s.rotationLogged {
		if s.ensureErrors().rotationLogged = rotationErr != nil; s.rotationLogged {
			s.log().Warn("log file not as configured", "error", rotationErr)
		}
	}
}

func (s *stream) log() *slog.Logger { return s.c.logOf(s.file.set) }

func (c *Collector) logOf(o *setting) *slog.Logger {
	return c.store.log.With("instance", c.name, "log", o.destination())
}

// runStart returns the start of the present run in the log of a stream.
func (c *Collector) runStart(which Stream, at segment.Cursor) RunStart {
	c.shared.Lock()
	defer c.shared.Unlock()
	return RunStart{Program: c.shared.options.Program, Instance: c.name, Run: c.shared.runID, Stream: which, At: at}
}

func (s *stream) beginOutage(cause error) {
	s.ensureErrors().failing = true
	before := s.c.outage.Load()
	if before != nil && before.Reason == cause.Error() {
		return
	}
	s.c.shared.Lock()
	o := &Outage{Program: s.c.shared.options.Program, Instance: s.c.name, Run: s.c.shared.runID, Log: s.file.set.destination(), Reason: cause.Error(), Dropping: s.file.set.Drop}
	s.c.shared.Unlock()
	if o.Since = s.c.store.now(); before != nil {
		o.Since = before.Since
	}
	s.c.outage.Store(o)
	if before == nil && s.c.store.onOutage != nil {
		s.c.store.onOutage(*o, false)
	}
}

func (s *stream) endOutage() {
	s.failing = false
	if slices.ContainsFunc(piped(s.c.all()), func(other *stream) bool { return other.failing }) {
		return
	}
	if o := s.c.outage.Swap(nil); o != nil && s.c.store.onOutage != nil {
		s.c.store.onOutage(*o, true)
	}
}

func (o *Outage) text(now time.Time) string {
	meanwhile := "it stays in the program's pipe"
	if o.Dropping {
		meanwhile = "it is dropped"
	}
	return fmt.Sprintf("output has not got into this log since %s, %s: %s", o.Since.In(now.Location()).Format(time.DateTime), meanwhile, o.Reason)
}
