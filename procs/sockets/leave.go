package sockets

import (
	"slices"

	"superd/config/listen"
	"superd/procs/eventlog"
	"superd/procs/fsm"
)

// leave keeps a socket that is not wanted any more open for the runs that use it.
func (s *Set) leave(one *socket) {
	if one.leaves {
		return
	}
	one.leaves, one.failure = true, ""
	s.leaving++
	s.Log.Info("socket leaves: it is closed when no run uses it", "socket", one.name, "address", where(one.address), "programs", s.Users(one.address))
	s.record(one, eventlog.Leaving, fsm.Reason{})
}

// stay ends the leave of a socket.
func (s *Set) stay(one *socket) {
	if one.leaves {
		one.leaves = false
		s.leaving--
	}
}

// CloseUnused closes the sockets that leave and that no run uses any more. It is called when a run
// has ended.
func (s *Set) CloseUnused() {
	if s.leaving == 0 {
		return
	}
	for _, one := range slices.Clone(s.all) {
		if one.leaves {
			s.drop(one)
		}
	}
}

// leavingRival returns an open socket that is not wanted and excludes a; nil without one.
func (s *Set) leavingRival(a listen.Address) *socket {
	for _, one := range s.all {
		if one.settings == nil && one.fd != nil && one.address != a && one.address.Excludes(a) {
			return one
		}
	}
	return nil
}

// openRivals opens the sockets that had to wait until a was closed.
func (s *Set) openRivals(a listen.Address) {
	for _, one := range slices.Clone(s.all) {
		if !s.closing && one.settings != nil && one.fd == nil && !one.busy && one.attempts > 0 && one.address.Excludes(a) {
			one.attempts, one.failure = 0, ""
			s.open(one)
		}
	}
}
