package loop

import "time"

// A work is a function posted to the loop, and the scope it belongs to.
type work struct {
	scope *Scope
	f     func()
}

// maxSpare bounds the queue kept for reuse, so that a burst does not hold its memory for ever.
const maxSpare = 1024

// Post has f run on the loop, after all that was posted before. It may be called from any goroutine
// and does not block. What is posted in a turn runs in the next one. Once Root is closed, f is
// dropped.
func (l *Loop) Post(f func()) { l.root.Post(f) }

// Post has f run on the loop as [Loop.Post] does, unless s is closed by then. It may be called from any
// goroutine.
func (s *Scope) Post(f func()) {
	l := s.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if len(l.posted) == 0 {
		l.postedAt = l.poller.now()
	}
	l.posted = append(l.posted, work{s, f})
	// One wake-up serves a burst. It happens under the lock, since the poller may be closed after.
	if l.sleeping {
		l.sleeping = false
		l.poller.wake()
	}
}

// takePosted returns what was posted until now, and when the oldest of it was: never, if nothing.
func (l *Loop) takePosted() ([]work, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sleeping = false
	if len(l.posted) == 0 {
		return nil, never
	}
	posted := l.posted
	l.posted, l.spare = l.spare, nil
	return posted, l.postedAt
}

func (l *Loop) runPosted(posted []work) {
	for i, w := range posted {
		posted[i] = work{}
		if !w.scope.closed {
			w.f()
		}
	}
	if cap(posted) <= maxSpare {
		l.spare = posted[:0]
	}
}
