package logs

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// A Queue is a writer that does not block: a goroutine passes on copies of what is written. It is
// for superd's own messages: their reader may stall, but the loop may not. Writes beyond the limit
// are dropped whole and counted; a line says how many when output continues.
type Queue struct {
	out   io.Writer
	limit int // bytes

	mu      sync.Mutex
	changed sync.Cond
	waiting [][]byte
	size    int
	dropped int
	closed  bool
	asked   bool        // waiting messages have to be passed on
	soon    bool        // Pass has to be called for waiting messages, see Later
	late    *time.Timer // calls Pass as a fallback; runs only while soon; nil: never needed
	ended   chan struct{}
}

// queuePiece is how many bytes are written at a time: PIPE_BUF, so that others may write to the
// same pipe.
const queuePiece = 4 << 10

// passPatience is how long messages wait at most if Pass is not called.
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

// Later returns a writer to q whose messages are batched. It calls soon, which must not block, for
// the first message; soon has to arrange a later call of [Queue.Pass]. Without that call they are
// passed on after passPatience. So a burst of messages causes no wake-up for each.
func (q *Queue) Later(soon func()) io.Writer { return later{q, soon} }

// A later is the writer that Later returns.
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

// Pass passes on the messages that wait.
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

// Idle reports whether all that was written has been passed on.
func (q *Queue) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size == 0 && q.dropped == 0
}

// Close rejects further writes and waits, for at most patience, until what is queued has been
// written.
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
			continue // they were passed on with others
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

// pass writes messages, as many at a time as fit into a piece. It ignores errors, as out is where
// they would be logged.
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
