package procs

import (
	"slices"
	"sync"
	"time"

	"superd/mounts"
)

const (
	workers        = 4                      // starts under way at a time
	seatPatience   = 200 * time.Millisecond // then a worker hangs, rather than works
	maxHanging     = 12                     // each takes a thread
	hangingOnMount = 4                      // then no others are sent after them
	crowd          = 16                     // starts that wait, with which superd itself has to be seen to
)

// A startQueue runs starts in the order in which they came, a few at a time: a thousand goroutines that want to run would
// hold up the one of the loop. A start that hangs in a file system leaves its place to the next after a while, so
// that the others don't wait for it, as long as there are not too many of these. Where some hang already, those that would follow
// them are passed over: a file system that does not answer must not take all places.
type startQueue struct {
	mounts mounts.Table

	mu      sync.Mutex // nobody blocks with it: the loop takes it
	waiting []*start
	aside   []*start // were passed over
	off     int      // among both, were called off
	working int      // goroutines that don't hang
	hanging int
	hangsOn map[uint64]int // how many of these on which device, as far as that is known
	watched []*seat        // that may hang, by due
	clock   *time.Timer    // of these: one for all, since most are through long before; nil: there was none yet
	ticks   bool           // it is pending

	crowded func(bool) // is told, off the loop, when many begin to wait and when nobody waits any more; nil: nobody wants to know
	told    bool       // so it is
}

// A start waits for its turn, or has it. The last three may be left out.
type start struct {
	run    func(*seat)
	paths  []string          // what it will look at
	at     func() string     // what it looks at now
	passed func(path string) // tells that it is passed over for the sake of path
	off    bool              // was called off; guarded by the queue's mutex
}

// A seat is a start's place among those under way.
type seat struct {
	queue   *startQueue
	start   *start
	due     time.Time // when it counts as hanging, while it is watched
	settled bool      // it has come through what may hang
	hangs   bool      // so it did; others may work meanwhile
	device  uint64    // where it hangs; 0: not known
}

// add has s run when its turn has come.
func (q *startQueue) add(s *start) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, s)
	q.fill()
}

// drop has s not run, if it waits.
func (q *startQueue) drop(s *start) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.off = true
	if q.off++; q.off > (len(q.waiting)+len(q.aside))/2 {
		off := func(s *start) bool { return s.off }
		q.waiting, q.aside, q.off = slices.DeleteFunc(q.waiting, off), slices.DeleteFunc(q.aside, off), 0
	}
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
	for q.working <= workers {
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
			q.comeBack(s.device)
		}
	}
	q.working--
}

// next takes the first one from the queue that would not hang where others do; nil if there is none. The caller holds q.mu.
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
		i := slices.IndexFunc(devices, func(d uint64) bool { return q.hangsOn[d] >= hangingOnMount })
		if i < 0 {
			return s
		}
		s.passed(s.paths[i])
		q.aside = append(q.aside, s)
	}
	return nil
}

// tellCrowd tells whether many wait. The caller holds q.mu.
func (q *startQueue) tellCrowd() {
	many := len(q.waiting) >= crowd
	if q.crowded != nil && (many && !q.told || len(q.waiting) == 0 && q.told) {
		q.told = many
		q.crowded(many)
	}
}

// comeBack is told that one has come back who had hung on a device. The caller holds q.mu.
func (q *startQueue) comeBack(device uint64) {
	if device == 0 {
		return
	}
	if q.hangsOn[device]--; q.hangsOn[device] == 0 {
		delete(q.hangsOn, device)
	}
	q.waiting = append(q.aside, q.waiting...)
	q.aside = nil
}

// sit gives a start its place. The caller holds q.mu.
func (q *startQueue) sit(start *start) *seat {
	s := &seat{queue: q, start: start}
	q.watch(s)
	return s
}

// watch has s give way when it takes too long. The caller holds q.mu.
func (q *startQueue) watch(s *seat) {
	s.due = time.Now().Add(seatPatience)
	q.watched = append(q.watched, s)
	if !q.ticks {
		q.tick(seatPatience)
	}
}

// tick has the watched looked after. The caller holds q.mu.
func (q *startQueue) tick(after time.Duration) {
	q.ticks = true
	if q.clock == nil {
		q.clock = time.AfterFunc(after, q.lookAfter)
	} else {
		q.clock.Reset(after)
	}
}

// lookAfter has those give way who are late.
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

// giveWay lets another start go on instead of one that hangs.
func (s *seat) giveWay() {
	q := s.queue
	var device uint64
	if s.start.at != nil {
		device = q.mounts.Device(s.start.at())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case s.settled || s.hangs || time.Now().Before(s.due): // it has come through, and may hang in something else since
	case q.hanging == maxHanging:
		q.watch(s) // some of these may come back
	default:
		s.hangs, s.device = true, device
		q.hanging++
		q.working--
		if device != 0 {
			if q.hangsOn == nil {
				q.hangsOn = map[uint64]int{}
			}
			q.hangsOn[device]++
		}
		q.fill()
	}
}

// settle tells that the start keeps its place from now on: it has come through what may hang.
func (s *seat) settle() {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	s.settled = true
	q.watched = slices.DeleteFunc(q.watched, func(other *seat) bool { return other == s })
}

// mayHang tells that it may hang from now on.
func (s *seat) mayHang() {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	s.settled = false
	q.watch(s)
}
