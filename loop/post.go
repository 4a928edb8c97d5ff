package loop

import "time"

// A work is a posted function with the scope it belongs to.
type work struct {
	scope *Scope
	f     func()
}

// Post runs f on the loop, after all that was posted before. It may be called from any goroutine
// and does not block. Work posted in a turn runs in the next one. Once Root is closed, f is
// dropped.
func (l *Loop) Post(f func()) { l.root.Post(f) }

// Post runs f on the loop like [Loop.Post], unless s is closed by then. It may be called from any
// goroutine.
func (s *Scope) Post(f func()) {
	if l := s.loop; l.post(work{s, f}, false) {
		l.wake()
	}
}

// PostSoon runs f like [Loop.Post], but does not wake a gathering loop.
func (l *Loop) PostSoon(f func()) {
	if l.post(work{l.root, f}, true) {
		l.wake()
	}
}

// Gather makes work posted by [Loop.PostSoon] wait for another wakeup, or for at most pause: waking
// the loop for each of a thousand results costs more than running them. Meanwhile the loop wakes up
// after each pause. 0 ends gathering.
func (l *Loop) Gather(pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gathers = pause
}

// post queues w and reports whether the loop must be woken for it, once for a burst.
func (l *Loop) post(w work, soon bool) (wake bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if l.posted.first == nil {
		l.postedAt = l.poller.now()
	}
	l.posted.push(w, &l.free)
	if soon && l.gathers > 0 {
		return false
	}
	wake = l.sleeping
	l.sleeping = false
	return wake
}

// wake ends the loop's wait. It does not hold mu, which the loop needs next, but prevents the
// poller from being closed.
func (l *Loop) wake() {
	l.waking.RLock()
	defer l.waking.RUnlock()
	if !l.pollerClosed {
		l.poller.wake()
	}
}

// takePosted takes the work posted until now if all earlier work has been run. It returns when the
// oldest work to run was posted, never if there is none.
func (l *Loop) takePosted() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sleeping = false
	l.free.take(&l.used)
	if l.taken.first == nil {
		l.taken, l.posted = l.posted, queue{}
		l.takenAt = l.postedAt
	}
	if l.taken.first == nil {
		return never
	}
	return l.takenAt
}

// runPosted runs this turn's share of the work taken.
func (l *Loop) runPosted() {
	for n := 0; l.taken.first != nil && l.more(n); n++ {
		if w := l.taken.pop(&l.used); !w.scope.closed {
			w.f()
		}
	}
}

// A queue of work consists of chunks, so that a long one is not copied, and the memory of a burst
// is freed.
type queue struct{ first, last *chunk }

// A chunk is a part of a queue. In a queue it is not empty.
type chunk struct {
	next     *chunk
	from, to int // range of work that is in the queue
	work     [64]work
}

func (q *queue) push(w work, free *chunks) {
	if q.first == nil {
		q.first = free.get()
		q.last = q.first
	} else if q.last.to == len(q.last.work) {
		q.last.next = free.get()
		q.last = q.last.next
	}
	q.last.work[q.last.to] = w
	q.last.to++
}

func (q *queue) pop(used *chunks) work {
	c := q.first
	w := c.work[c.from]
	c.work[c.from] = work{}
	if c.from++; c.from == c.to {
		q.first = c.next
		used.put(c)
	}
	return w
}

// Chunks is a short list of empty chunks for reuse; its length is bounded, so that the memory of a
// burst is freed.
type chunks struct {
	first *chunk
	n     int
}

// maxChunks is how many empty chunks are kept.
const maxChunks = 16

func (s *chunks) get() *chunk {
	c := s.first
	if c == nil {
		return new(chunk)
	}
	s.first, c.next = c.next, nil
	s.n--
	return c
}

func (s *chunks) put(c *chunk) {
	if s.n < maxChunks {
		c.from, c.to, c.next = 0, 0, s.first
		s.first = c
		s.n++
	}
}

// take moves chunks from o to s.
func (s *chunks) take(o *chunks) {
	for o.first != nil && s.n < maxChunks {
		s.put(o.get())
	}
}
