package task

// A handover is a direct switch from one task, the host, to the next in the queue, its guest, rather than by way
// of the loop. When the guest waits the host has the next switch, so that two tasks which take turns need
// one for each turn instead of two. There is never more than one guest.
type handover struct {
	host  *Task // waits for its guest to come back; nil: there is none
	guest *Task // the one that runs, or that has come back and that the loop is to settle
	off   bool  // the guest has come back to go on from the loop
}

// handTo returns the task that t can switch to directly, as its guest, and makes it the one that runs: t itself if
// nobody else is about to run, and nil if t has to switch to the loop.
func (s *sched) handTo(t *Task) *Task {
	if s.host != nil || s.queue.first == nil || s.left == 0 {
		return nil
	}
	u := s.queue.first.task
	if u == t {
		return t
	}
	if u.next == nil {
		return nil // it has not begun
	}
	s.queue.pop()
	s.left--
	s.host, s.guest = t, u
	s.current, u.state = u, running
	return u
}

// handBack reports whether t goes on after its guest u has come back. If not, it has to switch to the
// loop, which settles what u has left: that needs more stack than a task has.
func (s *sched) handBack(t, u *Task) bool {
	if u != t {
		s.host = nil
		if s.off || u.state == returned || u.want != nothing {
			return false
		}
		s.guest = nil
	}
	if s.queue.first != &t.waiter || s.left == 0 {
		return false
	}
	s.queue.pop()
	s.left--
	s.current, t.state = t, running
	return true
}

// settleGuest does for the guest of a host that has come back what resume does for the host.
func (s *sched) settleGuest() {
	u := s.guest
	if u == nil {
		return
	}
	s.guest = nil
	if s.off {
		s.off = false
		s.resume(u)
	} else {
		s.settle(u)
	}
}

// callOff has a guest go on as if the loop had switched to it: then no other task is in the way of one
// that has to run at once.
func (s *sched) callOff() {
	if s.host != nil {
		s.off = true
		s.current.yield(struct{}{})
	}
}
