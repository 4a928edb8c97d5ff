// Package sockets has the sockets that superd holds for programs: which are open, which can't be
// opened, and who gets them.
//
// A [Set] belongs to the loop's goroutine. It follows the configuration: an address that both have
// keeps its descriptor and what waits in it. Each descriptor is recorded in the journal, and then
// opened and stored with the keeper, before any program gets it. So a successor finds it, whenever
// superd is killed, and opens none twice.
package sockets

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/snapshot"
)

// Options are what a [Set] needs.
type Options struct {
	Scope   *loop.Scope
	Host    host.Sockets
	Log     *slog.Logger
	Records Records
	FDs     FDs
	// Changed is called when an address of a socket was opened or changed, or could not be
	Changed func(socket string)
	// Users returns the programs with a run that was given the address, or is about to be
	Users func(a listen.Address) []string
}

// Records are the journal and the event log.
type Records interface {
	Put(key string, value any) error // called off the loop
	Queue(key string, value any)
	Record(e eventlog.Event)
}

// FDs are the descriptors that a successor gets, by name.
type FDs interface {
	Reserve(output bool) (name string)
	Store(name string, fd int) // called off the loop
	Release(name string)
	Claim(name string) int
}

// A Set has the sockets.
type Set struct {
	Options
	all          []*socket // in the order in which they were first wanted
	byAddress    map[listen.Address]*socket
	retries      *loop.Timer                // until [Set.Retry] has an effect again
	retryPending bool                       // it was called meanwhile
	leaving      int                        // sockets that only runs of before still use
	closing      bool                       // superd ends
	connections  map[string]host.Connection // accepted, and not passed on yet, by instance
}

// NewSet returns a set without sockets.
func NewSet(o Options) *Set {
	return &Set{
		Options: o, byAddress: map[listen.Address]*socket{},
		connections: map[string]host.Connection{},
	}
}

// A socket is one address.
type socket struct {
	address  listen.Address
	name     string         // of the socket in the configuration
	settings *config.Socket // nil: it is not wanted
	fd       *host.SharedFD // nil: it is not open
	stored   string         // its name in the descriptor store; "": it is not stored
	given    bool           // a socket unit of systemd has it, too, and its path
	leaves   bool           // it is not wanted, and open while a run uses it
	busy     bool           // a worker opens or changes it
	outdated bool           // it has other settings than the worker knows

	failure  string // why it can't be opened, or changed; "": it can
	warned   string // the failure of which superd has warned
	attempts int    // that failed in a row
	retry    *loop.Timer
}

// Pauses before a socket is opened again. They double from one to the next. The first is short:
// after a reload, the keeper may have an address for a moment that superd has closed.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
	// The least time from one [Set.Retry] to the next. A look for who has an address is expensive.
	retryPause = time.Second
)

// where returns an address with its network interface, if it has one.
func where(a listen.Address) string {
	if a.Device == "" {
		return a.String()
	}
	return a.String() + " on " + a.Device
}

// find returns the socket with an address; nil without one.
func (s *Set) find(a listen.Address) *socket { return s.byAddress[a] }

// add adds a socket to the set.
func (s *Set) add(one *socket) {
	s.all = append(s.all, one)
	s.byAddress[one.address] = one
}

// Configure opens, changes and closes sockets until they are those of the configuration. Those with
// mistakes are not opened. What is not wanted leaves: it is closed when no run uses it any more. So
// the runs of before that a failed rolling restart keeps stay reachable.
func (s *Set) Configure(all []*config.Socket) {
	wanted := map[listen.Address]bool{}
	for _, c := range all {
		for _, a := range c.Listen {
			wanted[a] = len(c.Invalid) == 0
		}
	}
	for _, one := range slices.Clone(s.all) {
		if !wanted[one.address] {
			s.drop(one)
		}
	}
	for _, c := range all {
		for _, a := range c.Listen {
			if wanted[a] {
				s.want(a, c)
			}
		}
	}
}

// want sees to it that an address is open with these settings.
func (s *Set) want(a listen.Address, c *config.Socket) {
	one := s.find(a)
	if one == nil {
		one = &socket{address: a}
		s.add(one)
	}
	before := one.settings
	one.settings, one.name = c, c.Name
	s.stay(one)
	if before == nil && one.fd != nil {
		s.openRivals(a) // it stays: those that waited for its end say now why they are not open
	}
	switch {
	case one.given: // systemd has given it its settings
	case before != nil && sameSettings(before, c):
	case one.fd != nil || one.busy:
		one.warned = ""
		s.change(one)
	default:
		s.open(one)
	}
}

// sameSettings reports whether two sockets differ in nothing that an open one has.
func sameSettings(a, b *config.Socket) bool {
	x, y := *a, *b
	for _, one := range []*config.Socket{&x, &y} {
		one.Name, one.FDName, one.Listen, one.File, one.Line = "", "", nil, "", 0
	}
	return reflect.DeepEqual(x, y)
}

// open opens a socket.
func (s *Set) open(one *socket) {
	one.retry.Stop()
	if rival := s.leavingRival(one.address); rival != nil {
		one.attempts, one.failure = max(1, one.attempts), where(rival.address)+" leaves, and has to be closed first"
		if one.warned != one.failure {
			one.warned = one.failure
			s.Log.Warn("socket not opened yet", "socket", one.name, "address", where(one.address), "error", one.failure)
		}
		s.Changed(one.name)
		return
	}
	one.busy, one.outdated = true, false
	name := s.FDs.Reserve(true)
	record := snapshot.NewSocket(one.name, one.address)
	s.Host.OpenSocket(&host.SocketSpec{
		Address: one.address, Settings: one.settings,
		Intend: func() error {
			if name == "" {
				return nil // no process survives this superd
			}
			return s.Records.Put(snapshot.SocketKey(name), record)
		},
		Store: func(fd int) {
			if name != "" {
				s.FDs.Store(name, fd)
			}
		},
	}, func(fd *host.SharedFD, err error) { s.opened(one, name, fd, err) })
}

// opened handles the result of an attempt to open a socket.
func (s *Set) opened(one *socket, stored string, fd *host.SharedFD, err error) {
	one.busy = false
	if err != nil {
		s.forget(stored)
		if one.settings == nil {
			s.remove(one)
			return
		}
		s.failed(one, err)
		return
	}
	one.fd, one.stored, one.failure, one.warned, one.attempts = fd, stored, "", "", 0
	if one.settings == nil {
		s.drop(one)
		return
	}
	s.Log.Info("socket opened", "socket", one.name, "address", where(one.address))
	s.record(one, eventlog.Opened, fsm.Reason{})
	if one.outdated {
		s.change(one)
	}
	s.Changed(one.name)
}

// failed arms the next attempt to open or change a socket. superd warns once of each cause. Of one
// that is not open it does from the second attempt on: after a reload, a program that is about to
// end may have the address.
func (s *Set) failed(one *socket, err error) {
	pause := min(firstRetry<<min(one.attempts, 10), lastRetry)
	one.attempts++
	again, text, quiet := s.open, "socket not opened; superd keeps trying", 1
	if one.fd != nil {
		again, text, quiet = s.change, "socket keeps its former settings; superd keeps trying", 0
	}
	one.retry = s.Scope.After(pause, func() { again(one) })
	one.failure = err.Error()
	if one.attempts > quiet && one.failure != one.warned {
		one.warned = one.failure
		s.Log.Warn(text, "socket", one.name, "address", where(one.address), "error", err)
		s.record(one, eventlog.Failed, fsm.ReasonSocketFailed.With(one.failure))
	}
	s.Changed(one.name)
}

// Retry opens at once what could not be opened, or a little later if it did so just now. It is
// called when something has ended that may have had the address.
func (s *Set) Retry() {
	if s.retryPending = s.retries.Active(); s.retryPending {
		return
	}
	some := false
	for _, one := range s.all {
		if one.attempts > 0 && !one.busy && one.fd == nil {
			s.open(one)
			some = true
		}
	}
	if some {
		s.retries = s.Scope.After(retryPause, func() {
			if s.retryPending {
				s.Retry()
			}
		})
	}
}

// change gives an open socket its settings, at the latest when a worker is done with it.
func (s *Set) change(one *socket) {
	if one.busy {
		one.outdated = true
		return
	}
	one.retry.Stop()
	one.busy, one.outdated = true, false
	s.Host.ChangeSocket(one.fd, one.settings, one.address, func(err error) {
		one.busy = false
		switch {
		case one.settings == nil:
			s.drop(one)
		case one.outdated:
			s.change(one)
		case err != nil:
			s.failed(one, err)
		default:
			one.failure, one.warned, one.attempts = "", "", 0
		}
	})
}

// RestorePaths makes the paths of a program's sockets again that it has removed at its end. php-fpm
// does that, and nginx after a crash of superd.
func (s *Set) RestorePaths(p *config.ProgramSockets) {
	for _, socket := range p.List {
		for _, a := range socket.Listen {
			if one := s.find(a); a.Path() != "" && one != nil && one.fd != nil && !one.busy && !one.given {
				s.restorePath(one)
			}
		}
	}
}

func (s *Set) restorePath(one *socket) {
	one.busy, one.outdated = true, false
	s.Host.RestorePath(one.fd, one.address, func(restored bool, err error) {
		one.busy = false
		switch {
		case restored:
			s.Log.Warn("a program has removed the path of a socket; superd has made it again",
				"socket", one.name, "address", where(one.address), "remedy", "make its directory read-only for the program, by sandbox.read_only")
		case err != nil:
			s.Log.Warn("the path of a socket is gone: nobody can connect to it", "socket", one.name, "address", where(one.address), "error", err)
		}
		switch {
		case one.settings == nil:
			s.drop(one)
		case one.outdated:
			s.change(one)
		}
	})
}

// drop closes a socket that is not wanted any more, when no worker and no run uses it.
func (s *Set) drop(one *socket) {
	one.settings = nil
	one.retry.Stop()
	if one.busy {
		return
	}
	if one.fd != nil && !s.closing && len(s.Users(one.address)) > 0 {
		s.leave(one)
		return
	}
	s.stay(one)
	s.remove(one)
	if one.fd == nil {
		return
	}
	if one.given {
		one.fd.Release()
	} else {
		s.Host.RemoveSocket(one.fd, one.address)
	}
	s.forget(one.stored)
	s.Log.Info("socket closed", "socket", one.name, "address", where(one.address))
	s.record(one, eventlog.Closed, fsm.Reason{})
	s.openRivals(one.address)
}

// remove removes a socket from the set.
func (s *Set) remove(one *socket) {
	delete(s.byAddress, one.address)
	s.all = slices.DeleteFunc(s.all, func(other *socket) bool { return other == one })
}

// forget removes the record of a descriptor, and then the descriptor from the store.
func (s *Set) forget(stored string) {
	if stored != "" {
		s.Records.Queue(snapshot.SocketKey(stored), nil)
		s.FDs.Release(stored)
	}
}

// record records an event of a socket.
func (s *Set) record(one *socket, state string, why fsm.Reason) {
	e := eventlog.Event{Kind: eventlog.Socket, Socket: one.name, Address: where(one.address), State: state}
	if why.Kind != fsm.ReasonNone {
		e = eventlog.WithReason(e, why)
	}
	s.Records.Record(e)
}

// Adopt takes over the sockets of a predecessor, by the names under which they are stored. They
// have their settings after Configure.
func (s *Set) Adopt(saved map[string]snapshot.Socket) {
	names := make([]string, 0, len(saved))
	for name := range saved {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := len(a) - len(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		v, fd := saved[name], s.FDs.Claim(name)
		if fd < 0 { // the predecessor had not opened it
			s.Records.Queue(snapshot.SocketKey(name), nil)
			continue
		}
		one := &socket{address: v.Listen(), name: v.Name, fd: s.Host.TakeSocket(fd), stored: name, given: v.Given}
		if s.find(one.address) != nil { // it was closing one of the two
			one.fd.Release()
			s.forget(name)
			continue
		}
		s.add(one)
	}
}

// Take takes what a socket unit of systemd has passed to superd for these sockets: the descriptors
// of the same name and address. given has their names by those in the store.
func (s *Set) Take(given map[string]string, files map[string]int, all []*config.Socket) {
	names := slices.Sorted(maps.Keys(given))
	for _, c := range all {
		for _, a := range c.Listen {
			if len(c.Invalid) > 0 {
				continue
			}
			i := slices.IndexFunc(names, func(name string) bool {
				at, err := s.Host.SocketAddress(files[name])
				return given[name] == c.FDName && err == nil && at.Network == a.Network && at.Address == a.Address
			})
			if i < 0 {
				continue
			}
			if s.find(a) == nil { // otherwise a predecessor has taken it, and it was passed again
				s.takeGiven(names[i], a, c)
			}
			names = slices.Delete(names, i, i+1)
		}
	}
	for _, name := range names {
		address := "unknown"
		if at, err := s.Host.SocketAddress(files[name]); err == nil {
			address = at.String()
		}
		s.Log.Warn("systemd has passed a socket that the configuration does not have", "name", given[name], "address", address,
			"remedy", "write a table [socket.NAME] with this fdname and this address in listen")
	}
}

// takeGiven takes one of them: it is stored under a name of superd's own.
func (s *Set) takeGiven(name string, a listen.Address, c *config.Socket) {
	fd := s.FDs.Claim(name)
	if fd < 0 {
		return
	}
	one := &socket{address: a, name: c.Name, fd: s.Host.TakeSocket(fd), given: true}
	if one.stored = s.FDs.Reserve(true); one.stored != "" {
		record := snapshot.NewSocket(c.Name, a)
		record.Given = true
		s.FDs.Store(one.stored, fd)
		s.Records.Queue(snapshot.SocketKey(one.stored), record)
		s.FDs.Release(name)
	}
	s.add(one)
	s.Log.Info("socket taken from systemd", "socket", c.Name, "address", where(a))
}

// Close closes all sockets, at the end of superd.
func (s *Set) Close() {
	s.closing = true
	s.Configure(nil)
}
