package task

// A waiter is the position of a task in a queue: that of the scheduler, or of the tasks that wait
// for a task's end or for a future.
type waiter struct {
	task       *Task
	gather     *gather  // the task waits for several: see Gather
	in         *waiters // nil: in no queue
	prev, next *waiter
}

// Waiters are a queue of tasks.
type waiters struct{ first, last *waiter }

func (q *waiters) push(w *waiter) {
	w.in, w.prev = q, q.last
	if q.last != nil {
		q.last.next = w
	} else {
		q.first = w
	}
	q.last = w
}

func (q *waiters) pop() *waiter {
	w := q.first
	w.unlink()
	return w
}

// unlink removes w from its queue, if it is in one.
func (w *waiter) unlink() {
	q := w.in
	if q == nil {
		return
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
	w.in, w.prev, w.next = nil, nil, nil
}

// wakeAll wakes all tasks in the queue. child is the task whose end they wait for, if any.
func (q *waiters) wakeAll(child *Task) {
	for q.first != nil {
		w := q.pop()
		if w.gather != nil {
			w.gather.ended(child)
		} else {
			w.task.wake()
		}
	}
}
