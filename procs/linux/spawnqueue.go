package linux

import (
	"slices"
	"sync"
	"time"

	"superd/internal/mounts"
)

const (
	startWorkers       = 4                      // starts in progress at a time
	hangTimeout        = 200 * time.Millisecond // after this a start in progress counts as hanging
	maxHanging         = 12                     // each takes a thread
	maxHangingPerCause = 4
	crowdSize          = 16 // waiting starts that count as a crowd
)

// A startQueue runs starts in their order, a few at a time: a thousand runnable goroutines would
// delay the event loop. A start that hangs releases its slot to the next one after hangTimeout, up
// to maxHanging. Where some hang for one cause, further starts that would hang for it are deferred.
// So neither a file system that does not answer nor a user that stops children before their exec
// can take all slots.
type startQueue struct {
	mounts mounts.Table

	mu        sync.Mutex // nothing blocks while it is held: the loop takes it
	waiting   []*start
	deferred  []*start
	cancelled int // cancelled starts among both
	working   int // goroutines that do not hang
	hanging   int
	hangs     map[hangCause]int // hanging starts by known cause

	// Called off the loop with true when a crowd begins to wait and with false when none waits any
	// more; may be nil.
	crowded       func(bool)
	crowdReported bool // last value passed to crowded
}

// A hangCause is why a start hangs: the file system that it accesses, or the user who stopped its
// child. The zero value is unknown.
type hangCause struct {
	device uint64
	user   string
}

// A start waits in the queue, or is in progress. Only run is required.
type start struct {
	run       func(*startSlot)
	paths     []string         // files that it will access
	user      string           // user of the child; empty: superd's
	path      func() string    // returns the file that it accesses now
	child     func() byte      // returns the state of its child as in /proc; 0 without one
	onDefer   func(why string) // called with the reason when it is deferred
	queued    bool             // in the queue; guarded by its mutex, as cancelled
	cancelled bool
}

// hangCause reports whether the start hangs, and returns why. A start with a runnable child does
// not hang: the machine is slow.
func (s *start) hangCause(m *mounts.Table) (why hangCause, hangs bool) {
	state := byte(0)
	if s.child != nil {
		state = s.child()
	}
	switch {
	case state == stateRunning:
		return hangCause{}, false
	case state == stateStopped:
		return hangCause{user: s.user}, true
	case s.path != nil:
		return hangCause{device: m.Device(s.path())}, true
	}
	return hangCause{}, true
}

// States of processes. Source: proc_pid_stat(5).
const (
	stateRunning = 'R' // or it waits for a processor
	stateStopped = 'T' // by a signal
)

// A startSlot is the right of a start to be in progress, until it hangs. Its fields are guarded by
// the queue's mutex.
type startSlot struct {
	queue *startQueue
	start *start
	timer *time.Timer // runs checkHang
	due   time.Time   // when checkHang may find that it hangs; zero: never
	hangs bool        // it was hanging; another start may have its slot meanwhile
	cause hangCause   // why it hangs
}

// add runs s when it is its turn.
func (q *startQueue) add(s *start) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.queued = true
	q.waiting = append(q.waiting, s)
	q.startWorker()
}

// cancel removes s if it waits. A start that a worker has taken is not deferred any more.
func (q *startQueue) cancel(s *start) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.cancelled = true
	if !s.queued {
		return
	}
	if q.cancelled++; q.cancelled > (len(q.waiting)+len(q.deferred))/2 {
		cancelled := func(s *start) bool { return s.cancelled }
		q.waiting = slices.DeleteFunc(q.waiting, cancelled)
		q.deferred = slices.DeleteFunc(q.deferred, cancelled)
		q.cancelled = 0
	}
}

// startWorker starts a worker if starts wait and there are too few workers. The caller holds q.mu.
func (q *startQueue) startWorker() {
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
		q.reportCrowd()
		if next == nil {
			break
		}
		s := q.newSlot(next)
		q.startWorker()
		q.mu.Unlock()
		next.run(s)
		q.mu.Lock()
		s.unwatch()
		if s.hangs {
			q.hanging--
			q.working++
			q.forgetHang(s.cause)
		}
	}
	q.working--
}

// next removes and returns the first start that may run. It defers starts that would hang. It
// returns nil if there is none. The caller holds q.mu.
func (q *startQueue) next() *start {
	for {
		s := q.take()
		if s == nil || len(q.hangs) == 0 {
			return s
		}
		q.mu.Unlock()
		devices := make([]uint64, len(s.paths))
		for i, path := range s.paths {
			devices[i] = q.mounts.Device(path)
		}
		q.mu.Lock()
		if q.mayRun(s, devices) {
			return s
		}
	}
}

// take removes and returns the first start that waits, nil if there is none. The caller holds q.mu.
func (q *startQueue) take() *start {
	for len(q.waiting) > 0 {
		s := q.waiting[0]
		q.waiting[0] = nil
		if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
			q.waiting = nil
		}
		s.queued = false
		if !s.cancelled {
			return s
		}
		q.cancelled--
	}
	return nil
}

// mayRun reports whether s, which was taken, may run. devices are those of its paths. If it would
// hang it is deferred, unless it was cancelled since it was taken. The caller holds q.mu.
func (q *startQueue) mayRun(s *start, devices []uint64) bool {
	if s.cancelled {
		return false
	}
	i := slices.IndexFunc(devices, func(d uint64) bool { return q.isFull(hangCause{device: d}) })
	switch {
	case i >= 0:
		s.onDefer("on the file system of " + s.paths[i])
	case q.isFull(hangCause{user: s.user}):
		s.onDefer("a signal stopped those of user " + s.user)
	default:
		return true
	}
	s.queued = true
	q.deferred = append(q.deferred, s)
	return false
}

// isFull reports whether as many starts as may hang for a cause do. The caller holds q.mu.
func (q *startQueue) isFull(why hangCause) bool {
	return why != hangCause{} && q.hangs[why] >= maxHangingPerCause
}

// reportCrowd reports the begin and the end of a crowd. The caller holds q.mu.
func (q *startQueue) reportCrowd() {
	many := len(q.waiting) >= crowdSize
	if q.crowded != nil && (many && !q.crowdReported || len(q.waiting) == 0 && q.crowdReported) {
		q.crowdReported = many
		q.crowded(many)
	}
}

// forgetHang handles the end of a hang: the deferred starts wait again. The caller holds q.mu.
func (q *startQueue) forgetHang(why hangCause) {
	if why == (hangCause{}) {
		return
	}
	if q.hangs[why]--; q.hangs[why] == 0 {
		delete(q.hangs, why)
	}
	q.waiting = append(q.deferred, q.waiting...)
	q.deferred = nil
}

// newSlot returns the slot of a start that begins. The caller holds q.mu.
func (q *startQueue) newSlot(start *start) *startSlot {
	s := &startSlot{queue: q, start: start}
	s.watch()
	return s
}

// mayHang notes that the start may hang from now on, whatever it has completed before.
func (s *startSlot) mayHang() {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if !s.hangs {
		s.watch()
	}
}

// watch checks after hangTimeout whether the start hangs. The caller holds q.mu.
func (s *startSlot) watch() {
	s.due = time.Now().Add(hangTimeout)
	if s.timer == nil {
		s.timer = time.AfterFunc(hangTimeout, s.checkHang)
	} else {
		s.timer.Reset(hangTimeout)
	}
}

// unwatch ends the check: nothing that may hang remains. The caller holds q.mu.
func (s *startSlot) unwatch() {
	s.due = time.Time{}
	s.timer.Stop()
}

// checkHang releases the slot of a start that hangs.
func (s *startSlot) checkHang() {
	q := s.queue
	why, hangs := s.start.hangCause(&q.mounts)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case s.hangs || s.due.IsZero() || time.Now().Before(s.due): // it has made progress meanwhile
	case !hangs || q.hanging == maxHanging: // it, or one that hangs, may still continue
		s.watch()
	default:
		s.hangs, s.cause = true, why
		q.hanging++
		q.working--
		if why != (hangCause{}) {
			if q.hangs == nil {
				q.hangs = map[hangCause]int{}
			}
			q.hangs[why]++
		}
		q.startWorker()
	}
}
