package logs

import (
	"sync"
	"time"
)

// TellPlaces has f called with where in a log the output of a run begins that is to be placed, before any of it is there; that of a stream
// which has a log of its own begins somewhere else. It stays in the
// FIFOs until saved is called, but for a second at most, since output matters more than its place. f must not block and is called on the
// goroutine that is about to write. It is to be set before there are captures.
func (s *Store) TellPlaces(f func(at RunBegin, saved func())) { s.tellPlace = f }

// place tells where the present run begins that is to be placed, when something of it is in the FIFO. Nothing is in the file then. It reports
// whether what is in the FIFO may be moved, by now or after [stream.awaitPlace]; else nothing was there.
func (s *stream) place() (placed bool, err error) {
	which, ch := Stdout, &s.file.chain
	if first, _ := s.chain(); first != ch {
		which = Stderr
	}
	if !s.unplaced[which].Load() || s.outlet != nil {
		return true, nil
	}
	if s.bytes() == 0 {
		return false, nil
	}
	_, err = s.do(0, func() error {
		err := s.file.ready() // what the chain knows of the file may be old
		if err != nil {
			s.file.close()
		}
		return err
	})
	if err != nil {
		return true, err
	}
	s.unplaced[which].Store(false)
	saved := make(chan struct{})
	s.meet().placing = saved
	s.store.tellPlace(s.runBegin(which, ch.cursor(ch.end())), sync.OnceFunc(func() { close(saved) }))
	return true, nil
}

// awaitPlace waits until the place is saved that was told, and reports whether one was. Whoever calls it holds no slot: others that log in the same file system are not to wait.
func (s *stream) awaitPlace() bool {
	if s.placing == nil {
		return false
	}
	s.store.poller.giveWay(s.bell)
	patience := time.NewTimer(s.store.stall)
	defer patience.Stop()
	select {
	case <-s.placing:
	case <-patience.C:
	case <-s.quit:
	}
	s.placing = nil
	return true
}

// runBegin is the beginning of the present run in the log of a stream.
func (c *Capture) runBegin(which Stream, at Cursor) RunBegin {
	c.mu.Lock()
	defer c.mu.Unlock()
	return RunBegin{Program: c.options.Program, Instance: c.name, Run: c.runID, Stream: which, At: at}
}
