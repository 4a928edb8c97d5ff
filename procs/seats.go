package procs

import (
	"sync"
	"time"
)

const (
	workers      = 16                    // starts that are prepared at a time
	seatPatience = 50 * time.Millisecond // then a worker hangs, rather than works
	maxHanging   = 256                   // each takes a thread
)

// seats bounds how many workers prepare a start at a time. One that hangs in a file system gives its seat to the next
// after a while, so that the others don't wait for it, as long as there are not too many of these.
type seats struct {
	free chan struct{} // full when all are taken

	mu      sync.Mutex
	hanging int
}

func newSeats() *seats { return &seats{free: make(chan struct{}, workers)} }

// take waits for a seat. leave gives it back; it is called once.
func (s *seats) take() (leave func()) {
	s.free <- struct{}{}
	hangs, left := false, false // guarded by mu
	timer := time.AfterFunc(seatPatience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !left && s.hanging < maxHanging {
			hangs = true
			s.hanging++
			<-s.free
		}
	})
	return func() {
		timer.Stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		left = true
		if hangs {
			s.hanging--
			return
		}
		<-s.free
	}
}
