package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"superd/config/listen"
)

// A SocketChange holds what changes for one socket.
//
// Programs that are given other descriptors have a change of their own, of the key sockets, which
// needs a new run. Until then they have the descriptors of before, so an address in Closed may be
// open in them after superd has closed it. One in Opened that an old one excludes (0.0.0.0:80 after
// 127.0.0.1:80, or the same address with another device) can be opened only when they have ended.
type SocketChange struct {
	Name string
	Kind ChangeKind // RestartNeeded: of the programs that use it
	// The keys that differ, in the order of the reference; empty for a socket added or removed
	Keys []KeyChange
	// What reload has to open and to close. An address that is in neither keeps its descriptor and
	// what waits in it, also where its place in the list is another
	Opened, Closed []listen.Address
	// The socket of the new configuration; of the old one for a socket removed
	Socket *Socket
}

// socketEffects has an entry for each key of [socket.NAME].
//
// Those that take effect at once can be changed in an open socket: backlog by another listen(2),
// mode, user and group by its path, no_delay and keep_alive by setsockopt(2) for connections that
// are accepted later, non_blocking by fcntl(2) if it becomes true: a program may have set it
// itself. free_bind matters when an address is opened only, so an open one stays as it is. The
// others are part of a descriptor or of what programs are told of it: superd opens and closes what
// differs in listen, reuse_port and device, and the programs are restarted.
var socketEffects = map[string]effect{
	"listen": withNextRun, "reuse_port": withNextRun, "device": withNextRun, "fdname": withNextRun,
	"backlog": atOnce, "mode": atOnce, "user": atOnce, "group": atOnce, "free_bind": atOnce, "no_delay": atOnce, "keep_alive": atOnce,
	"non_blocking": atOnce,
}

// compareSockets returns the changes of all sockets of either configuration, sorted by name.
func compareSockets(before, after []*Socket) []SocketChange {
	var changes []SocketChange
	eachPair(before, after, func(s *Socket) string { return s.Name }, func(old, next *Socket) {
		changes = append(changes, compareSocket(old, next))
	})
	return changes
}

// compareSocket returns the changes of one socket; one of the two may be nil.
func compareSocket(before, after *Socket) SocketChange {
	c := SocketChange{Kind: Unchanged, Socket: after}
	switch {
	case before == nil:
		c.Kind = ProgramAdded
	case after == nil:
		c.Kind, c.Socket = ProgramRemoved, before
	case !before.equal(after):
		c.Keys = append(compareMistakes("socket", before.Invalid, after.Invalid), compareKeys("socket", socketEffects, before.builder(), after.builder())...)
		c.Kind = kindOf(c.Keys)
	}
	c.Name = c.Socket.Name
	c.Opened, c.Closed = missing(after.open(), before.open()), missing(before.open(), after.open())
	return c
}

// ExcludedSocket says which address of next can't be opened while a run with the definition run has
// its sockets; empty if there is none. Such a run can't be replaced by one beside it.
func ExcludedSocket(run, next *Program) string {
	for _, opened := range next.Sockets.FDs() {
		for _, has := range run.Sockets.FDs() {
			if opened.Address != has.Address && opened.Address.Excludes(has.Address) {
				return fmt.Sprintf("%s can be opened only when no process has %s any more", opened.Address, has.Address)
			}
		}
	}
	return ""
}

// open returns the addresses that have to be open; none if s is nil or invalid.
func (s *Socket) open() []listen.Address {
	if s == nil || len(s.Invalid) > 0 {
		return nil
	}
	return s.Listen
}

// missing returns the addresses in all that are not in others.
func missing(all, others []listen.Address) []listen.Address {
	return slices.DeleteFunc(slices.Clone(all), func(a listen.Address) bool { return slices.Contains(others, a) })
}

func (s *Socket) equal(other *Socket) bool {
	if !slices.EqualFunc(s.Invalid, other.Invalid, sameMistake) {
		return false
	}
	a, b := *s, *other
	for _, socket := range []*Socket{&a, &b} {
		socket.Invalid, socket.File, socket.Line = nil, "", 0
	}
	return reflect.DeepEqual(a, b)
}

// builder returns a builder that holds the socket's values.
func (s *Socket) builder() *builder {
	d := builtin()
	d.socket.Socket = *s
	for _, address := range s.Listen {
		d.socket.written = append(d.socket.written, address.String())
		if address.Network.IsIP() {
			d.socket.reusePort, d.socket.device = address.ReusePort, address.Device
		}
	}
	return d
}

// eachPair calls visit with the elements of two lists, each sorted by name. Two with the same name
// are a pair, the others are visited alone.
func eachPair[T any](before, after []*T, name func(*T) string, visit func(old, next *T)) {
	for len(before) > 0 || len(after) > 0 {
		order := 0
		switch {
		case len(after) == 0:
			order = -1
		case len(before) == 0:
			order = 1
		default:
			order = strings.Compare(name(before[0]), name(after[0]))
		}
		var old, next *T
		if order <= 0 {
			old, before = before[0], before[1:]
		}
		if order >= 0 {
			next, after = after[0], after[1:]
		}
		visit(old, next)
	}
}
