package logs

import (
	"log/slog"
	"math"
	"slices"
	"time"
)

// run drains the FIFOs until they are empty and no further check is requested.
func (c *Collector) run(w *wakeup) {
	c.setWakeup(w)
	for {
		c.clearDirty()
		c.drainFIFOs()
		switch c.state.Load() {
		case draining:
			// armed before goIdle, so that output since the last check causes an event
			c.armWatch(c.all()...)
			if c.goIdle() {
				return
			}
		case closing:
			c.flushReadAhead()
			c.state.Store(closed)
			c.release()
			return
		}
	}
}

// flushReadAhead writes what was read ahead when the collector is about to end, as the pipe no
// longer has it. It gives up after store.stallTimeout.
func (c *Collector) flushReadAhead() {
	buffered := func(s *stream) bool { return len(s.ahead.text()) > 0 }
	list := c.all()
	if !slices.ContainsFunc(list, buffered) {
		return
	}
	c.mu.Lock()
	w := newWakeup(nil) // the other one is stopped
	c.wakeup = w
	c.mu.Unlock()
	defer time.AfterFunc(c.store.stallTimeout, func() { close(w.stop) }).Stop()
	for _, s := range list {
		for buffered(s) {
			if !s.flushSome() {
				break
			}
		}
	}
}

// flushSome writes some of what was read ahead. It reports whether it did.
func (s *stream) flushSome() bool {
	peek := s.newPeekBuffer()
	defer peek.close()
	if !s.file.Drop && s.outlet == nil {
		slot := s.file.acquireSlot(&s.store.slots, s.stop)
		if slot == nil {
			return false
		}
		defer slot.release()
	}
	n, err := peek.buffered(), error(nil)
	if s.byLine() {
		n, _, err = s.takeLines(n, writePartial, &peek)
	} else {
		n, err = s.file.take(s.pipe(), n, &peek)
	}
	s.countWritten(n)
	return n > 0 && err == nil
}

// drainFIFOs moves bytes until the FIFOs are empty or the collector is closing.
func (c *Collector) drainFIFOs() {
	var yielded time.Time
	for more := true; more; {
		more = false
		list := c.inOrder()
		for _, s := range list {
			s.readableAt = 0
			streamMore, open := s.serve()
			if !open {
				return
			}
			if len(list) > 1 && !streamMore && s.bytes() == 0 {
				c.mu.Lock()
				c.rearm(s) // to learn which stream has output next
				c.mu.Unlock()
			}
			more = more || streamMore
		}
		if more = more || c.linger(); more {
			yielded = yield(yielded)
		}
	}
}

// yieldEvery is how often a goroutine yields while it moves bytes. Go's monitor (sysmon) takes the
// processor from a goroutine in a system call that has not been scheduled for 10 ms. It then polls
// all processors each 20 µs for a while.
const yieldEvery = 5 * time.Millisecond

// yield yields if yieldEvery has passed since last, and returns when it last did. For the zero time
// it only returns now.
func yield(last time.Time) time.Time {
	now := time.Now()
	switch {
	case last.IsZero():
		return now
	case now.Sub(last) < yieldEvery:
		return last
	}
	yieldProcessor()
	return now
}

// linger waits briefly for more output of a program that has just written much, or for the rest of
// a line. That is shorter than a wait in the poller. It reports whether there is more to do.
func (c *Collector) linger() bool {
	list := c.inOrder()
	var partial [streams]int64 // bytes of a partial line, in the order of list
	waits := false
	for i, s := range list {
		if s.byLine() {
			partial[i] = s.bytes()
			waits = waits || partial[i] > 0
		}
	}
	for i, s := range list {
		if s.linger(partial[i]) {
			return true
		}
	}
	return waits && c.awaitLineEnd(list, partial[:])
}

func (s *stream) linger(partial int64) bool {
	if s.total-s.lingered < busyBytes {
		return false
	}
	s.lingered = s.total
	if s.store.poller.noneWaits() {
		return false // let the pipe fill meanwhile
	}
	select {
	case s.store.lingerTokens <- struct{}{}:
		defer func() { <-s.store.lingerTokens }()
		return waitPipe(s.pipe(), max(partial-int64(len(s.ahead.text())), 0), lingerTime)
	default: // each waiting goroutine costs a thread
		return false
	}
}

// awaitLineEnd waits for the rest of partial lines; partial is how many bytes of each are in the
// pipes. After partialTimeout it no longer waits for a line. It reports whether there is something
// to do; false also if an event has come, or when closing.
//
// It polls, as events do not suffice: a write that waits for room in a non-empty pipe causes none
// before it ends.
func (c *Collector) awaitLineEnd(list []*stream, partial []int64) bool {
	for i, s := range list {
		if partial[i] > 0 {
			s.notePartial(partial[i])
		}
	}
	for i, s := range list {
		if partial[i] == 0 {
			c.armWatch(s)
		}
	}
	c.store.poller.reportBlocked(c.wakeup)
	for pause := time.Millisecond; ; pause *= 2 {
		due := false
		for i, s := range list {
			due = partial[i] > 0 && s.partialDue() || due
		}
		if due {
			return true
		}
		if c.state.Load() != draining || !c.awaitOutput(pause) {
			return false
		}
		for i, s := range list {
			if s.bytes() != partial[i] {
				return true
			}
		}
	}
}

// applyPending applies Reopen and SetOptions. It also requests a check, before the next byte is
// written, that the path still names the open file.
func (s *stream) applyPending() (err error) {
	if s.reopen.Load() {
		_, err = s.fileOp(0, func() error { s.applyOptions(); return nil })
	}
	s.file.requestCheck()
	return err
}

// applyOptions applies Reopen and SetOptions.
func (c *Collector) applyOptions() {
	if !c.reopen.Swap(false) {
		return
	}
	before := c.files()
	for _, f := range before {
		f.close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chooseFiles()
	for _, f := range before {
		if !slices.ContainsFunc(c.streams, func(s *stream) bool { return s.file == f }) {
			c.store.paths.endWriting(&f.segments)
		}
	}
}

// chooseFiles gives each stream its file by the options. The caller holds mu.
func (c *Collector) chooseFiles() {
	first := c.streams[0]
	if first.file == nil || first.file.Sink != c.options.Sink || first.file.Address != c.options.Address {
		c.outlet = c.outlet.replace(c.store.newSink(c.options))
	}
	if first.file == nil {
		first.file = c.store.initFile(&c.inline.file, c.options)
	} else {
		first.file = c.fileFor(first.file, c.options)
	}
	for _, s := range c.streams[1:] {
		switch own := c.options.stderrSetting(); {
		case own == nil:
			s.file = first.file
		case s.file == first.file:
			s.file = c.store.initFile(new(file), own)
		default:
			s.file = c.fileFor(s.file, own)
		}
	}
}

// fileFor returns f with the options o, or another file if o names another path.
func (c *Collector) fileFor(f *file, o *setting) *file {
	if f == nil || o.Path != f.Path {
		return c.store.initFile(new(file), o)
	}
	f.otherFormat = f.otherFormat || o.Format != f.Format
	f.setting = o
	f.segments.setOptions(o.Options)
	return f
}

// files returns the files of the streams, each once.
func (c *Collector) files() []*file {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*file
	for _, s := range c.streams {
		if !slices.Contains(list, s.file) {
			list = append(list, s.file)
		}
	}
	return list
}

// nextLimit returns how many bytes may be moved at a time, up to the next barrier, and whether a
// line without a newline ends there. The limit is 0 while the other stream has not reached a
// barrier that this one has passed.
//
// New barriers get their position here, after what is in the pipe, as everything taken is in the
// file now.
func (s *stream) nextLimit() (limit int64, end ending) {
	c := s.Collector
	c.mu.Lock()
	defer c.mu.Unlock()
	limit = math.MaxInt64
	for s.beginLocating() { // repeatedly: more may be added meanwhile
		c.mu.Unlock()
		end := s.total + s.bytes() // without mu, as it may wait
		c.mu.Lock()
		s.endLocating(end)
		c.removeSilentRuns()
	}
	for i := range c.barriers {
		m := &c.barriers[i]
		at := &m.at[s.which]
		if *at == passed {
			limit = 0
			continue
		}
		ahead := *at - s.total
		if ahead <= 0 && m.endsLine() {
			s.endDroppedLine()
			s.setLine(atBeginning)
		}
		if ahead > 0 && ahead < limit {
			limit, end = ahead, writePartial
		}
		if ahead == limit && m.endsLine() {
			end = lineComplete
		}
	}
	return limit, end
}

// beginLocating sets new barriers to locating and reports whether there are any. The caller holds
// mu.
func (s *stream) beginLocating() (found bool) {
	for i := range s.barriers {
		if at := &s.barriers[i].at[s.which]; *at == unlocated {
			*at, found = locating, true
		}
	}
	return found
}

// endLocating sets the position of barriers that are locating. The caller holds mu.
func (s *stream) endLocating(end int64) {
	for i := range s.barriers {
		if at := &s.barriers[i].at[s.which]; *at == locating {
			*at = end
		}
	}
}

// barrierReached passes the barriers up to s.total, or all with a position if the FIFO was found
// empty. It calls reached of those that all streams have passed. It reports whether it passed any.
func (s *stream) barrierReached(empty bool) bool {
	c := s.Collector
	c.mu.Lock()
	passedAny := false
	for i := range c.barriers {
		at := &c.barriers[i].at[s.which]
		if *at == unlocated || *at > s.total && !empty {
			break
		}
		passedAny = passedAny || *at != passed
		*at = passed
	}
	n := 0
	for n < len(c.barriers) && !slices.ContainsFunc(c.streams, func(s *stream) bool { return s.pipe() >= 0 && c.barriers[n].at[s.which] != passed }) {
		n++
	}
	complete := c.barriers[:n:n]
	if c.barriers = c.barriers[n:]; len(c.barriers) == 0 {
		c.barriers = nil
	}
	c.mu.Unlock()
	for _, m := range complete {
		m.reached()
	}
	return passedAny
}

// countWritten counts n more bytes in the file and notifies watchers.
func (s *stream) countWritten(n int64) {
	if n == 0 {
		return
	}
	s.total += n
	if s.silent.Load() {
		s.reportRunStart()
	}
	s.notifyWatchers()
}

// reportRunStart reports where the output of the present run begins, when it prints for the first
// time.
func (c *Collector) reportRunStart() {
	c.silent.Store(false)
	segs, _ := c.segments()
	begin, _ := segs.lastRun()
	if c.store.onFirstOutput == nil || begin == unknown {
		return
	}
	c.store.onFirstOutput(c.runStart(Stdout, segs.cursor(begin)))
}

func (c *Collector) notifyWatchers() {
	c.mu.Lock()
	watchers := c.watchers
	c.mu.Unlock()
	for _, f := range watchers {
		(*f)()
	}
}

// reportResult logs what has changed; err is the error of the last turn. The caller holds no slot,
// as writing superd's log may stall, too.
func (s *stream) reportResult(err error) {
	switch {
	case s.state.Load() == closing:
		return
	case err != nil:
		s.beginOutage(err)
		s.failBarriers(err)
		if o := s.ensureErrors(); o.failures == 0 {
			o.since = s.store.now().UnixNano()
			if s.file.Drop {
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
			s.log().Info("output gets into its log again", "after", time.Duration(s.store.now().UnixNano()-s.since))
		}
		s.endOutage()
	}
	if rotationErr := s.file.rotationError; (rotationErr != nil) != s.rotationLogged {
		if s.ensureErrors().rotationLogged = rotationErr != nil; s.rotationLogged {
			s.log().Warn("log file not as configured", "error", rotationErr)
		}
	}
}

func (s *stream) log() *slog.Logger { return s.logOf(s.file.setting) }

func (c *Collector) logOf(o *setting) *slog.Logger {
	return c.store.log.With("instance", c.name, "log", o.destination())
}
