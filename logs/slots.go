package logs

import (
	"slices"
	"sync"
	"time"

	"superd/mounts"
)

// How many goroutines may be in the hands of one file system at once. Each may hold a thread and a buffer for as long as the
// file system stalls.
const (
	writersPerPlace = 4
	readersPerPlace = 4
)

// And in the hands of all of them: at first so many, and as many again while others are late.
const (
	maxWriters = 8
	maxReaders = 6
)

// lateAfter is how long a slot is used before others don't wait for it any more. A turn takes milliseconds.
const lateAfter = 200 * time.Millisecond

// Threads is how many threads the captures of a [Store], its archive, superd's standard output and a [Queue] may keep waiting in the kernel.
const Threads = maxWaiting + 2*maxWriters + 2*maxReaders + maxLingering + 3

// A place is what may stall as one: a file system or, where nobody knows which one that is, a directory. The one or the other is set.
type place struct {
	device    uint64
	directory string
}

// slots bounds the goroutines at work in each place. A gate exists while someone uses or wants it, and the last one until the next.
type slots struct {
	mounts   *mounts.Table
	perPlace int
	most     int           // may be at work in all places together, and as many be late
	all      chan struct{} // holds a token for each slot that is taken and not late

	mu    sync.Mutex
	gates map[place]*gate
	taken []*slot // in the order in which they were
	late  int     // of those
	last  *gate   // the last one that was left, perhaps empty: mostly it is wanted next
	free  []*slot // nobody's
}

func newSlots(m *mounts.Table, perPlace, most int) slots {
	return slots{mounts: m, perPlace: perPlace, most: most, all: make(chan struct{}, most), gates: make(map[place]*gate)}
}

type gate struct {
	place place
	seats chan struct{} // taken in the order in which they were asked for, as a channel serves its senders
	users int           // those who hold a seat or wait for one
}

// A slot is what its holder may touch a file system with, until he releases it.
type slot struct {
	of    *slots
	place place
	since time.Time
	late  bool // its token was given to somebody else
}

// acquire waits for a slot at p. It is nil if quit was closed before there was one.
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

// stalls reports whether all seats of a place are taken, and one for so long that whoever waits for one there had best have others work meanwhile.
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
	return i >= 0 && time.Since(s.taken[i].since) > handPatience
}

// sitNow reports whether there was a seat and a token.
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

// sit waits for a seat and a token. It reports false if quit was closed before there were.
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

// token waits for a token, also for those of slots that are late. It reports whether it got one before quit was closed.
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

// overtake takes their tokens from slots that are late, and returns when the next one may be.
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
		<-s.all // its own
	}
	return lateAfter
}

// release gives the slot back. A nil slot is none.
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

// leave is for those who hold mu.
func (s *slots) leave(g *gate) {
	if g.users--; g.users > 0 || g == s.last {
		return
	}
	if s.last != nil && s.last.users == 0 {
		delete(s.gates, s.last.place)
	}
	s.last = g
}
