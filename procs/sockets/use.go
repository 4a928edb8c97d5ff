package sockets

import (
	"fmt"
	"slices"
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/procs/host"
)

// Missing returns why the sockets of a program are not all open; "" if they are. failed reports
// that one could not be opened.
func (s *Set) Missing(p *config.ProgramSockets) (why string, failed bool) {
	if p == nil {
		return "", false
	}
	for _, socket := range p.List {
		for _, a := range socket.Listen {
			one := s.find(a)
			if one != nil && one.fd != nil {
				continue
			}
			text := fmt.Sprintf("the socket %s, whose address %s is being opened", socket.Name, where(a))
			if one != nil && one.failure != "" {
				return fmt.Sprintf("the socket %s, whose address %s can't be opened: %s", socket.Name, where(a), one.failure), true
			}
			if why == "" {
				why = text
			}
		}
	}
	return why, false
}

// Hold returns the sockets that a run of a program gets, in the order of its descriptors. Whoever
// gets them releases each. ok is false if one is not open: a reload may have closed it since the
// run began.
func (s *Set) Hold(p *config.ProgramSockets) (all []*host.SharedFD, ok bool) {
	for _, fd := range p.FDs() {
		one := s.find(fd.Address)
		if one == nil || one.fd == nil {
			for _, held := range all {
				held.Release()
			}
			return nil, false
		}
		all = append(all, one.fd.Hold())
	}
	return all, true
}

// Opening reports whether it is not known yet of some socket whether it can be opened.
func (s *Set) Opening() bool {
	return slices.ContainsFunc(s.all, func(one *socket) bool { return one.fd == nil && one.attempts == 0 })
}

// A Status is the state of one address.
type Status struct {
	Socket  string // its name in the configuration
	Address listen.Address
	Open    bool
	Leaving bool           // it is not in the configuration, and open while a run uses it
	Failure string         // why it can't be opened, or not be changed; "": it can
	RetryAt time.Duration  // of the next attempt, on the loop's clock; 0: none is due
	FD      *host.SharedFD // nil: it is not open. For use in this turn
}

// Where returns the address with its network interface, if it has one.
func (st *Status) Where() string { return where(st.Address) }

// Sockets returns the state of all addresses, in the order in which they were first wanted.
func (s *Set) Sockets() []Status {
	all := make([]Status, 0, len(s.all))
	for _, one := range s.all {
		st := Status{Socket: one.name, Address: one.address, Open: one.fd != nil, Leaving: one.leaves, Failure: one.failure, FD: one.fd}
		if one.retry.Active() {
			st.RetryAt = one.retry.Due()
		}
		all = append(all, st)
	}
	return all
}
