package logs

import (
	"sync"
	"time"
)

// TellPlaces has f called with where in its log the output of a run begins that is to be placed, before any of it is there. It stays in the
// FIFOs until saved is called, but for a second at most, since output matters more than its place. f must not block and is called on the
// goroutine that is about to write. It is to be set before there are captures.
func (s *Store) TellPlaces(f func(at RunBegin, saved func())) { s.tellPlace = f }

// place tells where the present run begins that is to be placed, when something of it is in the FIFO. Nothing is in the file then.
func (s *stream) place() error {
	if !s.unplaced.Load() || s.outlet != nil || s.bytes() == 0 {
		return nil
	}
	ch, _ := s.chain()
	if ch != s.file.chain { // nobody waits for a line there
		return nil
	}
	_, err := s.do(0, func() error {
		err := s.file.ready() // what the chain knows of the file may be old
		if err != nil {
			s.file.close()
		}
		return err
	})
	if err != nil {
		return err
	}
	s.unplaced.Store(false)
	saved := make(chan struct{})
	s.store.tellPlace(s.runBegin(ch.cursor(ch.end())), sync.OnceFunc(func() { close(saved) }))
	patience := time.NewTimer(s.store.stall)
	defer patience.Stop()
	select {
	case <-saved:
	case <-patience.C:
	case <-s.quit:
	}
	return nil
}

// runBegin is the beginning of the present run.
func (c *Capture) runBegin(at Cursor) RunBegin {
	c.mu.Lock()
	defer c.mu.Unlock()
	return RunBegin{Program: c.options.Program, Instance: c.name, Run: c.runID, At: at}
}
