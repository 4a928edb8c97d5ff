package task

import (
	"iter"

	"superd/loop"
)

// A sched switches between the tasks of one loop.
type sched struct {
	loop    *loop.Loop
	current *Task // nil: a callback runs
	active  bool  // it comes to the queue before the present callback ends
	posted  bool  // it comes to the queue in the next turn
	queue   waiters
	handover
	turn  uint64
	left  int // of what a turn may run from the queue
	drain func()
}

// batch is how many tasks of the queue a turn runs. They wake each other, so that without a bound the
// turn might never end.
const batch = 1024

func schedOf(l *loop.Loop) *sched {
	s := loop.Local[sched](l)
	if s.loop == nil {
		s.loop = l
		s.drain = func() {
			s.posted = false
			s.run(nil)
		}
	}
	return s
}

// push puts t into the queue.
func (s *sched) push(t *Task) {
	t.state = ready
	s.queue.push(&t.waiter)
	if !s.active && !s.posted {
		s.post()
	}
}

func (s *sched) post() {
	s.posted = true
	s.loop.Post(s.drain)
}

// run has t go on, if it is given, and then those in the queue.
func (s *sched) run(t *Task) {
	if turn := s.loop.Turns(); turn != s.turn {
		s.turn, s.left = turn, batch
	}
	s.active = true
	defer s.pause()
	if t != nil {
		s.resume(t)
	}
	for s.queue.first != nil && s.left > 0 {
		s.left--
		s.resume(s.queue.pop().task)
	}
}

// pause follows run, also after a panic.
func (s *sched) pause() {
	s.active = false
	if s.queue.first != nil && !s.posted {
		s.post()
	}
}

// resume has t run until it waits or returns. It may be called while another task runs, to end t.
func (s *sched) resume(t *Task) {
	outer := s.current
	s.current = t
	t.state = running
	if t.next == nil {
		t.next, _ = iter.Pull(t.body)
	}
	t.next()
	s.current = outer
	s.settleGuest()
	s.settle(t)
}

// settle follows the suspension or the return of t, on the side of the loop.
func (s *sched) settle(t *Task) {
	if t.state == returned {
		t.finish()
	} else {
		t.arm()
	}
}

// body is what the coroutine runs.
func (t *Task) body(yield func(struct{}) bool) {
	t.yield = yield
	defer t.catch()
	t.err = t.f(t)
}

// finish follows the return of f.
func (t *Task) finish() {
	t.f, t.next, t.yield, t.frames = nil, nil, nil, nil
	if t.fault != nil {
		t.err = t.fault
	}
	switch {
	case t.newest == nil:
	case t.closed:
		t.killChildren()
	case t.err != nil || t.canceled:
		t.cancelChildren()
	}
	if t.newest == nil && t.state != ended {
		t.end()
	}
}

// end follows the end of the last child, and may be that of the parents.
func (t *Task) end() {
	for t.state == returned && t.newest == nil {
		if t.scope != nil {
			t.scope.Close()
		}
		t.state = ended
		t.joiners.wakeAll(t)
		p := t.parent
		if p == nil {
			if t.hook != nil {
				t.hook.Stop()
			}
			if t.fault != nil {
				panic(t.fault)
			}
			return
		}
		t.leaveParent()
		if t.fault != nil {
			p.raise(t.fault)
		}
		t = p
	}
}

func (t *Task) leaveParent() {
	if t.newer != nil {
		t.newer.older = t.older
	} else {
		t.parent.newest = t.older
	}
	if t.older != nil {
		t.older.newer = t.newer
	}
	t.older, t.newer = nil, nil
}

// kill ends t and what is below it at once, since its scope is closed. A task that has called this waits
// for nothing any more and ends when its function returns.
func (t *Task) kill() {
	t.sched.callOff()
	t.close()
	t.killTree()
}

// close has every blocking call in t and below refused.
func (t *Task) close() {
	t.closed = true
	for c := t.newest; c != nil; c = c.older {
		c.close()
	}
}

func (t *Task) killTree() {
	t.killChildren()
	switch t.state {
	case ready, suspended:
		t.disarm()
		t.sched.resume(t)
	case returned:
		t.end()
	}
}

// killChildren ends the children, also those that the others start while they end.
func (t *Task) killChildren() {
	for c := t.newest; c != nil; {
		c.killTree()
		if c.state == ended {
			c = t.newest
		} else { // it has called this itself, or one below it has
			c = c.older
		}
	}
}
