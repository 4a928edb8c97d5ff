package logs

import (
	"path/filepath"
	"sync"
)

// How many goroutines may be in the hands of one file system at once. Each may hold a thread and a buffer for as long as the
// file system stalls.
const (
	writersPerPlace = 4
	readersPerPlace = 4
)

// And in the hands of all of them.
const (
	maxWriters = 12
	maxReaders = 8
)

// Threads is how many threads the captures of a [Store], its archive, superd's standard output and a [Queue] may keep waiting in the kernel.
const Threads = maxWriters + maxReaders + maxLingering + 3

// A place is what may stall as one: a file system or, until a file on it is open and tells which one that is, a
// directory. The one or the other is set.
type place struct {
	device    uint64 // st_dev
	directory string
}

func placeOf(path string, file identity) place {
	if file == (identity{}) {
		return place{directory: filepath.Dir(path)}
	}
	return place{device: file.device}
}

// slots bounds the goroutines at work in each place. A gate exists while someone uses or wants it.
type slots struct {
	perPlace int
	all      chan struct{} // holds a token for each slot that is taken, wherever

	mu    sync.Mutex
	gates map[place]*gate
}

func newSlots(perPlace, all int) slots {
	return slots{perPlace: perPlace, all: make(chan struct{}, all), gates: make(map[place]*gate)}
}

type gate struct {
	seats chan struct{} // taken in the order in which they were asked for, as a channel serves its senders
	users int           // those who hold a seat or wait for one
}

// acquire waits for a slot at p. It reports whether it got one before quit was closed.
func (s *slots) acquire(p place, quit <-chan struct{}) bool {
	s.mu.Lock()
	g := s.gates[p]
	if g == nil {
		g = &gate{seats: make(chan struct{}, s.perPlace)}
		s.gates[p] = g
	}
	g.users++
	s.mu.Unlock()
	select {
	case g.seats <- struct{}{}:
	case <-quit:
		s.leave(p, g)
		return false
	}
	select {
	case s.all <- struct{}{}:
		return true
	case <-quit:
		<-g.seats
		s.leave(p, g)
		return false
	}
}

// release gives back a slot at p.
func (s *slots) release(p place) {
	s.mu.Lock()
	g := s.gates[p]
	s.mu.Unlock()
	<-s.all
	<-g.seats
	s.leave(p, g)
}

func (s *slots) leave(p place, g *gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(s.gates, p)
	}
}
