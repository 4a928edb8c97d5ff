package logs

import (
	"log/slog"
	"math"
	"slices"
	"time"
)

// run drains the FIFOs until they are empty and nobody wants another look.
func (c *Capture) run(b *bell) {
	c.begin(b)
	for {
		c.hear()
		c.empty()
		switch c.state.Load() {
		case draining:
			c.listen(c.all()...) // first: what has come since the last look has to be known before anybody rests
			if c.retire() {
				return
			}
		case closing:
			c.state.Store(closed)
			c.release()
			return
		}
	}
}

// empty moves bytes until the FIFOs are empty or the capture is closing.
func (c *Capture) empty() {
	var yielded time.Time
	for more := true; more; {
		more = false
		list := c.inOrder()
		for _, s := range list {
			s.turnAt = 0
			again, open := s.serve()
			if !open {
				return
			}
			if len(list) > 1 && !again && s.bytes() == 0 {
				c.mu.Lock()
				c.order(s) // which of the two is next to have some
				c.mu.Unlock()
			}
			more = more || again
		}
		if more = more || c.linger(); more {
			yielded = yield(yielded)
		}
	}
}

// yieldEvery is how often a goroutine yields that goes on moving bytes. Go's monitor takes the processor away from one that has not been scheduled
// for 10 ms when it finds it in a system call, and then looks at all processors every 20 µs for a while.
const yieldEvery = 5 * time.Millisecond

// yield yields if that is due, and returns when it has done so last; at first, when there is no such time, now.
func yield(last time.Time) time.Time {
	now := time.Now()
	switch {
	case last.IsZero():
		return now
	case now.Sub(last) < yieldEvery:
		return last
	}
	giveUpProcessor()
	return now
}

// linger waits a moment for more from a program that has just written much, rather than wait for it with the
// others, which takes longer than the program does; and for the rest of a line. It reports whether there is more to do.
func (c *Capture) linger() bool {
	list := c.inOrder()
	var begun [streams]int64 // bytes of a line that has no end yet, in the order of the list
	waits := false
	for i, s := range list {
		if s.byLine() {
			begun[i] = s.bytes()
			waits = waits || begun[i] > 0
		}
	}
	for i, s := range list {
		if s.lingerShortly(begun[i]) {
			return true
		}
	}
	return waits && c.awaitRest(list, begun[:])
}

func (s *stream) lingerShortly(begun int64) bool {
	if s.total-s.lingered < lingerBytes {
		return false
	}
	s.lingered = s.total
	if s.store.poller.short() {
		return false // its pipe may as well fill meanwhile
	}
	select {
	case s.store.lingering <- struct{}{}:
		defer func() { <-s.store.lingering }()
		return waitPipe(s.pipe(), begun, lingerTime)
	default: // threads are dear
		return false
	}
}

// awaitRest waits for the rest of lines of which so many bytes are in the pipes; what doesn't come in time is not waited for any
// more. It reports whether there is something to do: false also when an event has come, or closing.
//
// It can't rely on events alone: a write that has to wait for room in a pipe that was not empty makes none before it has ended.
func (c *Capture) awaitRest(list []*stream, begun []int64) bool {
	for i, s := range list {
		if begun[i] > 0 && (s.rest == nil || s.rest.at != s.total) {
			s.meet().rest = &unfinished{at: s.total, since: time.Now()}
		}
	}
	for i, s := range list {
		if begun[i] == 0 {
			c.listen(s)
		}
	}
	c.store.poller.giveWay(c.bell)
	for pause := time.Millisecond; ; pause *= 2 {
		due := false
		for i, s := range list {
			if begun[i] > 0 && time.Since(s.rest.since) >= restPatience {
				s.rest.due, due = true, true
			}
		}
		if due {
			return true
		}
		if c.state.Load() != draining || !c.sleep(pause) {
			return false
		}
		for i, s := range list {
			if s.bytes() != begun[i] {
				return true
			}
		}
	}
}

// An unfinished line is one that has no end yet.
type unfinished struct {
	at    int64 // where it begins: bytes of output before it
	since time.Time
	due   bool // it is written as far as it is there
}

// check does what Reopen and SetOptions asked for, and has it looked before the next byte whether the file is still the one that its path names.
func (c *stream) check() (err error) {
	if c.reopen.Load() {
		_, err = c.do(0, func() error { c.settle(); return nil })
	}
	c.file.doubt()
	return err
}

// settle does what Reopen and SetOptions asked for.
func (c *Capture) settle() {
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
			c.store.paths.retire(&f.chain)
		}
	}
}

// chooseFiles gives each stream the file that the options have for it. The caller holds mu.
func (c *Capture) chooseFiles() {
	first := c.streams[0]
	if first.file == nil || first.file.Sink != c.options.Sink || first.file.Address != c.options.Address {
		c.outlet = c.outlet.next(c.store.newSink(c.options))
	}
	if first.file == nil {
		first.file = c.store.begin(&c.own.file, c.options)
	} else {
		first.file = c.fileFor(first.file, c.options)
	}
	for _, s := range c.streams[1:] {
		switch own := c.options.ofStderr(); {
		case own == nil:
			s.file = first.file
		case s.file == first.file:
			s.file = c.store.begin(new(file), own)
		default:
			s.file = c.fileFor(s.file, own)
		}
	}
}

// fileFor returns the file that has been written to so far with other options, or another one where these name another.
func (c *Capture) fileFor(f *file, o *setting) *file {
	if f == nil || o.Path != f.Path {
		return c.store.begin(new(file), o)
	}
	f.foreign = f.foreign || o.Format != f.Format
	f.setting = o
	f.chain.setFormat(o.Format)
	return f
}

// files returns the files of the streams, each once.
func (c *Capture) files() []*file {
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

// aim returns how many bytes may be moved at a time: up to the next mark, and what a line is that has no end there; 0 while the other
// stream has not come to a mark that this one has passed. New marks get their place here, where everything taken is in the file: after
// what is in the pipe.
func (s *stream) aim() (limit int64, end ending) {
	c := s.Capture
	c.mu.Lock()
	defer c.mu.Unlock()
	limit = math.MaxInt64
	for s.seekMarks() { // again: there may be more by now
		c.mu.Unlock()
		end := s.total + s.bytes() // without mu, as it may wait
		c.mu.Lock()
		s.placeMarks(end)
		c.forgetSilentRuns()
	}
	for i := range c.marks {
		m := &c.marks[i]
		at := &m.at[s.which]
		if *at == passed {
			limit = 0
			continue
		}
		ahead := *at - s.total
		if ahead <= 0 && m.endsLine() {
			s.endLostLine()
			s.setLine(atBeginning)
		}
		if ahead > 0 && ahead < limit {
			limit, end = ahead, goesOn
		}
		if ahead == limit && m.endsLine() {
			end = ended
		}
	}
	return limit, end
}

// seekMarks reports whether there are new marks, which are to get their place then. The caller holds mu.
func (s *stream) seekMarks() (some bool) {
	for i := range s.marks {
		if at := &s.marks[i].at[s.which]; *at == nowhere {
			*at, some = sought, true
		}
	}
	return some
}

// placeMarks gives those their place that were sought. The caller holds mu.
func (s *stream) placeMarks(end int64) {
	for i := range s.marks {
		if at := &s.marks[i].at[s.which]; *at == sought {
			*at = end
		}
	}
}

// reached passes the marks up to here: those that have got their place, if the FIFO is found empty. It calls those that all streams have
// passed, and reports whether there were any to pass.
func (s *stream) reached(empty bool) bool {
	c := s.Capture
	c.mu.Lock()
	some := false
	for i := range c.marks {
		at := &c.marks[i].at[s.which]
		if *at == nowhere || *at > s.total && !empty {
			break
		}
		some = some || *at != passed
		*at = passed
	}
	n := 0
	for n < len(c.marks) && !slices.ContainsFunc(c.streams, func(s *stream) bool { return s.pipe() >= 0 && c.marks[n].at[s.which] != passed }) {
		n++
	}
	complete := c.marks[:n:n]
	if c.marks = c.marks[n:]; len(c.marks) == 0 {
		c.marks = nil
	}
	c.mu.Unlock()
	for _, m := range complete {
		m.reached()
	}
	return some
}

// wrote tells those who want to know that n bytes more are in the file.
func (c *stream) wrote(n int64) {
	if n == 0 {
		return
	}
	c.total += n
	if c.silent.Load() {
		c.tellRun()
	}
	c.announce()
}

// tellRun tells where the output of the run begins that has just printed something.
func (c *Capture) tellRun() {
	c.silent.Store(false)
	ch, _ := c.chain()
	begin, _ := ch.lastRun()
	if c.store.tellRun == nil || begin == unknown {
		return
	}
	c.store.tellRun(c.runBegin(Stdout, ch.cursor(begin)))
}

// announce tells those who want to know that the file has grown.
func (c *Capture) announce() {
	c.mu.Lock()
	watchers := c.watchers
	c.mu.Unlock()
	for _, f := range watchers {
		(*f)()
	}
}

// report tells the log what has changed: err is that of the last turn. It holds no slot, as the log may stall, too.
func (c *stream) report(err error) {
	switch {
	case c.state.Load() == closing:
		return
	case err != nil:
		c.fail(err)
		c.failMarks(err)
		if o := c.meet(); o.failures == 0 {
			o.since = c.store.now().UnixNano()
			if c.file.Drop {
				c.log().Warn("output does not get into its log, it is dropped", "error", err)
			} else {
				c.log().Warn("output does not get into its log, the program has to wait", "error", err)
			}
		}
		c.failures++
	case c.failing && c.loss.bytes == 0: // else nothing has come that could have been written
		if c.failures > 0 {
			c.failures = 0
			c.log().Info("output gets into its log again", "after", time.Duration(c.store.now().UnixNano()-c.since))
		}
		c.recover()
	}
	if trouble := c.file.trouble; (trouble != nil) != c.troubled {
		if c.meet().troubled = trouble != nil; c.troubled {
			c.log().Warn("log file is not as it should be", "error", trouble)
		}
	}
}

func (c *stream) log() *slog.Logger { return c.logOf(c.file.setting) }

func (c *Capture) logOf(o *setting) *slog.Logger {
	return c.store.log.With("instance", c.name, "log", o.where())
}

// pause waits before a failed write is tried again, or until more comes of the other stream. It reports whether there is a point: false
// when closing.
func (c *stream) pause() bool {
	c.store.poller.giveWay(c.bell)
	timer := time.NewTimer(c.store.pause(int(c.failures) - 1))
	defer timer.Stop()
	for {
		c.hear()
		for _, s := range c.inOrder() {
			if c.mayOvertake(s) {
				c.listen(s)
			}
		}
		select {
		case <-timer.C:
			return true
		case <-c.news:
			if c.otherWaits() || c.lastTry() {
				return true
			}
		case <-c.quit:
			return false
		}
	}
}

// hear has what comes be news again.
func (c *Capture) hear() { c.state.CompareAndSwap(dirty, draining) }

// lastTry reports whether somebody wants to know whether writing fails now, and not only before.
func (s *stream) lastTry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.marks, func(m mark) bool { return m.failed != nil && m.at[s.which] == nowhere })
}

// mayOvertake reports whether what s has can be written while c's file fails: it has another one, which is not known to, and need not wait for c
// at a mark.
func (c *stream) mayOvertake(s *stream) bool { return s.file != c.file && s.failures == 0 && !s.held() }

// held reports whether the other stream has to come to a mark that this one has passed.
func (s *stream) held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.marks, func(m mark) bool { return m.at[s.which] == passed })
}

// otherWaits reports whether something of the other stream can be written.
func (c *stream) otherWaits() bool {
	return slices.ContainsFunc(c.all(), func(s *stream) bool { return c.mayOvertake(s) && s.bytes() > 0 })
}

// sleep waits, until there is news at the most. It reports false when closing.
func (c *Capture) sleep(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.news:
		return true
	case <-c.quit:
		return false
	}
}
