package logs

import (
	"slices"
	"sync"
	"sync/atomic"

	"superd/loop"
)

// States of draining. The loop and the draining goroutine change them by compare-and-swap.
const (
	idle     uint32 = iota // no goroutine drains; the next event starts one
	draining               // a goroutine moves bytes
	// dirty is draining when more output may have come: the goroutine checks once more before it
	// ends.
	dirty
	closing // the goroutine must end and close what the collector owns
	closed
)

// A Collector moves the output of one instance into its log files. Its methods are for the loop's
// goroutine, unless they say otherwise.
//
// One goroutine drains both streams. So lines of both get into one file in the order in which they
// were written, as far as that can be known.
type Collector struct {
	store   *Store
	link    loop.Link // in the list of what its scope owns
	name    string
	*wakeup // of the draining goroutine; nil: none drains; other goroutines use it under mu
	// readableCount counts FIFOs that became readable, if there are two. Only the draining
	// goroutine uses it.
	readableCount uint64
	drops         atomic.Pointer[drops] // nil: nothing was dropped
	outage        atomic.Pointer[Outage]
	// outlet is nil if output goes to files. It belongs to the draining goroutine, except for the
	// fields that mu guards.
	outlet *outlet

	inline   inlineParts
	options  *setting  // guarded by mu, like the fields below; replaced, never modified
	streams  []*stream // replaced, never modified: stdout, and stderr if it ever had its own FIFO
	runID    string    // present run
	barriers []barrier
	watchers []*func()

	mu              sync.Mutex
	watch           // watch of the FIFOs
	state           atomic.Uint32
	silent          atomic.Bool // the present run has printed nothing yet
	resumed         atomic.Bool // a predecessor began this collector's first run
	reopen          atomic.Bool // the file must be opened anew, with options
	scopeClosed     bool        // the scope is closed; loop only
	dropsUnrecorded bool        // the log lacks a record of what a predecessor dropped; loop only
	// startUnsaved is set for each stream where the present run has printed nothing yet and whose
	// start must be saved before it prints.
	startUnsaved [streams]atomic.Bool
	// awaitsDirectOpen is set for each stream until a process of the run opens the file that it
	// writes itself (Direct). mu guards it.
	awaitsDirectOpen [streams]bool
	released         bool // all descriptors are closed; guarded by mu
}

// inlineParts are the objects that every collector needs, in one allocation: small objects with
// long lives keep pages from being returned to the system. What replaces one of them later is
// allocated then.
type inlineParts struct {
	setting setting
	streams [1]*stream
	stdout  stream
	file    file
}

// A barrier is a position in the output that a function waits for.
type barrier struct {
	kind    barrierKind
	reached func() // called on the draining goroutine once everything before it is written
	// failed is called instead of reached if a write fails after the barrier has its position; nil:
	// the barrier waits.
	failed func(error)
	at     [streams]int64 // bytes of each stream before it, or one of the values below
}

// A barrierKind is the purpose of a barrier.
type barrierKind int

const (
	outputBarrier barrierKind = iota // all output written before it
	runBarrier                       // the output of one run
	runStartBarrier
	runEndBarrier
)

// endsLine reports whether the barrier completes a line without a newline before it.
func (b *barrier) endsLine() bool { return b.kind == runStartBarrier || b.kind == runEndBarrier }

// Values of barrier.at that are no position.
const (
	unlocated = -1 // its position is not known yet
	passed    = -2 // everything before it is in the file
	locating  = -3 // the draining goroutine is determining its position
)

// Name returns the name given to NewCollector. Safe for concurrent use.
func (c *Collector) Name() string { return c.name }

// Path returns the path of the log file. Safe for concurrent use.
func (c *Collector) Path() string { return c.setting().Path }

// StderrPath returns the path of the log file of standard error, "" if it has none of its own. Safe
// for concurrent use.
func (c *Collector) StderrPath() string { return c.setting().StderrPath }

// LogStreams returns the streams that have a log file of their own. Safe for concurrent use.
func (c *Collector) LogStreams() []Stream {
	if c.setting().stderrSetting() != nil {
		return []Stream{Stdout, Stderr}
	}
	return []Stream{Stdout}
}

// Sink returns where the output goes instead of a file. Safe for concurrent use.
func (c *Collector) Sink() Sink { return c.setting().Sink }

// Files returns the paths of the log files. Safe for concurrent use.
func (c *Collector) Files() []string { return c.setting().files() }

func (c *Collector) setting() *setting {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.options
}

// A wakeup wakes a draining goroutine that waits.
type wakeup struct {
	stop   chan struct{} // closed when the goroutine must end
	wake   chan struct{} // holds one token: output has come
	worker *worker       // the worker that drains; nil: a goroutine for one drain
}

func newWakeup(w *worker) *wakeup { return &wakeup{make(chan struct{}), make(chan struct{}, 1), w} }

// reset returns a wakeup without a pending token: w itself unless it is stopped.
func (w *wakeup) reset() *wakeup {
	select {
	case <-w.stop:
		return newWakeup(w.worker)
	default:
	}
	select {
	case <-w.wake:
	default:
	}
	return w
}

func (w *wakeup) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// ensureDrain makes sure that a goroutine checks the FIFOs after this call. Safe for concurrent
// use.
func (c *Collector) ensureDrain() {
	if c.claimDrain() {
		go c.run(newWakeup(nil))
	}
}

// claimDrain reports whether the caller must drain the FIFOs, as no goroutine does. Otherwise it
// makes the draining goroutine check once more.
func (c *Collector) claimDrain() bool {
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
				if c.wakeup != nil {
					c.signal()
				}
				return false
			}
		default: // the goroutine checks once more anyway, or is about to end
			return false
		}
	}
}

// Release implements [loop.Owned]: it closes the collector with its scope.
func (c *Collector) Release() {
	loop.Unlink(&c.link)
	c.scopeClosed = true
	c.store.poller.unwatch(c)
	for {
		s := c.state.Load()
		if s == idle && c.state.CompareAndSwap(idle, closed) {
			if c.store.exiting.Load() && c.ownsOnlyFIFOs() {
				c.release()
			} else {
				go c.release() // closing a file may block
			}
			return
		}
		if s != idle && c.state.CompareAndSwap(s, closing) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.stopDrain()
			return
		}
	}
}

// ownsOnlyFIFOs reports whether the collector has FIFOs and nothing else to close, and no drop to
// report. Only the draining goroutine may call it, or the loop while none drains.
func (c *Collector) ownsOnlyFIFOs() bool {
	return c.outlet == nil && !slices.ContainsFunc(c.files(), func(f *file) bool { return f.fd >= 0 }) &&
		!slices.ContainsFunc(c.all(), func(s *stream) bool { return s.dropped.bytes > 0 || s.failures > 0 })
}

// setWakeup sets the wakeup of the draining goroutine.
func (c *Collector) setWakeup(w *wakeup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakeup = w
	if c.state.Load() == closing {
		c.stopDrain()
	}
}

// goIdle makes the collector idle and reports true: the goroutine must then stop draining. It
// reports false if there is more output.
func (c *Collector) goIdle() bool {
	c.mu.Lock()
	w := c.wakeup
	c.wakeup = nil
	c.mu.Unlock()
	if !c.state.CompareAndSwap(draining, idle) {
		c.setWakeup(w)
		return false
	}
	return true
}

// stopDrain makes the draining goroutine end. The caller holds mu.
func (c *Collector) stopDrain() {
	if c.wakeup == nil {
		return // no goroutine yet, or it is about to read the state
	}
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
}

// SetOptions changes where the output goes from now on. Files of an earlier path stay as they are.
func (c *Collector) SetOptions(o Options) {
	next := new(c.store.settings.share(o.complete()))
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
func (c *Collector) Reopen() {
	c.reopen.Store(true)
	switch {
	case c.hasPipe():
		c.ensureDrain()
	case !c.scopeClosed: // no goroutine drains, and no file is open
		c.applyOptions()
	}
}

// Drained calls f on the loop when everything that is in the FIFO now is in the file, or when the
// scope is closed. While the file can't be written, it waits.
func (c *Collector) Drained(f func()) {
	c.addBarrier(outputBarrier, func() { c.store.loop.Post(f) })
}

// DrainedOrFailed calls f as Drained does, or with an error as soon as a write fails from now on.
// If writes fail already, one more is tried at once. It reports true, and does not call f, if
// everything is in the file already.
func (c *Collector) DrainedOrFailed(f func(err error)) (drained bool) {
	post := func(err error) { c.store.loop.Post(func() { f(err) }) }
	return !c.queueBarrier(barrier{kind: outputBarrier, reached: func() { post(nil) }, failed: post})
}

// addBarrier calls reached, off the loop, when what is in the FIFO now is in the file; at once if
// the FIFO is empty. It calls nothing for a run that has written nothing when the next one begins.
func (c *Collector) addBarrier(kind barrierKind, reached func()) {
	if !c.queueBarrier(barrier{kind: kind, reached: reached}) {
		reached()
	}
}

// queueBarrier adds a barrier. It reports false if there is nothing to wait for.
func (c *Collector) queueBarrier(m barrier) bool {
	m.at = [streams]int64{unlocated, unlocated}
	c.mu.Lock()
	// While idle with empty FIFOs the barrier is reached now. Output written next could overtake a
	// queued one.
	now := c.released || !slices.ContainsFunc(c.streams, func(s *stream) bool { return s.pipe() >= 0 }) || c.state.Load() == idle && c.allWritten()
	if !now {
		c.barriers = append(c.barriers, m)
		if m.kind == runStartBarrier {
			c.removeSilentRuns()
		}
	} else if m.endsLine() && !c.released {
		c.endLines()
	}
	c.mu.Unlock()
	if now {
		return false
	}
	c.ensureDrain()
	return true
}

// removeSilentRuns removes the barriers of runs that have written nothing: those that begin where
// the next run does. Otherwise a program that ends repeatedly while its log can't be written would
// have any number of them. The caller holds mu.
func (c *Collector) removeSilentRuns() {
	remaining := c.barriers[:0]
	lastStart := -1 // index in remaining of the newest run's start
	for _, m := range c.barriers {
		if m.kind == runStartBarrier {
			if lastStart >= 0 && remaining[lastStart].at == m.at {
				silent := remaining[lastStart:]
				remaining = append(remaining[:lastStart], slices.DeleteFunc(silent, func(m barrier) bool { return m.kind != outputBarrier })...)
			}
			lastStart = len(remaining)
		}
		remaining = append(remaining, m)
	}
	clear(c.barriers[len(remaining):])
	c.barriers = remaining
}

// failBarriers calls failed of the barriers that have one, and removes them.
func (s *stream) failBarriers(err error) {
	var failed []func(error)
	s.mu.Lock()
	s.barriers = slices.DeleteFunc(s.barriers, func(m barrier) bool {
		fails := m.failed != nil && m.at[s.which] != unlocated && m.at[s.which] != passed
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

// endLines completes lines of which a part is a message already: they get no more text. The caller
// holds mu.
func (c *Collector) endLines() {
	for _, s := range c.streams {
		if s.pipe() >= 0 {
			s.setLine(atBeginning)
		}
	}
}

// allWritten reports whether all output is in the files. The loop may call it. The caller holds mu
// and has found the collector idle: a goroutine needs mu before it begins to drain.
func (c *Collector) allWritten() bool {
	return !slices.ContainsFunc(c.streams, func(s *stream) bool {
		return s.pipe() >= 0 && pipeReadable(s.pipe()) || s.dropped.lineBytes > 0 || len(s.ahead.text()) > 0
	})
}

// Notify registers f, which is called after each append to the file and once when the collector is
// closed. f must not block. It may be called once more while cancel runs. Notify and cancel are
// safe for concurrent use.
func (c *Collector) Notify(f func()) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The list is iterated without the lock, so it is never modified in place.
	c.watchers = append(slices.Clip(c.watchers), &f)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watchers = slices.DeleteFunc(slices.Clone(c.watchers), func(w *func()) bool { return w == &f })
	}
}

// release closes what the collector owns. It runs once, on the last goroutine that uses the
// collector.
func (c *Collector) release() {
	exiting := c.store.exiting.Load() // a successor has what is in the pipes
	for _, s := range c.all() {
		if s.dropped.bytes > 0 {
			s.log().Error("output dropped without a record in its log", "bytes", s.dropped.bytes, "lines", s.dropped.lines)
		} else if s.failures > 0 {
			s.log().Error("output lost: log not written completely", "bytes", s.bytes())
		} else if buffered := len(s.ahead.text()); buffered > 0 { // no longer in the pipe
			s.log().Error("output lost: tee is refused and the log stalls", "bytes", buffered)
		} else if left := s.bytes(); left > 0 && !exiting {
			s.log().Error("output lost: the log stalls", "bytes", left)
		}
	}
	if c.outlet != nil {
		c.outlet.close()
	}
	for _, f := range c.files() {
		if f.fd >= 0 {
			slot := f.acquireSlot(&c.store.slots, nil)
			f.close()
			slot.release()
		}
		c.store.paths.endWriting(&f.segments)
	}

	c.mu.Lock()
	c.released = true
	c.wakeup = nil
	if c.inner > 0 && !exiting {
		closeFD(int(c.inner))
	}
	all, barriers, watchers := c.streams, c.barriers, c.watchers
	c.barriers = nil
	c.mu.Unlock()
	if !exiting {
		for _, s := range all {
			closeFD(s.pipe()) // waits for users of the descriptor, such as pipeBytes
		}
	}
	for _, m := range barriers {
		m.reached()
	}
	for _, f := range watchers {
		(*f)()
	}
	c.store.lines.forget(c)
	c.store.collectors.Done()
}
