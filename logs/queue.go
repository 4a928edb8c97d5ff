package logs

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// A Queue is a writer that does not block: what is written to it is copied, and a goroutine passes it on. It is for
// superd's own messages, whose reader may stall while the loop may not. Writes beyond its limit are dropped whole and
// counted; a line tells how many when it goes on.
type Queue struct {
	out   io.Writer
	limit int // bytes

	mu      sync.Mutex
	changed sync.Cond
	waiting [][]byte
	size    int
	dropped int
	closed  bool
	asked   bool        // those that wait are to be passed on
	soon    bool        // Pass is to be called for some that wait, see Later
	late    *time.Timer // calls it where nobody does; nil: never needed. It runs only while soon
	ended   chan struct{}
}

// queuePiece is written at a time, so that others may write to the same pipe: PIPE_BUF.
const queuePiece = 4 << 10

// passPatience is how long messages wait for others at most, whatever becomes of whoever is to call Pass.
const passPatience = 100 * time.Millisecond

// NewQueue returns a queue before out that holds at most limit bytes.
func NewQueue(out io.Writer, limit int) *Queue {
	q := newQueue(out, limit)
	go q.run()
	return q
}

func newQueue(out io.Writer, limit int) *Queue {
	q := &Queue{out: out, limit: limit, ended: make(chan struct{})}
	q.changed.L = &q.mu
	return q
}

// Write queues a copy of p. It never fails and never blocks.
func (q *Queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(p)
	q.asked = true
	q.changed.Signal()
	return len(p), nil
}

// add queues a copy of p. The caller holds q.mu.
func (q *Queue) add(p []byte) {
	if q.closed || q.size+len(p) > q.limit {
		q.dropped++
		return
	}
	q.waiting = append(q.waiting, append([]byte(nil), p...))
	q.size += len(p)
}

// Later returns a writer to q whose messages wait for others: soon, which must not block, is called when there are some, and has
// [Queue.Pass] called in a while; when it hangs, they are passed on nevertheless. So a storm of messages wakes nobody for each of them.
func (q *Queue) Later(soon func()) io.Writer { return later{q, soon} }

// A later is what Later returns.
type later struct {
	*Queue
	soon func()
}

// Write queues a copy of p.
func (l later) Write(p []byte) (int, error) {
	q := l.Queue
	q.mu.Lock()
	q.add(p)
	first := !q.soon && !q.closed
	if first {
		q.soon = true
		if q.late == nil {
			q.late = time.AfterFunc(passPatience, q.Pass)
		} else {
			q.late.Reset(passPatience)
		}
	}
	q.mu.Unlock()
	if first {
		l.soon()
	}
	return len(p), nil
}

// Pass has the messages passed on that wait.
func (q *Queue) Pass() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.soon {
		q.soon = false
		q.late.Stop()
	}
	if len(q.waiting) > 0 || q.dropped > 0 {
		q.asked = true
		q.changed.Signal()
	}
}

// Idle reports whether all that was written to it has been passed on.
func (q *Queue) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size == 0 && q.dropped == 0
}

// Close stops taking writes and waits, for at most patience, until what is queued has been written.
func (q *Queue) Close(patience time.Duration) {
	q.mu.Lock()
	q.closed = true
	q.changed.Signal()
	q.mu.Unlock()
	select {
	case <-q.ended:
	case <-time.After(patience):
	}
}

func (q *Queue) run() {
	defer close(q.ended)
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for !q.asked && !q.closed {
			q.changed.Wait()
		}
		q.asked = false
		if len(q.waiting) == 0 && q.dropped == 0 {
			if q.closed {
				return
			}
			continue // they have gone with others
		}
		batch, dropped := q.waiting, q.dropped
		q.waiting, q.dropped = nil, 0
		q.mu.Unlock()
		q.pass(batch)
		if dropped > 0 {
			fmt.Fprintf(q.out, "superd: %d messages dropped: the reader of this log was too slow\n", dropped)
		}
		q.mu.Lock()
		for _, p := range batch {
			q.size -= len(p)
		}
	}
}

// pass writes messages, as many at a time as fit into a piece. An error has no place to be told: the place to tell it is out itself.
func (q *Queue) pass(messages [][]byte) {
	var piece []byte
	for i, p := range messages {
		piece = append(piece, p...)
		if i == len(messages)-1 || len(piece)+len(messages[i+1]) > queuePiece {
			q.out.Write(piece)
			piece = piece[:0]
		}
	}
}
