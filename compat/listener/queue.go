package listener

import "slices"

// A queue has the events that wait for the listener.
type queue struct {
	waiting []numbered
	limit   int
	serial  int // of the next event
	dropped int // since takeDropped
}

// A numbered event has its serial numbers. One listener is served, so both count the same events.
type numbered struct {
	Event
	serial, poolSerial int
}

// add appends an event. If the queue is full, the oldest event is dropped.
func (q *queue) add(e Event) {
	q.room()
	q.waiting = append(q.waiting, numbered{e, q.serial, q.serial})
	q.serial++
}

// putBack makes an event the next one again, with its numbers.
func (q *queue) putBack(e numbered) {
	q.room()
	q.waiting = slices.Insert(q.waiting, 0, e)
}

func (q *queue) room() {
	if len(q.waiting) >= q.limit {
		q.waiting = slices.Delete(q.waiting, 0, 1)
		q.dropped++
	}
}

// next removes the oldest event.
func (q *queue) next() (e numbered, ok bool) {
	if len(q.waiting) == 0 {
		return numbered{}, false
	}
	e = q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	return e, true
}

// takeDropped returns how many events were dropped since the last call.
func (q *queue) takeDropped() int {
	n := q.dropped
	q.dropped = 0
	return n
}
