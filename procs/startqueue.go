package procs

import (
	"sync"
	"time"
)

const (
	workers      = 4                      // starts under way at a time; the kernel makes one fork after the other
	seatPatience = 200 * time.Millisecond // then a worker hangs, rather than works
	maxHanging   = 12                     // each takes a thread
	crowd        = 16                     // starts that wait, with which superd itself has to be seen to
)

// A startQueue runs starts in the order in which they came, a few at a time: a thousand goroutines that want to run would
// hold up the one of the loop. A start that hangs in a file system leaves its place to the next after a while, so
// that the others don't wait for it, as long as there are not too many of these.
type startQueue struct {
	mu      sync.Mutex
	waiting []func(*seat)
	working int // goroutines that don't hang
	hanging int
	crowded func(bool) // is told, off the loop, when many begin to wait and when nobody waits any more; nil: nobody wants to know
	told    bool       // so it is
}

// A seat is a start's place among those under way.
type seat struct {
	queue   *startQueue
	timer   *time.Timer
	settled bool // it has come through what may hang
	hangs   bool // so it did; others may work meanwhile
}

// add has start run when its turn has come.
func (q *startQueue) add(start func(*seat)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, start)
	q.fill()
}

// fill brings up workers for those who wait. The caller holds q.mu.
func (q *startQueue) fill() {
	if q.working < workers && len(q.waiting) > 0 {
		q.working++
		go q.work()
	}
}

// work runs starts until there are none, or enough others who do.
func (q *startQueue) work() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.working <= workers && len(q.waiting) > 0 {
		start := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		if len(q.waiting) == 0 {
			q.waiting = nil
		}
		if many := len(q.waiting) >= crowd; q.crowded != nil && (many && !q.told || q.waiting == nil && q.told) {
			q.told = many
			q.crowded(many)
		}
		s := q.sit()
		q.fill()
		q.mu.Unlock()
		start(s)
		s.settle()
		q.mu.Lock()
		if s.hangs {
			q.hanging--
			q.working++
		}
	}
	q.working--
}

// sit gives a start its place.
func (q *startQueue) sit() *seat {
	s := &seat{queue: q}
	s.timer = time.AfterFunc(seatPatience, s.giveWay)
	return s
}

// giveWay lets another start go on instead of one that hangs.
func (s *seat) giveWay() {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if !s.settled && !s.hangs && q.hanging < maxHanging {
		s.hangs = true
		q.hanging++
		q.working--
		q.fill()
	}
}

// settle tells that the start keeps its place from now on: it has come through what may hang.
func (s *seat) settle() {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.timer.Stop()
	s.settled = true
}

// mayHang tells that it may hang from now on.
func (s *seat) mayHang() {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.settled = false
	s.timer.Reset(seatPatience)
}
