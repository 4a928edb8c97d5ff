// Package fslimit limits how many goroutines use each file system at a time, and all of them
// together. So a file system that stalls blocks only those that use it.
//
// A [Limiter] owns the counts; a [Slot] is the right to use a file system. The package finds the
// file system of a path without touching a file system for which it has no slot: see [Links].
package fslimit

import (
	"sync"
	"time"

	"superd/internal/mounts"
)

// stallsAfter is how long a file system whose slots are all in use may release none before it
// counts as stalled.
const stallsAfter = 10 * time.Millisecond

// A FileSystem is what may stall as a unit: a file system, a directory whose file system is not
// known, or a file that is none of a file system's. One of the fields is set.
type FileSystem struct {
	device uint64
	path   string
}

// Alone returns the unit for a FIFO or device, which stalls by itself.
func Alone(path string) FileSystem { return FileSystem{path: path} }

// A Limiter limits how many goroutines use each file system. A slot exists while it is used or
// waited for; the last one exists until the next. Its methods are safe for concurrent use.
type Limiter struct {
	mounts        *mounts.Table
	perFileSystem int
	all           chan struct{} // a token for each holder of a slot, of all file systems

	mu           sync.Mutex
	byFileSystem map[FileSystem]*Slot
	last         *Slot // the one released last, perhaps unused: most often it is used next
}

// New returns a limiter for perFileSystem goroutines in each file system and total in all.
func New(m *mounts.Table, perFileSystem, total int) *Limiter {
	return &Limiter{
		mounts: m, perFileSystem: perFileSystem, all: make(chan struct{}, total),
		byFileSystem: make(map[FileSystem]*Slot),
	}
}

// PerFileSystem returns how many goroutines may use one file system at a time.
func (l *Limiter) PerFileSystem() int { return l.perFileSystem }

// A Slot is the right of its holders to access a file system, until each releases it.
type Slot struct {
	FileSystem FileSystem

	of   *Limiter
	held chan struct{} // a token for each holder

	// Guarded by of.mu:
	users   int       // goroutines that hold it or wait for it
	changed time.Time // when it became full, or a holder last released it since then
}

// Acquire waits for a slot in a file system. It returns nil if stop was closed first.
func (l *Limiter) Acquire(in FileSystem, stop <-chan struct{}) *Slot {
	s := l.addUser(in)
	if !put(s.held, stop) {
		s.removeUser(false)
		return nil
	}
	if !put(l.all, stop) {
		<-s.held
		s.removeUser(false)
		return nil
	}
	return s
}

// put puts a token into c as soon as there is room. It reports false if stop was closed first.
func put(c chan<- struct{}, stop <-chan struct{}) bool {
	select {
	case c <- struct{}{}:
		return true
	default:
	}
	select {
	case c <- struct{}{}:
		return true
	case <-stop:
		return false
	}
}

// Release returns the slot. s may be nil.
func (s *Slot) Release() {
	if s == nil {
		return
	}
	<-s.of.all
	<-s.held
	s.removeUser(true)
}

// Stalls reports whether all slots of a file system are in use, and none was released for
// stallsAfter. A worker that waits there should be replaced meanwhile.
func (l *Limiter) Stalls(in FileSystem) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slotOf(in)
	return s != nil && s.users >= l.perFileSystem && time.Since(s.changed) > stallsAfter
}

// Users returns how many goroutines hold a slot of a file system or wait for one.
func (l *Limiter) Users(in FileSystem) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.slotOf(in); s != nil {
		return s.users
	}
	return 0
}

// slotOf returns the slot of a file system, nil if there is none. The caller holds mu.
func (l *Limiter) slotOf(in FileSystem) *Slot {
	if l.last != nil && l.last.FileSystem == in {
		return l.last
	}
	return l.byFileSystem[in]
}

// addUser counts one more user of the slot of a file system.
func (l *Limiter) addUser(in FileSystem) *Slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slotOf(in)
	if s == nil {
		s = &Slot{of: l, FileSystem: in, held: make(chan struct{}, l.perFileSystem)}
		l.byFileSystem[in] = s
	}
	if s.users++; s.users == l.perFileSystem {
		s.changed = time.Now()
	}
	return s
}

// removeUser counts one user of s less. released reports whether it had the slot.
func (s *Slot) removeUser(released bool) {
	l := s.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if released && s.users >= l.perFileSystem {
		s.changed = time.Now()
	}
	if s.users--; s.users > 0 || s == l.last {
		return
	}
	if l.last != nil && l.last.users == 0 {
		delete(l.byFileSystem, l.last.FileSystem)
	}
	l.last = s
}
