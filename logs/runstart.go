package logs

import (
	"sync"
	"time"
)

// BeforeFirstOutput registers f, which is called with the cursor where the output of a run begins,
// before any of it is in the log. Each stream with a log of its own has its own cursor. f is called
// for runs that BeginRun has begun with saveStart.
//
// The output stays in the FIFOs until saved is called, but for a second at most: output matters
// more than its cursor. f runs on the goroutine that is about to write, and must not block.
// BeforeFirstOutput has to be called before there are collectors.
func (s *Store) BeforeFirstOutput(f func(at RunStart, saved func())) { s.beforeFirstOutput = f }

// saveRunStart reports where the present run begins, if that must be saved and its first output is
// in the FIFO. Nothing is in the file then. mayMove reports whether what is in the FIFO may be
// moved, now or after [stream.awaitRunStartSaved]; false means that the FIFO was empty.
func (s *stream) saveRunStart() (mayMove bool, err error) {
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
	s.ensureErrors().startSaved = saved
	s.store.beforeFirstOutput(s.runStart(which, segs.cursor(segs.end())), sync.OnceFunc(func() { close(saved) }))
	return true, nil
}

// awaitRunStartSaved waits until the start that was reported is saved, and reports whether there
// was one. The caller must hold no slot, so that other logs of the file system need not wait.
func (s *stream) awaitRunStartSaved() bool {
	if s.startSaved == nil {
		return false
	}
	s.store.poller.reportBlocked(s.wakeup)
	timeout := time.NewTimer(s.store.stallTimeout)
	defer timeout.Stop()
	select {
	case <-s.startSaved:
	case <-timeout.C:
	case <-s.stop:
	}
	s.startSaved = nil
	return true
}

// runStart returns the start of the present run in the log of a stream.
func (c *Collector) runStart(which Stream, at Cursor) RunStart {
	c.mu.Lock()
	defer c.mu.Unlock()
	return RunStart{Program: c.options.Program, Instance: c.name, Run: c.runID, Stream: which, At: at}
}
