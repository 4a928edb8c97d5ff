package logs

import (
	"fmt"
	"slices"
	"time"

	"superd/internal/syscalls"
	"superd/logs/frame"
	"superd/logs/pipe"
	"superd/logs/sink"
	"superd/loop"
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
func (c *Collector) Sink() sink.Kind { return c.setting().Sink }

// Files returns the paths of the log files. Safe for concurrent use.
func (c *Collector) Files() []string { return c.setting().files() }

// Release implements [loop.Owned]: it closes the collector with its scope.
func (c *Collector) Release() {
	loop.Unlink(&c.loop.link)
	c.loop.closed = true
	c.unwatch()
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
			c.shared.Lock()
			defer c.shared.Unlock()
			c.stopDrain()
			return
		}
	}
}

// SetOptions changes where the output goes from now on. Files of an earlier path stay as they are.
func (c *Collector) SetOptions(o Options) {
	next := new(c.store.settings.share(o.complete()))
	if o.Split && c.stream(Stderr) == nil {
		c.addStream(Stderr) // so that who sees the new options finds it
	}
	c.shared.Lock()
	changed := !next.same(c.shared.options)
	c.shared.options = next
	c.shared.Unlock()
	if changed {
		c.Reopen()
	}
}

// Reopen closes the log file; the next write opens it by its path.
func (c *Collector) Reopen() {
	c.reopen.Store(true)
	switch {
	case c.hasPipe() || c.state.Load() != idle: // without a FIFO, it clears the log
		c.ensureDrain()
	case !c.loop.closed: // no goroutine drains, and no file is open
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
	c.shared.Lock()
	// While idle with empty FIFOs the barrier is reached now. Output written next could overtake a
	// queued one.
	now := c.shared.released || !slices.ContainsFunc(c.shared.streams, func(s *stream) bool { return s.source.Attached() }) || c.state.Load() == idle && c.allWritten()
	if !now {
		c.shared.barriers = append(c.shared.barriers, m)
		if m.kind == runStartBarrier {
			c.removeSilentRuns()
		}
	} else if m.endsLine() && !c.shared.released {
		c.endLines()
	}
	c.shared.Unlock()
	if now {
		return false
	}
	c.ensureDrain()
	return true
}

// Notify registers f, which is called after each append to the file and once when the collector is
// closed. f must not block. It may be called once more while cancel runs. Notify and cancel are
// safe for concurrent use.
func (c *Collector) Notify(f func()) (cancel func()) {
	c.shared.Lock()
	defer c.shared.Unlock()
	c.shared.watchers = &watchers{append(slices.Clip(c.shared.watching()), &f), c.shared.clears()}
	return func() {
		c.shared.Lock()
		defer c.shared.Unlock()
		isOwn := func(w *func()) bool { return w == &f }
		c.shared.watchers = &watchers{slices.DeleteFunc(slices.Clone(c.shared.watching()), isOwn), c.shared.clears()}
	}
}

// NewCollector returns a collector named name that belongs to scope. When the scope is closed, a
// chunk that is being written is finished. Then the last goroutine that used the read end and the
// file closes them. What is still in the FIFO stays there; see [Collector.Drained].
func (s *Store) NewCollector(scope *loop.Scope, name string, o Options) *Collector {
	c := new(Collector)
	c.Open(s, scope, name, o)
	return c
}

// Open makes c, which is zero, what [Store.NewCollector] returns. It saves an allocation if c is a
// field.
func (c *Collector) Open(s *Store, scope *loop.Scope, name string, o Options) {
	o = o.complete()
	c.store, c.name = s, name
	c.inline.setting = s.settings.share(o)
	c.shared.options = &c.inline.setting
	c.inline.stdout.init(c, Stdout)
	c.inline.streams[0] = &c.inline.stdout
	c.shared.streams = c.inline.streams[:]
	if o.Split {
		c.shared.streams = append(c.shared.streams, c.newStream(Stderr))
	}
	c.chooseFiles()
	s.collectors.Add(1)
	scope.Adopt(&c.loop.link, c)
	if s.display != nil {
		s.display.Expect(name)
		c.show()
	}
}

// Attach sets the read end of a stream, once in its life. The collector owns fd from now on; after
// an error fd is closed. What is in the FIFO already is written.
func (c *Collector) Attach(which Stream, fd int) error {
	s := c.stream(which)
	switch {
	case c.loop.closed:
		syscalls.Close(fd)
		return fmt.Errorf("attach output of %s: %w", c.name, loop.ErrClosed)
	case s != nil && s.source.Attached():
		syscalls.Close(fd)
		return fmt.Errorf("attach output of %s: it already has a read end", c.name)
	case s == nil: // of an earlier configuration
		s = c.addStream(which)
	}
	if frame.OpenLine(pipe.MarkOf(fd)) == frame.DroppedLine {
		s.ensureErrors().dropped.lineBytes = 1
	}
	s.source.Attach(fd)
	// posted, as recovery calls more of the collector\'s methods first
	loop.ScopeOf(&c.loop.link).Post(c.startWatch)
	return nil
}

// FD returns the read end of a stream, -1 if there is none or the scope is closed.
func (c *Collector) FD(which Stream) int {
	if s := c.stream(which); s != nil && !c.loop.closed {
		return s.source.FD()
	}
	return -1
}

// startWatch begins the watch. Output that is there already causes an event at once.
func (c *Collector) startWatch() {
	if err := c.watchFIFOs(); err != nil { // memory, descriptors or watches are exhausted
		loop.ScopeOf(&c.loop.link).After(time.Second, c.startWatch)
	}
	if c.loop.dropsUnrecorded {
		c.loop.dropsUnrecorded = false
		c.ensureDrain()
	}
}

// Written returns how many bytes of output are in the log or with its sink since the collector was
// made. What a program writes to its log itself does not count. Safe for concurrent use.
func (c *Collector) Written() int64 { return c.written.Load() }

// Outage returns the present outage, nil if there is none that is known of. Safe for concurrent
// use.
func (c *Collector) Outage() *Outage { return c.outage.Load() }
