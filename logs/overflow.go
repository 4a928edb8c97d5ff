package logs

import (
	"bytes"
	"time"

	"superd/logs/frame"
	"superd/logs/fslimit"
	"superd/logs/segment"
)

// fileOp runs op, which uses the file. With Drop, op gets a goroutine and a slot of its own; if it
// stalls, the output in the pipe is dropped until it returns. inFlight is how many bytes at the
// start of the pipe op writes. discarded reports that these were taken out of the pipe.
func (s *stream) fileOp(inFlight int, op func() error) (discarded bool, err error) {
	if !s.file.set.Drop {
		return false, op()
	}
	done := make(chan error, 1)
	f, needsSlot := s.file, s.c.shared.outlet == nil
	before := f.set // op may change the settings of s and f
	go func() {
		var slot *fslimit.Slot
		if needsSlot {
			if slot = f.AcquireSlot(s.c.store.writers, s.c.shared.wakeup.Stop); slot == nil {
				done <- errStalled
				return
			}
		}
		err := op()
		slot.Release()
		done <- err
	}()
	timer := time.NewTimer(s.c.store.stallTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return false, err
	case <-s.c.shared.wakeup.Stop: // what is in the pipe is for the successor
		return false, <-done
	case <-timer.C:
	}
	s.discard(inFlight, false)
	s.ensureErrors().dropped.cause = errStalled
	s.beginOutage(errStalled)
	s.c.logOf(before).Warn("log stalls: output is dropped")
	s.dropUntil(true, func(<-chan time.Time) (ended bool) {
		select {
		case err = <-done:
			return true
		case <-s.c.shared.wakeup.Wake:
			return false
		case <-s.c.shared.wakeup.Stop:
			err = <-done
			return true
		}
	})
	s.log().Info("log no longer stalls", "dropped_bytes", s.dropped.bytes, "dropped_lines", s.dropped.lines)
	return true, err
}

// dropFor drops output for a while. It reports false when closing.
func (s *stream) dropFor(while time.Duration, cause error) (open bool) {
	s.ensureErrors().dropped.cause = cause
	timer := time.NewTimer(while)
	defer timer.Stop()
	otherWaits := s.dropUntil(false, func(recheck <-chan time.Time) (ended bool) {
		select {
		case <-timer.C:
			open = true
			return true
		case <-recheck:
			return false
		case <-s.c.shared.wakeup.Wake:
			return false
		case <-s.c.shared.wakeup.Stop:
			return true
		}
	})
	return open || otherWaits
}

// dropUntil drops the output of this stream, and of the other one if that is affected too, until
// wait reports true. wait waits for output, or for recheck, a result of watchOther. If not stalled,
// dropUntil also ends when the other stream has output that can be written, and reports true.
func (s *stream) dropUntil(stalled bool, wait func(recheck <-chan time.Time) (ended bool)) (otherWaits bool) {
	for ended := false; !ended; {
		s.c.clearDirty()
		// a drop in one stream may be what the other waits for
		for moved, pending := true, true; moved && pending; {
			moved, pending = false, false
			for _, other := range s.c.inOrder() {
				if other != s {
					if !stalled && s.mayProceed(other) {
						continue
					}
					other.ensureErrors().dropped.cause = s.dropped.cause
				}
				progress, empty := other.dropAll()
				if empty {
					s.c.armWatch(other)
				}
				moved, pending = moved || progress, pending || !empty
			}
		}
		var recheck <-chan time.Time
		if !stalled {
			if otherWaits, recheck = s.watchOther(); otherWaits {
				return true
			}
		}
		ended = wait(recheck)
	}
	return false
}

// dropAll drops what is in the pipe. progress reports whether it dropped something or passed a
// barrier. empty reports whether the pipe is empty; if not, the other stream must reach a barrier
// first.
func (s *stream) dropAll() (progress, empty bool) {
	for {
		limit, end := s.nextLimit()
		if limit == 0 {
			return progress, false
		}
		n := s.discard(int(min(limit, turnBytes)), true)
		if int64(n) == limit && end == frame.LineComplete {
			s.endDroppedLine()
		}
		passed := s.barrierReached(n == 0)
		progress = progress || n > 0 || passed
		if n == 0 {
			return progress, true
		}
	}
}

// discard takes at most n bytes out of the pipe and returns how many. With count they count as
// dropped.
func (s *stream) discard(n int, count bool) (taken int) {
	buffer := s.c.store.buffers.Get()
	defer s.c.store.buffers.Put(buffer)
	for taken < n {
		got, err := s.source.Read(buffer[:min(n-taken, len(buffer))])
		if got == 0 || err != nil {
			break
		}
		if count {
			s.drop(buffer[:got])
		}
		s.total += int64(got)
		taken += got
	}
	return taken
}

// skipDroppedLine drops the rest of a line whose start was dropped, from text, which is in the
// pipe. After MaxOverrun bytes it no longer waits for the end of the line.
func (s *stream) skipDroppedLine(text []byte, end frame.Ending) {
	n := bytes.IndexByte(text, '\n') + 1
	if n == 0 {
		n = len(text)
	}
	s.discard(n, true)
	switch {
	case n == len(text) && end == frame.LineComplete:
		s.endDroppedLine()
	case s.dropped.lineBytes >= segment.MaxOverrun:
		s.endDroppedLine()
		s.setLine(frame.UnknownLine)
	}
}
