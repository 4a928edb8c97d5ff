// Package logqueue writes superd's own messages without blocking who has them.
package logqueue

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// A Queue is a writer that does not block: a goroutine writes copies of the messages to another
// writer. It is for superd's own messages: their reader may stall, but the loop may not. Messages
// beyond the limit are dropped whole and counted; a line reports how many when output continues.
type Queue struct {
	out   io.Writer
	limit int // bytes

	mu             sync.Mutex
	changed        sync.Cond
	waiting        [][]byte
	size           int
	dropped        int
	closed         bool
	flushRequested bool        // waiting messages have to be written
	batchPending   bool        // Flush has to be called for waiting messages, see Batched
	batchTimer     *time.Timer // calls Flush while batchPending; nil: never needed
	ended          chan struct{}
}

// queuePiece is how many bytes are written at a time: PIPE_BUF, so that others may write to the
// same pipe.
const queuePiece = 4 << 10

// maxBatchDelay is how long messages wait at most if Flush is not called.
const maxBatchDelay = 100 * time.Millisecond

// New returns a queue that writes to out and stores at most limit bytes.
func New(out io.Writer, limit int) *Queue {
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
	q.flushRequested = true
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

// Batched returns a writer to q whose messages are written in batches. It calls onPending, which
// must not block, for the first message; onPending has to arrange a later call of [Queue.Flush].
// Without that call they are written after maxBatchDelay. So a burst of messages does not wake the
// goroutine for each.
func (q *Queue) Batched(onPending func()) io.Writer { return batchWriter{q, onPending} }

// A batchWriter is the writer that Batched returns.
type batchWriter struct {
	*Queue
	onPending func()
}

// Write queues a copy of p.
func (l batchWriter) Write(p []byte) (int, error) {
	q := l.Queue
	q.mu.Lock()
	q.add(p)
	first := !q.batchPending && !q.closed
	if first {
		q.batchPending = true
		if q.batchTimer == nil {
			q.batchTimer = time.AfterFunc(maxBatchDelay, q.Flush)
		} else {
			q.batchTimer.Reset(maxBatchDelay)
		}
	}
	q.mu.Unlock()
	if first {
		l.onPending()
	}
	return len(p), nil
}

// Flush makes the goroutine write the messages that wait.
func (q *Queue) Flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.batchPending {
		q.batchPending = false
		q.batchTimer.Stop()
	}
	if len(q.waiting) > 0 || q.dropped > 0 {
		q.flushRequested = true
		q.changed.Signal()
	}
}

// Idle reports whether all messages are written.
func (q *Queue) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size == 0 && q.dropped == 0
}

// Close rejects further writes and waits until what is queued is written, for timeout at most.
func (q *Queue) Close(timeout time.Duration) {
	q.mu.Lock()
	q.closed = true
	q.changed.Signal()
	q.mu.Unlock()
	select {
	case <-q.ended:
	case <-time.After(timeout):
	}
}

func (q *Queue) run() {
	defer close(q.ended)
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for !q.flushRequested && !q.closed {
			q.changed.Wait()
		}
		q.flushRequested = false
		if len(q.waiting) == 0 && q.dropped == 0 {
			if q.closed {
				return
			}
			continue // they were written with others
		}
		batch, dropped := q.waiting, q.dropped
		q.waiting, q.dropped = nil, 0
		q.mu.Unlock()
		q.writePieces(batch)
		if dropped > 0 {
			fmt.Fprintf(q.out, "superd: %d messages dropped: the reader of this log was too slow\n", dropped)
		}
		q.mu.Lock()
		for _, p := range batch {
			q.size -= len(p)
		}
	}
}

// writePieces writes messages, as many at a time as fit into a piece. It ignores errors, as out is
// where they would be logged.
func (q *Queue) writePieces(messages [][]byte) {
	var piece []byte
	for i, p := range messages {
		piece = append(piece, p...)
		if i == len(messages)-1 || len(piece)+len(messages[i+1]) > queuePiece {
			q.out.Write(piece)
			piece = piece[:0]
		}
	}
}
