package logs

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"superd/internal/mounts"
)

// How many goroutines may use one file system at once. Each may occupy a thread and a buffer while
// the file system stalls.
const (
	writersPerPlace = 4
	readersPerPlace = 4
)

// How many may use all file systems together: three stalled ones delay no writer elsewhere, and two
// no reader.
const (
	maxWriters = 4 * writersPerPlace
	maxReaders = 3 * readersPerPlace
)

// Threads is how many threads the collectors of a [Store], its archive, superd's standard output
// and a [Queue] may block in the kernel.
const Threads = maxWaiting + maxWriters + maxReaders + maxWaitingForProgram + 3

// A place is what may stall as a unit: a file system or, if that is not known, a directory. One of
// the fields is set.
type place struct {
	device    uint64
	directory string
}

// slots limits the goroutines at work in each place. A slot exists while it is used or waited for;
// the last one exists until the next.
type slots struct {
	mounts   *mounts.Table
	perPlace int
	all      *semaphore.Weighted // of all places together

	mu     sync.Mutex
	places map[place]*slot
	last   *slot // the one released last, perhaps unused: mostly it is the next one
}

func newSlots(m *mounts.Table, perPlace, most int) slots {
	return slots{mounts: m, perPlace: perPlace, all: semaphore.NewWeighted(int64(most)), places: make(map[place]*slot)}
}

// A slot is the right of its holders to access a file system, until each releases it.
type slot struct {
	of    *slots
	place place
	free  *semaphore.Weighted

	// Guarded by of.mu:
	users int       // goroutines that hold it or wait for it
	moved time.Time // when it became full, or was last released since then
}

// acquire waits for a slot at p. It returns nil if quit was closed first.
func (s *slots) acquire(p place, quit <-chan struct{}) *slot {
	t := s.join(p)
	if !take(t.free, quit) {
		t.leave()
		return nil
	}
	if !take(s.all, quit) {
		t.free.Release(1)
		t.leave()
		return nil
	}
	return t
}

// take waits for one of s. It reports false if quit was closed first.
func take(s *semaphore.Weighted, quit <-chan struct{}) bool {
	return s.TryAcquire(1) || s.Acquire(quitContext{context.Background(), quit}, 1) == nil
}

// A quitContext ends when quit is closed.
type quitContext struct {
	context.Context
	quit <-chan struct{}
}

func (q quitContext) Done() <-chan struct{} { return q.quit }

func (q quitContext) Err() error {
	select {
	case <-q.quit:
		return context.Canceled
	default:
		return nil
	}
}

// release returns the slot. t may be nil.
func (t *slot) release() {
	if t == nil {
		return
	}
	t.of.all.Release(1)
	t.free.Release(1)
	t.leave()
}

// stalls reports whether a place has no slot left, and none was released for workerPatience. A
// worker that waits there should let others work meanwhile.
func (s *slots) stalls(p place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.at(p)
	return t != nil && t.users >= s.perPlace && time.Since(t.moved) > workerPatience
}

// at returns the slot of a place, nil if there is none. The caller holds mu.
func (s *slots) at(p place) *slot {
	if s.last != nil && s.last.place == p {
		return s.last
	}
	return s.places[p]
}

// join counts one more user of the slot at p.
func (s *slots) join(p place) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.at(p)
	if t == nil {
		t = &slot{of: s, place: p, free: semaphore.NewWeighted(int64(s.perPlace))}
		s.places[p] = t
	}
	if t.users++; t.users == s.perPlace {
		t.moved = time.Now()
	}
	return t
}

// leave counts one user less of t.
func (t *slot) leave() {
	s := t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.users >= s.perPlace {
		t.moved = time.Now()
	}
	if t.users--; t.users > 0 || t == s.last {
		return
	}
	if s.last != nil && s.last.users == 0 {
		delete(s.places, s.last.place)
	}
	s.last = t
}
