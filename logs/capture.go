package logs

import (
	"slices"
	"sync"
	"sync/atomic"

	"superd/loop"
)

// The state of a capture's drain. The loop and the draining goroutine change it by compare-and-swap.
const (
	idle     uint32 = iota // no goroutine; the next event starts one
	draining               // a goroutine moves bytes
	dirty                  // so it does, and more may have come since: it looks again before it ends
	closing                // the goroutine is to end and close what the capture owns
	closed
)

// A Capture brings the output of one program into its log files. Its methods are for the loop, except where they say
// otherwise. One goroutine drains both streams, so that their lines come into one file in the order in which they were written,
// as far as that can be known.
type Capture struct {
	store  *Store
	scope  *loop.Scope
	held   loop.Link // by which the scope owns it
	name   string
	*bell                        // of the goroutine; nil without one. Its own; others hold mu
	turns  uint64                // of FIFOs that became readable, where there are two; the draining goroutine's own
	drops  atomic.Pointer[drops] // nil: nothing was dropped
	outage atomic.Pointer[Outage]
	outlet *outlet // nil: files. The draining goroutine's own, but for what its comment says

	own      parts
	options  *setting  // guarded by mu, as the following; never changed, but replaced
	streams  []*stream // never changed, but replaced: stdout, and stderr if it was ever apart
	runID    string    // of the run whose output comes
	marks    []mark
	watchers []*func()

	mu       sync.Mutex
	watch    // of the FIFOs
	state    atomic.Uint32
	silent   atomic.Bool          // a run has begun and has printed nothing yet
	resumed  atomic.Bool          // an earlier superd has begun the run with which it begins
	reopen   atomic.Bool          // the file is to be opened anew, with options
	over     bool                 // the scope is closed; loop only
	owing    bool                 // its log is to have a record of what an earlier superd has dropped; loop only
	unplaced [streams]atomic.Bool // a run has printed nothing yet into the log of a stream, and where it begins there is to be told before it has
	newRun   [streams]bool        // no process of it has opened the file that it writes by itself; guarded by mu, as the next
	released bool                 // descriptors are closed; nothing follows
}

// parts are what a capture begins with, and most have nothing else until they end: so these are one object, as objects that are small and stay keep a page
// each from being given back. What takes their place later is made when it is needed.
type parts struct {
	setting setting
	streams [1]*stream
	stdout  stream
	file    file
}

// A mark is a place in the output that something waits for.
type mark struct {
	kind    markKind
	reached func()         // on the draining goroutine
	failed  func(error)    // when writing has failed since the mark has its place: reached is not called then; nil: it is waited for
	at      [streams]int64 // how many bytes of each stream lie before it; or one of the values below
}

// A markKind tells what a mark is for.
type markKind int

const (
	ofOutput markKind = iota // all that was written before it
	ofRun                    // what a run has written
	runBegins
	runEnds
)

// endsLine reports whether a line that has no newline before the mark is complete.
func (m *mark) endsLine() bool { return m.kind == runBegins || m.kind == runEnds }

// Where a mark is in a stream.
const (
	nowhere = -1 // that is not known yet
	passed  = -2 // all before it is in the file
	sought  = -3 // the draining goroutine is finding that out
)

// Name returns the name given to NewCapture. From any goroutine.
func (c *Capture) Name() string { return c.name }

// Path returns the path of the log file. From any goroutine.
func (c *Capture) Path() string { return c.setting().Path }

// StderrPath returns the path of the log file of standard error, "" where it has none of its own. From any goroutine.
func (c *Capture) StderrPath() string { return c.setting().StderrPath }

// Apart returns the streams that have log files, each its own. From any goroutine.
func (c *Capture) Apart() []Stream {
	if c.setting().ofStderr() != nil {
		return []Stream{Stdout, Stderr}
	}
	return []Stream{Stdout}
}

// Sink returns where the output goes instead of a file. From any goroutine.
func (c *Capture) Sink() Sink { return c.setting().Sink }

// Files returns the paths of the log files. From any goroutine.
func (c *Capture) Files() []string { return c.setting().files() }

// setting returns the options.
func (c *Capture) setting() *setting {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.options
}

// A bell is what a draining goroutine is woken by.
type bell struct {
	quit chan struct{} // closed when it is to end
	news chan struct{} // holds one: something has come
	hand *hand         // whose it is; nil: of a goroutine for one drain
}

func newBell(h *hand) *bell { return &bell{make(chan struct{}), make(chan struct{}, 1), h} }

// again returns a bell that has not rung, this one if it can be used for that.
func (b *bell) again() *bell {
	select {
	case <-b.quit:
		return newBell(b.hand)
	default:
	}
	select {
	case <-b.news:
	default:
	}
	return b
}

// ring tells that something has come.
func (b *bell) ring() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// kick has a goroutine look at the FIFOs from now on at the latest. From any goroutine.
func (c *Capture) kick() {
	if c.claim() {
		go c.run(newBell(nil))
	}
}

// claim reports whether the caller is to have the FIFOs drained, since nobody does; else who does looks again.
func (c *Capture) claim() bool {
	for {
		switch c.state.Load() {
		case idle:
			if c.state.CompareAndSwap(idle, draining) {
				return true
			}
		case draining:
			if c.state.CompareAndSwap(draining, dirty) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if c.bell != nil {
					c.ring()
				}
				return false
			}
		default: // it looks again anyway, or never more
			return false
		}
	}
}

// Release is the scope's clean-up: it implements [loop.Owned].
func (c *Capture) Release() {
	loop.Leave(&c.held)
	c.over = true
	c.store.poller.remove(c)
	for {
		s := c.state.Load()
		if s == idle && c.state.CompareAndSwap(idle, closed) {
			if c.store.leaving.Load() && c.isBare() {
				c.release()
			} else {
				go c.release() // closing a file may block
			}
			return
		}
		if s != idle && c.state.CompareAndSwap(s, closing) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.wakeToQuit()
			return
		}
	}
}

// isBare reports whether there is nothing but the FIFOs, and nothing to be told of them. It is for who drains, or knows that nobody does.
func (c *Capture) isBare() bool {
	return c.outlet == nil && !slices.ContainsFunc(c.files(), func(f *file) bool { return f.fd >= 0 }) &&
		!slices.ContainsFunc(c.all(), func(s *stream) bool { return s.loss.bytes > 0 || s.failures > 0 })
}

// begin has the goroutine be woken by a bell.
func (c *Capture) begin(b *bell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bell = b
	if c.state.Load() == closing {
		c.wakeToQuit()
	}
}

// retire reports whether nobody wants the goroutine to go on, which then must not.
func (c *Capture) retire() bool {
	c.mu.Lock()
	b := c.bell
	c.bell = nil
	c.mu.Unlock()
	if !c.state.CompareAndSwap(draining, idle) {
		c.begin(b)
		return false
	}
	return true
}

// wakeToQuit is for those who hold mu.
func (c *Capture) wakeToQuit() {
	if c.bell == nil {
		return // there is no goroutine yet, or it is about to see the state
	}
	select {
	case <-c.quit:
	default:
		close(c.quit)
	}
}

// SetOptions changes where the output goes from now on. Files of an earlier path are left as they are.
func (c *Capture) SetOptions(o Options) {
	next := new(c.store.settings.of(o.complete()))
	c.mu.Lock()
	changed := !next.same(c.options)
	c.options = next
	c.mu.Unlock()
	if o.Split && c.stream(Stderr) == nil {
		c.addStream(Stderr)
	}
	if changed {
		c.Reopen()
	}
}

// Reopen closes the log file; the next write opens it by its path.
func (c *Capture) Reopen() {
	c.reopen.Store(true)
	switch {
	case c.hasPipe():
		c.kick()
	case !c.over: // nobody drains, and no file is open
		c.settle()
	}
}

// Drained calls f on the loop once everything that is in the FIFO now is in the file. While the file can't be written,
// that is not yet; when the scope is closed, f runs all the same.
func (c *Capture) Drained(f func()) {
	c.mark(ofOutput, func() { c.store.loop.Post(f) })
}

// DrainedOrFailed calls f as Drained does, but with an error as soon as writing fails from now on. Where it has failed before it is tried at once.
// It reports true, and does not call f, where everything is in the file already.
func (c *Capture) DrainedOrFailed(f func(err error)) (drained bool) {
	tell := func(err error) { c.store.loop.Post(func() { f(err) }) }
	return !c.addMark(mark{kind: ofOutput, reached: func() { tell(nil) }, failed: tell})
}

// mark calls reached, off the loop, when what is in the FIFO now is in the file, and at once when there is nothing. Of a run that has written
// nothing until the next one began, nothing is called.
func (c *Capture) mark(kind markKind, reached func()) {
	if !c.markLater(kind, reached) {
		reached()
	}
}

// markLater has reached called as mark does, but reports false when there is nothing to wait for.
func (c *Capture) markLater(kind markKind, reached func()) bool {
	return c.addMark(mark{kind: kind, reached: reached})
}

// addMark has a mark be reached later. It reports false when there is nothing to wait for.
func (c *Capture) addMark(m mark) bool {
	m.at = [streams]int64{nowhere, nowhere}
	c.mu.Lock()
	// At rest with nothing in the FIFOs, it is so already; a mark that is only queued could be overtaken by what is
	// written next.
	now := c.released || !slices.ContainsFunc(c.streams, func(s *stream) bool { return s.pipe() >= 0 }) || c.state.Load() == idle && c.settled()
	if !now {
		c.marks = append(c.marks, m)
		if m.kind == runBegins {
			c.forgetSilentRuns()
		}
	} else if m.endsLine() && !c.released {
		c.endLines()
	}
	c.mu.Unlock()
	if now {
		return false
	}
	c.kick()
	return true
}

// forgetSilentRuns forgets the marks of runs that have written nothing: those that begin where the next one does. A program that ends again and
// again while its log can't be written would have any number of them. The caller holds mu.
func (c *Capture) forgetSilentRuns() {
	kept := c.marks[:0]
	begun := -1 // where among those kept the newest run begins
	for _, m := range c.marks {
		if m.kind == runBegins {
			if begun >= 0 && kept[begun].at == m.at {
				silent := kept[begun:]
				kept = append(kept[:begun], slices.DeleteFunc(silent, func(m mark) bool { return m.kind != ofOutput })...)
			}
			begun = len(kept)
		}
		kept = append(kept, m)
	}
	clear(c.marks[len(kept):])
	c.marks = kept
}

// failMarks tells those who wait no longer than until writing fails.
func (s *stream) failMarks(err error) {
	var failed []func(error)
	s.mu.Lock()
	s.marks = slices.DeleteFunc(s.marks, func(m mark) bool {
		fails := m.failed != nil && m.at[s.which] != nowhere && m.at[s.which] != passed
		if fails {
			failed = append(failed, m.failed)
		}
		return fails
	})
	s.mu.Unlock()
	for _, f := range failed {
		f(err)
	}
}

// endLines ends lines of which there is a message already, and no more to come. The caller holds mu.
func (c *Capture) endLines() {
	for _, s := range c.streams {
		if s.pipe() >= 0 {
			s.setLine(atBeginning)
		}
	}
}

// settled reports whether everything that was written is in the files. The caller holds mu and has found the capture idle: so nobody drains,
// as whoever begins to now needs mu first. It is for the loop, too.
func (c *Capture) settled() bool {
	return !slices.ContainsFunc(c.streams, func(s *stream) bool { return s.pipe() >= 0 && pipeHasSome(s.pipe()) || s.loss.inLine > 0 })
}

// Notify has f called whenever bytes were appended to the file, and once when the capture is closed. f must not block.
// It may be called once more while cancel is running. Notify and cancel may be called from any goroutine.
func (c *Capture) Notify(f func()) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The list is never changed in place: it is called without the lock.
	c.watchers = append(slices.Clip(c.watchers), &f)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watchers = slices.DeleteFunc(slices.Clone(c.watchers), func(w *func()) bool { return w == &f })
	}
}

// release closes what the capture owns. It runs once, on the goroutine that used it last.
func (c *Capture) release() {
	for _, s := range c.all() {
		if s.loss.bytes > 0 {
			s.log().Error("output was dropped, and its log does not say so", "bytes", s.loss.bytes, "lines", s.loss.lines)
		} else if s.failures > 0 {
			s.log().Error("output is lost, its log could not be written to the end", "bytes", s.bytes())
		}
	}
	if c.outlet != nil {
		c.outlet.close()
	}
	for _, f := range c.files() {
		if f.fd >= 0 {
			slot := f.enter(&c.store.slots, nil)
			f.close()
			slot.release()
		}
		c.store.paths.retire(&f.chain)
	}

	c.mu.Lock()
	c.released = true
	c.bell = nil
	leaving := c.store.leaving.Load()
	if c.both > 0 && !leaving {
		closeFD(int(c.both))
	}
	all, marks, watchers := c.streams, c.marks, c.watchers
	c.marks = nil
	c.mu.Unlock()
	if !leaving {
		for _, s := range all {
			closeFD(s.pipe()) // it waits for who writes, as pipeBytes does
		}
	}
	for _, m := range marks {
		m.reached()
	}
	for _, f := range watchers {
		(*f)()
	}
	c.store.lines.forget(c)
	c.store.captures.Done()
}
