package logs

import (
	"sync"
	"time"
)

// BeforeFirstOutput registers f, which is called with the place in a log where a run's output begins,
// before any of it is there. A stream with a log of its own has a place of its own. f applies to
// runs for which BeginRun was called with placed.
//
// The output stays in the FIFOs until saved is called, but for a second at most: output matters
// more than its place. f runs on the goroutine that is about to write and must not block. It has to
// be set before there are collectors.
func (s *Store) BeforeFirstOutput(f func(at RunBegin, saved func())) { s.beforeFirstOutput = f }

// saveRunBegin reports where the present run begins, if that is requested and its first output is in the
// FIFO. Nothing is in the file then. It reports whether what is in the FIFO may be moved, now or
// after [stream.awaitPlace]; false means that the FIFO was empty.
func (s *stream) saveRunBegin() (mayMove bool, err error) {
	which, segs := Stdout, &s.file.segments
	if first, _ := s.segments(); first != segs {
		which = Stderr
	}
	if !s.startUnsaved[which].Load() || s.outlet != nil {
		return true, nil
	}
	if s.bytes() == 0 {
		return false, nil
	}
	_, err = s.fileOp(0, func() error {
		err := s.file.ready() // the recorded state of the file may be old
		if err != nil {
			s.file.close()
		}
		return err
	})
	if err != nil {
		return true, err
	}
	s.startUnsaved[which].Store(false)
	saved := make(chan struct{})
	s.ensureErrors().beginSaved = saved
	s.store.beforeFirstOutput(s.runBegin(which, segs.cursor(segs.end())), sync.OnceFunc(func() { close(saved) }))
	return true, nil
}

// awaitRunBeginSaved waits until the place that was reported is saved, and reports whether there was one.
// The caller must hold no slot, so that other logs of the file system need not wait.
func (s *stream) awaitRunBeginSaved() bool {
	if s.beginSaved == nil {
		return false
	}
	s.store.poller.reportBlocked(s.wakeup)
	timeout := time.NewTimer(s.store.stallTimeout)
	defer timeout.Stop()
	select {
	case <-s.beginSaved:
	case <-timeout.C:
	case <-s.stop:
	}
	s.beginSaved = nil
	return true
}

// runBegin returns the start of the present run in the log of a stream.
func (c *Collector) runBegin(which Stream, at Cursor) RunBegin {
	c.mu.Lock()
	defer c.mu.Unlock()
	return RunBegin{Program: c.options.Program, Instance: c.name, Run: c.runID, Stream: which, At: at}
}
