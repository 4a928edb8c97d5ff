package logs

import (
	"sync"
	"time"

	"superd/internal/mounts"
)

// How many goroutines may use one file system at a time. Each may occupy a thread and a buffer
// while the file system stalls.
const (
	writersPerFileSystem = 4
	readersPerFileSystem = 4
)

// How many may use all file systems together. So three stalled ones delay no writer elsewhere, and
// two no reader.
const (
	maxWriters = 4 * writersPerFileSystem
	maxReaders = 3 * readersPerFileSystem
)

// Threads is how many threads the collectors of a [Store], its archive, superd's standard output
// and a [Queue] may block in the kernel.
const Threads = maxWaiting + maxWriters + maxReaders + maxWaitingForProgram + 3

// A fileSystem is what may stall as a unit: a file system or, if that is not known, a directory.
// One of the fields is set.
type fileSystem struct {
	device    uint64
	directory string
}

// slots limits how many goroutines use each file system. A slot exists while it is used or waited
// for; the last one exists until the next.
type slots struct {
	mounts        *mounts.Table
	perFileSystem int
	all           chan struct{} // a token for each slot in use, of all file systems together

	mu           sync.Mutex
	byFileSystem map[fileSystem]*slot
	last         *slot // the one released last, perhaps unused: most often it is used next
}

func newSlots(m *mounts.Table, perFileSystem, limit int) slots {
	return slots{mounts: m, perFileSystem: perFileSystem, all: make(chan struct{}, limit), byFileSystem: make(map[fileSystem]*slot)}
}

// A slot is the right of its holders to access a file system, until each releases it.
type slot struct {
	of         *slots
	fileSystem fileSystem
	taken      chan struct{} // a token for each holder

	// Guarded by of.mu:
	users   int       // goroutines that hold it or wait for it
	changed time.Time // when it became full, or a holder last released it since then
}

// acquire waits for a slot in p. It returns nil if stop was closed first.
func (s *slots) acquire(p fileSystem, stop <-chan struct{}) *slot {
	t := s.addUser(p)
	if !take(t.taken, stop) {
		t.removeUser(false)
		return nil
	}
	if !take(s.all, stop) {
		<-t.taken
		t.removeUser(false)
		return nil
	}
	return t
}

// take puts a token into places, and waits for a free place. It reports false if stop was closed
// first. Those that wait are served in their order.
func take(places chan struct{}, stop <-chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	default: // a place counts even if stop is closed
	}
	select {
	case places <- struct{}{}:
		return true
	case <-stop:
		return false
	}
}

// release returns the slot. t may be nil.
func (t *slot) release() {
	if t == nil {
		return
	}
	<-t.of.all
	<-t.taken
	t.removeUser(true)
}

// stalls reports whether all slots of a file system are in use, and none was released for
// blockedAfter. A worker that waits there should be replaced meanwhile.
func (s *slots) stalls(p fileSystem) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.slotOf(p)
	return t != nil && t.users >= s.perFileSystem && time.Since(t.changed) > blockedAfter
}

// slotOf returns the slot of a file system, nil if there is none. The caller holds mu.
func (s *slots) slotOf(p fileSystem) *slot {
	if s.last != nil && s.last.fileSystem == p {
		return s.last
	}
	return s.byFileSystem[p]
}

// addUser counts one more user of the slot of p.
func (s *slots) addUser(p fileSystem) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.slotOf(p)
	if t == nil {
		t = &slot{of: s, fileSystem: p, taken: make(chan struct{}, s.perFileSystem)}
		s.byFileSystem[p] = t
	}
	if t.users++; t.users == s.perFileSystem {
		t.changed = time.Now()
	}
	return t
}

// removeUser counts one user of t less. released reports whether it had the slot.
func (t *slot) removeUser(released bool) {
	s := t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if released && t.users >= s.perFileSystem {
		t.changed = time.Now()
	}
	if t.users--; t.users > 0 || t == s.last {
		return
	}
	if s.last != nil && s.last.users == 0 {
		delete(s.byFileSystem, s.last.fileSystem)
	}
	s.last = t
}
