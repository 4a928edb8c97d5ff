package linux

import (
	"slices"
	"sync"
	"time"

	"superd/internal/mounts"
)

const (
	startWorkers   = 4                      // starts under way at a time
	seatPatience   = 200 * time.Millisecond // after this a worker counts as hanging
	maxHanging     = 12                     // each takes a thread
	hangingInPlace = 4                      // limit of starts that hang in one place
	crowd          = 16                     // waiting starts that count as a crowd
)

// A startQueue runs starts in their order, a few at a time: a thousand runnable goroutines would
// delay the event loop. A start that hangs in a file system passes its slot to the next after a
// while, up to maxHanging. Where some hang in a place, further starts that would follow them there
// are set aside: neither a file system that does not answer nor a user that stops its children
// before exec can take all slots.
type startQueue struct {
	mounts mounts.Table

	mu      sync.Mutex // nothing blocks while it is held: the loop takes it
	waiting []*start
	aside   []*start // starts that were set aside
	off     int      // cancelled starts among both
	working int      // goroutines that don't hang
	hanging int
	hangsOn map[place]int // how many hang in each known place
	watched []*seat       // seats that may hang, by due
	// One timer for all watched seats, since most of these are released long before; nil before the
	// first.
	clock *time.Timer
	ticks bool // clock is pending

	// Called off the loop with true when a crowd begins to wait and with false when none waits any
	// more; may be nil.
	crowded func(bool)
	told    bool // last value passed to crowded
}

// A place is what a start hangs in: a file system, or the rights of a user. The zero place is
// unknown.
type place struct {
	device uint64
	user   string
}

// A start waits for its turn, or runs. Only run is required.
type start struct {
	run    func(*seat)
	paths  []string         // files that it will access
	user   string           // user of the child; empty: superd's
	at     func() string    // returns the file it accesses now
	child  func() byte      // returns the state of its child as in /proc; 0 without one
	passed func(why string) // called with the reason when it is set aside
	off    bool             // it was cancelled; guarded by the queue's mutex
}

// hangsAt returns where the start hangs, if it does. A start with a runnable child does not hang:
// the machine is slow.
func (s *start) hangsAt(m *mounts.Table) (at place, hangs bool) {
	state := byte(0)
	if s.child != nil {
		state = s.child()
	}
	switch {
	case state == stateRunning:
		return place{}, false
	case state == stateStopped:
		return place{user: s.user}, true
	case s.at != nil:
		return place{device: m.Device(s.at())}, true
	}
	return place{}, true
}

// States of processes. Source: proc_pid_stat(5).
const (
	stateRunning = 'R' // or it waits for a processor
	stateStopped = 'T' // by a signal
)

// A seat is a start's slot among those under way.
type seat struct {
	queue   *startQueue
	start   *start
	due     time.Time // when it counts as hanging, while it is watched
	settled bool      // it has passed all that may hang
	hangs   bool      // it was hanging; another start may have its slot meanwhile
	place   place     // where it hangs
}

// add runs s when its turn has come.
func (q *startQueue) add(s *start) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, s)
	q.fill()
}

// drop cancels s if it waits.
func (q *startQueue) drop(s *start) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.off = true
	if q.off++; q.off > (len(q.waiting)+len(q.aside))/2 {
		off := func(s *start) bool { return s.off }
		q.waiting, q.aside, q.off = slices.DeleteFunc(q.waiting, off), slices.DeleteFunc(q.aside, off), 0
	}
}

// fill starts workers for the waiting starts. The caller holds q.mu.
func (q *startQueue) fill() {
	if q.working < startWorkers && len(q.waiting) > 0 {
		q.working++
		go q.work()
	}
}

// work runs starts until none waits, or there are enough other workers.
func (q *startQueue) work() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.working <= startWorkers {
		next := q.next()
		q.tellCrowd()
		if next == nil {
			break
		}
		s := q.sit(next)
		q.fill()
		q.mu.Unlock()
		next.run(s)
		s.settle()
		q.mu.Lock()
		if s.hangs {
			q.hanging--
			q.working++
			q.comeBack(s.place)
		}
	}
	q.working--
}

// next removes the first start that would not follow others that hang; nil without one. The caller
// holds q.mu.
func (q *startQueue) next() *start {
	for len(q.waiting) > 0 {
		s := q.waiting[0]
		q.waiting[0] = nil
		if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
			q.waiting = nil
		}
		if s.off {
			q.off--
			continue
		}
		if len(q.hangsOn) == 0 {
			return s
		}
		q.mu.Unlock()
		devices := make([]uint64, len(s.paths))
		for i, path := range s.paths {
			devices[i] = q.mounts.Device(path)
		}
		q.mu.Lock()
		i := slices.IndexFunc(devices, func(d uint64) bool { return q.full(place{device: d}) })
		switch {
		case i >= 0:
			s.passed("on the file system of " + s.paths[i])
		case q.full(place{user: s.user}):
			s.passed("a signal stopped those of user " + s.user)
		default:
			return s
		}
		q.aside = append(q.aside, s)
	}
	return nil
}

// full reports whether no further start may follow those that hang in a place. The caller holds
// q.mu.
func (q *startQueue) full(at place) bool { return at != place{} && q.hangsOn[at] >= hangingInPlace }

// tellCrowd reports the begin and the end of a crowd. The caller holds q.mu.
func (q *startQueue) tellCrowd() {
	many := len(q.waiting) >= crowd
	if q.crowded != nil && (many && !q.told || len(q.waiting) == 0 && q.told) {
		q.told = many
		q.crowded(many)
	}
}

// comeBack handles the return of a start that hung in a place: the starts set aside wait again. The
// caller holds q.mu.
func (q *startQueue) comeBack(from place) {
	if from == (place{}) {
		return
	}
	if q.hangsOn[from]--; q.hangsOn[from] == 0 {
		delete(q.hangsOn, from)
	}
	q.waiting = append(q.aside, q.waiting...)
	q.aside = nil
}

// sit gives a start its seat. The caller holds q.mu.
func (q *startQueue) sit(start *start) *seat {
	s := &seat{queue: q, start: start}
	q.watch(s)
	return s
}

// watch makes s give way when it takes too long. The caller holds q.mu.
func (q *startQueue) watch(s *seat) {
	s.due = time.Now().Add(seatPatience)
	q.watched = append(q.watched, s)
	if !q.ticks {
		q.tick(seatPatience)
	}
}

// tick arms the timer of the watched seats. The caller holds q.mu.
func (q *startQueue) tick(after time.Duration) {
	q.ticks = true
	if q.clock == nil {
		q.clock = time.AfterFunc(after, q.lookAfter)
	} else {
		q.clock.Reset(after)
	}
}

// lookAfter makes the overdue seats give way.
func (q *startQueue) lookAfter() {
	q.mu.Lock()
	now := time.Now()
	n := slices.IndexFunc(q.watched, func(s *seat) bool { return s.due.After(now) })
	if n < 0 {
		n = len(q.watched)
	}
	late := slices.Clone(q.watched[:n])
	q.watched = slices.Delete(q.watched, 0, n)
	if q.ticks = false; len(q.watched) > 0 {
		q.tick(q.watched[0].due.Sub(now))
	}
	q.mu.Unlock()
	for _, s := range late {
		s.giveWay()
	}
}

// giveWay passes the slot of a start that hangs to another one.
func (s *seat) giveWay() {
	q := s.queue
	at, hangs := s.start.hangsAt(&q.mounts)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	// It has passed, and may hang in something else since
	case s.settled || s.hangs || time.Now().Before(s.due):
	case !hangs || q.hanging == maxHanging: // it, or a hanging one, may still pass
		q.watch(s)
	default:
		s.hangs, s.place = true, at
		q.hanging++
		q.working--
		if at != (place{}) {
			if q.hangsOn == nil {
				q.hangsOn = map[place]int{}
			}
			q.hangsOn[at]++
		}
		q.fill()
	}
}

// settle records that the start keeps its slot: it has passed all that may hang.
func (s *seat) settle() {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	s.settled = true
	q.unwatch(s)
}

// mayHang records that the start may hang from now on, whatever it has passed before.
func (s *seat) mayHang() {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unwatch(s)
	if s.settled = false; !s.hangs {
		q.watch(s)
	}
}

// unwatch stops watching s. The caller holds q.mu.
func (q *startQueue) unwatch(s *seat) {
	q.watched = slices.DeleteFunc(q.watched, func(other *seat) bool { return other == s })
}
