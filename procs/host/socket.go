package host

import (
	"net"
	"sync/atomic"

	"superd/config"
	"superd/config/listen"
)

// Sockets are what superd listens on for programs. The methods are called on the loop and do not
// block.
type Sockets interface {
	// OpenSocket opens an address off the loop, in superd's own rights. done always runs, once, on
	// the loop; with an error nothing is open.
	OpenSocket(spec *SocketSpec, done func(*SharedFD, error))
	// TakeSocket returns an open descriptor, which it then owns.
	TakeSocket(fd int) *SharedFD
	// SocketAddress returns the address of an open socket, as far as the kernel knows it: without
	// ReusePort and Device.
	SocketAddress(fd int) (listen.Address, error)
	// ChangeSocket gives an open socket the settings of s, as far as they can be changed in it, off
	// the loop. done always runs, once, on the loop.
	ChangeSocket(fd *SharedFD, s *config.Socket, a listen.Address, done func(error))
	// RestorePath makes the path of an open socket again off the loop, if it has one that is gone.
	// done always runs, once, on the loop.
	RestorePath(fd *SharedFD, a listen.Address, done func(restored bool, err error))
	// RemoveSocket releases the socket, and removes its path off the loop, if it has one. That of a
	// FIFO stays: a writer would make a regular file in its place.
	RemoveSocket(fd *SharedFD, a listen.Address)
	// Accept accepts at most so many of the connections that wait in an open socket. It returns
	// those that it has accepted also with an error, such as a lack of descriptors.
	Accept(fd *SharedFD, most int) ([]Connection, error)
	// SocketConnections counts off the loop the connections to the sockets that are open. done runs
	// once on the loop.
	SocketConnections(fds []*SharedFD, done func(count int, err error))
	// SocketQueues finds off the loop what waits in the sockets and who may accept it, in the order
	// of fds. done runs once on the loop.
	SocketQueues(fds []*SharedFD, done func([]SocketQueue))
}

// A SocketSpec says what to open.
type SocketSpec struct {
	Address  listen.Address
	Settings *config.Socket // must not change
	// Both are called off the loop. Intend is called first: if it fails, nothing is opened. Store
	// is called before done, with the open descriptor.
	Intend func() error
	Store  func(fd int)
}

// A Connection is one that superd has accepted. Its owner releases the descriptor.
type Connection struct {
	FD *SharedFD
	// The peer: an address of IP and a port, or the path of a Unix socket; both empty for one
	// without a name
	Addr, Port string
}

// Peer names the peer as text: "127.0.0.1:4711".
func (c *Connection) Peer() string {
	switch {
	case c.Port != "":
		return net.JoinHostPort(c.Addr, c.Port)
	case c.Addr != "":
		return c.Addr
	}
	return "a local process"
}

// A SocketQueue is what waits in a socket.
type SocketQueue struct {
	Known   bool // the kernel shows it
	Waiting int  // connections; bytes where there are none
	Most    int  // how many connections may wait; 0: it has none
	// Processes that have it open, other than superd and its keeper
	Holders []SocketHolder
}

// A SocketHolder is a process that has a socket.
type SocketHolder struct {
	Pid     int
	Command string // its name, as in ps(1)
}

// A SharedFD is a descriptor with several users, of which the last one closes it. It may be used
// from any goroutine.
type SharedFD struct {
	fd    int
	users atomic.Int32
	end   func(fd int)
}

// NewSharedFD returns a descriptor with one user. end closes it.
func NewSharedFD(fd int, end func(fd int)) *SharedFD {
	s := &SharedFD{fd: fd, end: end}
	s.users.Store(1)
	return s
}

// FD returns the descriptor, for a user of it.
func (s *SharedFD) FD() int { return s.fd }

// Hold adds a user. Only a user may call it.
func (s *SharedFD) Hold() *SharedFD {
	s.users.Add(1)
	return s
}

// Release removes a user.
func (s *SharedFD) Release() {
	if s.users.Add(-1) == 0 {
		s.end(s.fd)
	}
}
