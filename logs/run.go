package logs

import (
	"slices"

	"superd/logs/frame"
	"superd/logs/segment"
)

// BeginRun begins a run: output after what is in the FIFO now belongs to it. id names the run in
// records. With saveStart, the run's start is passed to the function given to
// [Store.BeforeFirstOutput].
func (c *Collector) BeginRun(id string, saveStart bool) {
	c.addBarrier(runStartBarrier, func() {
		if saveStart {
			c.nameRun(id, Stdout, Stderr)
		} else {
			c.nameRun(id)
		}
		c.shared.Lock()
		c.shared.awaitsDirectOpen = [streams]bool{true, true}
		c.shared.Unlock()
		for _, f := range c.files() {
			f.Log().BeginRun()
		}
		c.shared.Lock()
		if o := c.shared.outlet; o != nil {
			o.beforeRun = len(o.recent)
		}
		c.shared.Unlock()
		segs, _ := c.segments()
		c.silent.Store(segs.OutputEnd().Format == frame.Raw)
	})
}

// ResumeRun names a run that began before this collector. unsaved are the streams whose logs have
// no output of the run yet and whose start must be saved, as with saveStart of BeginRun. Safe for
// concurrent use.
func (c *Collector) ResumeRun(id string, unsaved ...Stream) {
	c.resumed.Store(true)
	c.nameRun(id, unsaved...)
}

func (c *Collector) nameRun(id string, unsaved ...Stream) {
	c.shared.Lock()
	defer c.shared.Unlock()
	c.shared.runID = id
	for which := range c.startUnsaved {
		c.startUnsaved[which].Store(c.store.beforeFirstOutput != nil && slices.Contains(unsaved, Stream(which)))
	}
}

// EndRun ends a run when its main process has exited: a last line without a newline is complete.
// Later output begins a new line for [follow.LastLines]; nothing is added to the file.
//
// It reports whether all output until now is in the files. If not, [Collector.Drained] reports when
// it is.
func (c *Collector) EndRun() (drained bool) {
	reached := func() {
		for _, f := range c.files() {
			f.Log().EndRun()
		}
		c.notifyWatchers() // a line without an end is complete
	}
	if c.queueBarrier(barrier{kind: runEndBarrier, reached: reached}) {
		return false
	}
	reached()
	return true
}

// Tail calls f with the last bytes of the run's output, at most 1 KiB. It does so when everything
// that is in the FIFOs now is in the files, or when the scope is closed. For a run without output
// it does not call f if the next run has begun by then. cut reports that there was more before.
//
// The bytes are read from the file: that of standard error if the run has written to one. A device
// has none. f must not block. It runs on any goroutine, and at once if there is no output.
func (c *Collector) Tail(f func(end []byte, cut bool)) {
	read := func() {
		if c.setting().Sink != "" {
			end, cut := c.recentRun()
			f(end, cut)
			return
		}
		var outputs []runOutput
		for _, file := range c.files() {
			from, to := file.Log().LastRun() // now, as the next run may begin any time
			if from != to || file.Log().OutputEnd().Format == frame.Direct {
				outputs = append(outputs, runOutput{file.Log(), from, to})
			}
		}
		if len(outputs) == 0 {
			f(nil, false)
			return
		}
		c.store.collectors.Go(func() {
			var end []byte
			var cut bool
			for _, o := range slices.Backward(outputs) {
				if end, cut = c.readTail(o); len(end) > 0 {
					break
				}
			}
			f(end, cut)
		})
	}
	switch _, released := c.segments(); {
	case released:
		go f(nil, false)
	case !c.queueBarrier(barrier{kind: runBarrier, reached: read}):
		read()
	}
}

// A runOutput is where the output of a run is.
type runOutput struct {
	segments *segment.Log
	from, to int64
}

func (c *Collector) readTail(o runOutput) (end []byte, cut bool) {
	defer o.segments.AcquireSlot(c.store.readers.Limiter, nil).Release()
	if o.segments.OutputEnd().Format == frame.Direct {
		o.segments.Refresh()
		o.from, o.to = o.segments.LastRun()
	}
	return o.segments.Tail(o.from, o.to)
}
