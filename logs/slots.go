package logs

import (
	"slices"
	"sync"
	"time"

	"superd/internal/mounts"
)

// How many goroutines may use one file system at once. Each may occupy a thread and a buffer while
// the file system stalls.
const (
	writersPerPlace = 4
	readersPerPlace = 4
)

// How many may use all file systems together; as many more may while others are late.
const (
	maxWriters = 8
	maxReaders = 6
)

// lateAfter is how long a slot is used before it counts as late and its token is passed on. A turn
// takes milliseconds.
const lateAfter = 200 * time.Millisecond

// Threads is how many threads the collectors of a [Store], its archive, superd's standard output
// and a [Queue] may block in the kernel.
const Threads = maxWaiting + 2*maxWriters + 2*maxReaders + maxWaitingForProgram + 3

// A place is what may stall as a unit: a file system or, if that is not known, a directory. One of
// the fields is set.
type place struct {
	device    uint64
	directory string
}

// slots limits the goroutines at work in each place. A gate exists while it is used or waited for;
// the last one exists until the next.
type slots struct {
	mounts   *mounts.Table
	perPlace int
	most     int           // may be at work in all places together, and as many be late
	all      chan struct{} // holds a token for each slot that is taken and not late

	mu    sync.Mutex
	gates map[place]*gate
	taken []*slot // in the order in which they were taken
	late  int     // how many of them are late
	last  *gate   // the gate left last, perhaps unused: mostly it is the next one
	free  []*slot // for reuse
}

func newSlots(m *mounts.Table, perPlace, most int) slots {
	return slots{mounts: m, perPlace: perPlace, most: most, all: make(chan struct{}, most), gates: make(map[place]*gate)}
}

type gate struct {
	place place
	seats chan struct{} // taken in the order of requests, as a channel serves its senders
	users int           // goroutines that have a seat or wait for one
}

// A slot is the right of its holder to access a file system, until its release.
type slot struct {
	of    *slots
	place place
	since time.Time
	late  bool // its token was passed on
}

// acquire waits for a slot at p. It returns nil if quit was closed first.
func (s *slots) acquire(p place, quit <-chan struct{}) *slot {
	s.mu.Lock()
	g := s.gateOf(p)
	g.users++
	if !s.sitNow(g) {
		s.mu.Unlock()
		if !s.sit(g, quit) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.leave(g)
			return nil
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	t := new(slot)
	if last := len(s.free) - 1; last >= 0 {
		t, s.free = s.free[last], s.free[:last]
	}
	*t = slot{of: s, place: p, since: time.Now()}
	s.taken = append(s.taken, t)
	return t
}

// stalls reports whether all seats of a place are taken, one of them for longer than
// workerPatience. A worker that waits there should let others work meanwhile.
func (s *slots) stalls(p place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gates[p]
	if s.last != nil && s.last.place == p {
		g = s.last
	}
	if g == nil || len(g.seats) < cap(g.seats) {
		return false
	}
	i := slices.IndexFunc(s.taken, func(t *slot) bool { return t.place == p })
	return i >= 0 && time.Since(s.taken[i].since) > workerPatience
}

// sitNow takes a seat and a token, and reports whether both were free.
func (s *slots) sitNow(g *gate) bool {
	select {
	case g.seats <- struct{}{}:
	default:
		return false
	}
	select {
	case s.all <- struct{}{}:
		return true
	default:
		<-g.seats
		return false
	}
}

// sit waits for a seat and a token. It reports false if quit was closed first.
func (s *slots) sit(g *gate, quit <-chan struct{}) bool {
	select {
	case g.seats <- struct{}{}:
	case <-quit:
		return false
	}
	if !s.token(quit) {
		<-g.seats
		return false
	}
	return true
}

// token waits for a token, also for those of late slots. It reports false if quit was closed first.
func (s *slots) token(quit <-chan struct{}) bool {
	for {
		select {
		case s.all <- struct{}{}:
			return true
		default:
		}
		timer := time.NewTimer(s.overtake())
		select {
		case s.all <- struct{}{}:
			timer.Stop()
			return true
		case <-timer.C:
		case <-quit:
			timer.Stop()
			return false
		}
	}
}

// overtake takes the tokens of late slots, and returns when the next slot may be late.
func (s *slots) overtake() (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, t := range s.taken {
		if t.late {
			continue
		}
		if wait := lateAfter - now.Sub(t.since); wait > 0 {
			return wait
		}
		if s.late == s.most {
			break
		}
		t.late = true
		s.late++
		<-s.all
	}
	return lateAfter
}

// release returns the slot. t may be nil.
func (t *slot) release() {
	if t == nil {
		return
	}
	s := t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.taken, t)
	s.taken = slices.Delete(s.taken, i, i+1)
	if t.late {
		s.late--
	} else {
		<-s.all
	}
	g := s.gateOf(t.place)
	<-g.seats
	s.leave(g)
	*t = slot{}
	s.free = append(s.free, t)
}

// gateOf returns the gate of a place. The caller holds mu.
func (s *slots) gateOf(p place) *gate {
	if s.last != nil && s.last.place == p {
		return s.last
	}
	g := s.gates[p]
	if g == nil {
		g = &gate{place: p, seats: make(chan struct{}, s.perPlace)}
		s.gates[p] = g
	}
	return g
}

// leave counts one user less of g. The caller holds mu.
func (s *slots) leave(g *gate) {
	if g.users--; g.users > 0 || g == s.last {
		return
	}
	if s.last != nil && s.last.users == 0 {
		delete(s.gates, s.last.place)
	}
	s.last = g
}
