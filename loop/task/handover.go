package task

// A handover is a direct switch from one task, the host, to the next in the queue, its guest,
// without going through the loop. When the guest waits, control returns to the host. So two tasks
// that alternate need one switch for each turn instead of two. There is at most one guest.
type handover struct {
	host *Task // waits for its guest to switch back; nil: none
	// The running guest, or one that has switched back and that the loop must handle
	guest *Task
	off   bool // the guest has switched back to continue from the loop
}

// switchTarget returns the task to which t can switch directly, and makes it the running one. It
// returns t itself if t is the next to run, and nil if t must switch to the loop.
func (s *sched) switchTarget(t *Task) *Task {
	if s.host != nil || s.queue.first == nil || s.remaining == 0 {
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
	s.remaining--
	s.host, s.guest = t, u
	s.current, u.state = u, running
	return u
}

// resumesAfter reports whether t continues after its guest u has switched back. If not, t must
// switch to the loop, which handles u: that needs more stack than a task has.
func (s *sched) resumesAfter(t, u *Task) bool {
	if u != t {
		s.host = nil
		if s.off || u.state == returned || u.awaits != nothing {
			return false
		}
		s.guest = nil
	}
	if s.queue.first != &t.waiter || s.remaining == 0 {
		return false
	}
	s.queue.pop()
	s.remaining--
	s.current, t.state = t, running
	return true
}

// afterGuestSwitch handles the suspension or the return of the guest of a host that has switched
// back, as resume does for the host.
func (s *sched) afterGuestSwitch() {
	u := s.guest
	if u == nil {
		return
	}
	s.guest = nil
	if s.off {
		s.off = false
		s.resume(u)
	} else {
		s.afterSwitch(u)
	}
}

// detachGuest makes a guest continue from the loop, so that another task can run at once.
func (s *sched) detachGuest() {
	if s.host != nil {
		s.off = true
		s.current.yield(struct{}{})
	}
}
