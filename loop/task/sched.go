package task

import (
	"iter"

	"superd/loop"
)

// A sched schedules the tasks of one loop.
type sched struct {
	loop    *loop.Loop
	current *Task // nil: a callback runs
	active  bool  // it will run the queue before the current callback ends
	posted  bool  // it will run the queue in the next turn
	queue   waiters
	handover
	turn      uint64
	remaining int // tasks that this turn may still run
	drain     func()
}

// batch is how many tasks of the queue a turn runs. Tasks wake each other, so that a turn without
// this limit might never end.
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

// push appends t to the queue.
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

// run resumes t, unless nil, and then the tasks in the queue.
func (s *sched) run(t *Task) {
	if turn := s.loop.Turns(); turn != s.turn {
		s.turn, s.remaining = turn, batch
	}
	s.active = true
	defer s.pause()
	if t != nil {
		s.resume(t)
	}
	for s.queue.first != nil && s.remaining > 0 {
		s.remaining--
		s.resume(s.queue.pop().task)
	}
}

// pause leaves the rest of the queue to the next turn. It runs at the end of run, also after a
// panic.
func (s *sched) pause() {
	s.active = false
	if s.queue.first != nil && !s.posted {
		s.post()
	}
}

// resume runs t until it waits or returns. It may be called while another task runs, to end t.
func (s *sched) resume(t *Task) {
	outer := s.current
	s.current = t
	t.state = running
	if t.next == nil {
		t.next, _ = iter.Pull(t.body)
	}
	t.next()
	s.current = outer
	s.afterGuestSwitch()
	s.afterSwitch(t)
}

// afterSwitch handles the suspension or the return of t, on the loop's stack.
func (s *sched) afterSwitch(t *Task) {
	if t.state == returned {
		t.finish()
	} else {
		t.arm()
	}
}

// body is the function of the coroutine.
func (t *Task) body(yield func(struct{}) bool) {
	t.yield = yield
	defer t.catch()
	t.err = t.f(t)
}

// finish handles the return of f.
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

// end ends t after its last child, and then parents that have no other child left.
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
		t.unlinkFromParent()
		if t.fault != nil {
			p.raise(t.fault)
		}
		t = p
	}
}

func (t *Task) unlinkFromParent() {
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

// kill ends t and its descendants at once, since its scope is closed. If t itself is the caller,
// its blocking calls fail from now on, and it ends when its function returns.
func (t *Task) kill() {
	t.sched.detachGuest()
	t.close()
	t.killTree()
}

// close makes every blocking call in t and its descendants fail.
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
	case running, ended: // the task ends by itself, or has ended
	}
}

// killChildren ends the children, also those started while others end.
func (t *Task) killChildren() {
	for c := t.newest; c != nil; {
		c.killTree()
		if c.state == ended {
			c = t.newest
		} else { // c or a descendant of it is the caller
			c = c.older
		}
	}
}
