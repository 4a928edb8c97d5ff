package procs

import (
	"slices"
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/onconnect"
	"superd/procs/reconcile"
	"superd/procs/sockets"
)

// enqueueSocketWaiters reconciles the instances that may wait for the socket.
func enqueueSocketWaiters(reg *registry, q *reconcile.Queue, socket string) {
	for _, in := range reg.instances {
		if in.Program.Sockets.Has(socket) && in.Machine.State() == fsm.Waiting {
			q.Enqueue(in)
		}
	}
}

// A SocketStatus is the state of one address of a socket.
type SocketStatus struct {
	sockets.Status
	Programs []string         // that get it, by name
	RetryIn  *time.Duration   // until the next attempt to open it; nil: none is due
	Queue    host.SocketQueue // what waits in it
	// Where superd accepts: of the connections of the program, how many it serves, and at most
	Connections, MaxConnections int
	Refused                     onconnect.Refusals
}

// Sockets finds the state of all sockets, in the order of the configuration. done runs once on the
// loop.
func (s *Supervisor) Sockets(done func([]SocketStatus)) {
	var all []SocketStatus
	var open []*host.SharedFD
	var of []int // indices in all
	for _, st := range s.connectors.Sockets.Sockets() {
		one := SocketStatus{Status: st, Programs: usersOfSocket(s.config.active, st.Socket)}
		if st.Leaving {
			one.Programs = runsWithSocket(s.registry, st.Address)
		}
		for _, name := range one.Programs {
			if p := s.config.active.Program(name); p.Accepts() {
				one.Connections, one.MaxConnections = s.connectors.Connections(name), p.Sockets.MaxConnections
				one.Refused = s.connectors.Refused(name)
			}
		}
		if st.RetryAt != 0 {
			one.RetryIn = new(max(0, st.RetryAt-s.Loop.Now()))
		}
		if st.FD != nil {
			open, of = append(open, st.FD), append(of, len(all))
		}
		all = append(all, one)
	}
	s.Host.SocketQueues(open, func(queues []host.SocketQueue) {
		for i, q := range queues {
			all[of[i]].Queue = q
		}
		done(all)
	})
}

// usersOfSocket returns the programs that get a socket.
func usersOfSocket(conf *config.Config, socket string) (names []string) {
	for _, p := range conf.Programs {
		if p.Sockets.Has(socket) {
			names = append(names, p.Name)
		}
	}
	return names
}

// runsWithSocket returns the programs with a run that was given an address, or is about to be.
func runsWithSocket(reg *registry, a listen.Address) (names []string) {
	for _, in := range reg.instances {
		run := in.RunDefinition()
		has := run != nil && slices.ContainsFunc(run.Sockets.FDs(), func(fd config.SocketFD) bool { return fd.Address == a })
		if has && !slices.Contains(names, run.Name) {
			names = append(names, run.Name)
		}
	}
	return names
}
