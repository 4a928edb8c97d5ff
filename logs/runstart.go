package logs

import (
	"sync"
	"time"
)

// saveRunStart reports where the present run begins, if that must be saved and its first output is
// in the FIFO. Nothing is in the file then. mayMove reports whether what is in the FIFO may be
// moved, now or after [stream.awaitRunStartSaved]; false means that the FIFO was empty.
func (s *stream) saveRunStart() (mayMove bool, err error) {
	which, segs := Stdout, s.file.Log()
	if first, _ := s.c.segments(); first != segs {
		which = Stderr
	}
	if !s.c.startUnsaved[which].Load() || s.c.shared.outlet != nil {
		return true, nil
	}
	if s.source.Bytes() == 0 {
		return false, nil
	}
	_, err = s.fileOp(0, func() error {
		err := s.file.Ready() // the recorded state of the file may be old
		if err != nil {
			s.file.Close()
		}
		return err
	})
	if err != nil {
		return true, err
	}
	s.c.startUnsaved[which].Store(false)
	saved := make(chan struct{})
	s.ensureErrors().startSaved = saved
	s.c.store.beforeFirstOutput(s.c.runStart(which, segs.Cursor(segs.End())), sync.OnceFunc(func() { close(saved) }))
	return true, nil
}

// awaitRunStartSaved waits until the start that was reported is saved, and reports whether there
// was one. The caller must hold no slot, so that other logs of the file system need not wait.
func (s *stream) awaitRunStartSaved() bool {
	if s.startSaved == nil {
		return false
	}
	s.c.store.poller.ReportBlocked(s.c.shared.wakeup)
	timeout := time.NewTimer(s.c.store.stallTimeout)
	defer timeout.Stop()
	select {
	case <-s.startSaved:
	case <-timeout.C:
	case <-s.c.shared.wakeup.Stop:
	}
	s.startSaved = nil
	return true
}
