package sockets

import (
	"errors"
	"strconv"
	"strings"

	"superd/config"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
)

// connectionName is the name of a connection in LISTEN_FDNAMES. Source: Accept= in man 5
// systemd.socket.
const connectionName = "connection"

// Give gives an instance the connection that its next run is for.
func (s *Set) Give(instance string, c host.Connection) {
	s.Forsake(instance)
	s.connections[instance] = c
}

// Forsake closes the connection of an instance whose run is over before its process was started.
func (s *Set) Forsake(instance string) {
	if c, has := s.connections[instance]; has {
		delete(s.connections, instance)
		c.FD.Release()
	}
}

// The causes for which a run does not get its sockets.
var (
	ErrClosed = errors.New("a reload has closed a socket that it gets")
	ErrLost   = errors.New("its connection is closed: superd ended before it was passed on")
)

// RecordPause records why no connections of a program are accepted for now.
func (s *Set) RecordPause(p *config.Program, why fsm.Reason) {
	s.recordOf(p, "connections wait", eventlog.Paused, why)
}

// RecordRefusal records why connections of a program are closed.
func (s *Set) RecordRefusal(p *config.Program, why fsm.Reason) {
	s.recordOf(p, "connections refused", eventlog.Refused, why)
}

func (s *Set) recordOf(p *config.Program, text, state string, why fsm.Reason) {
	s.Log.Warn(text, "program", p.Name, "reason", why.String())
	s.Records.Record(eventlog.WithReason(eventlog.Event{
		Kind: eventlog.Socket, Program: p.Name, Socket: p.Sockets.List[0].Name, State: state,
	}, why))
}

// Passed is what a run gets: its sockets, or its connection.
type Passed struct {
	program    *config.ProgramSockets
	held       []*host.SharedFD
	connection *host.Connection // nil: it has sockets
}

// PassTo returns what the run of an instance gets, which [Passed.Give] then passes on. A connection
// is the run's from now on.
func (s *Set) PassTo(instance string, p *config.ProgramSockets) (Passed, error) {
	if p != nil && p.Accept {
		c, has := s.connections[instance]
		if !has {
			return Passed{}, ErrLost
		}
		delete(s.connections, instance)
		return Passed{p, []*host.SharedFD{c.FD}, &c}, nil
	}
	held, ok := s.Hold(p)
	if !ok {
		return Passed{}, ErrClosed
	}
	return Passed{program: p, held: held}, nil
}

// Give gives the process of a specification what its run gets.
func (g Passed) Give(spec *host.SpawnSpec) {
	if len(g.held) == 0 {
		return
	}
	spec.Sockets, spec.FirstSocket = g.held, g.program.First()
	names := []string{connectionName}
	if c := g.connection; c != nil {
		spec.Connection = true
		if c.Addr != "" {
			spec.Own.Set("REMOTE_ADDR", c.Addr)
		}
		if c.Port != "" {
			spec.Own.Set("REMOTE_PORT", c.Port)
		}
	} else {
		names = names[:0]
		for _, fd := range g.program.FDs() {
			names = append(names, fd.FDName)
		}
	}
	if g.program.Pass != config.PassSystemd {
		return
	}
	spec.Own.Set("LISTEN_FDS", strconv.Itoa(len(names)))
	spec.Own.Set("LISTEN_FDNAMES", strings.Join(names, ":"))
	spec.Own.Set("LISTEN_PID", "")
	spec.TellsPid = true
}
