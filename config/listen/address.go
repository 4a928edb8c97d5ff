// Package listen has the addresses of listening sockets: their notation, and which of them exclude
// each other. It opens none.
package listen

import (
	"fmt"
	"net/netip"
	"strings"
)

// An Address is what superd listens on. It has all that is fixed when a socket is bound: an open
// socket can be kept as long as its Address is equal, since nothing else in it needs another one.
type Address struct {
	Network Network
	// IP and port; ":80" for all addresses of both families. An absolute path, clean; with Unix and
	// Unixgram also "@name", an abstract one
	Address   string
	ReusePort bool   `json:",omitzero"` // others may listen there, too: SO_REUSEPORT
	Device    string `json:",omitzero"` // the network interface; "" for all
}

// A Network is a kind of address.
type Network string

// The networks. Those without a digit are of both families: one IPv6 socket that also accepts IPv4.
// Those of one family never get packets of the other.
const (
	TCP  Network = "tcp"
	TCP4 Network = "tcp4"
	TCP6 Network = "tcp6"
	UDP  Network = "udp"
	UDP4 Network = "udp4"
	UDP6 Network = "udp6"

	Unix     Network = "unix"     // streams
	Unixgram Network = "unixgram" // datagrams
	FIFO     Network = "fifo"     // no socket: a FIFO, open for reading and writing
)

// Connects reports whether the network has connections, which are accepted one by one.
func (n Network) Connects() bool { return n.IsTCP() || n == Unix }

// IsTCP reports whether n is TCP of any family.
func (n Network) IsTCP() bool { return n == TCP || n == TCP4 || n == TCP6 }

// IsUDP reports whether n is UDP of any family.
func (n Network) IsUDP() bool { return n == UDP || n == UDP4 || n == UDP6 }

// IsIP reports whether n is TCP or UDP.
func (n Network) IsIP() bool { return n.IsTCP() || n.IsUDP() }

// Path returns the path in the file system, "" if the address has none.
func (a Address) Path() string {
	if a.Network.IsIP() || strings.HasPrefix(a.Address, abstractMark) {
		return ""
	}
	return a.Address
}

// String returns the address in the notation that [Parse] reads.
func (a Address) String() string {
	switch {
	case a.Network.IsTCP():
		return a.Address
	case a.Network.IsUDP():
		return "udp:" + a.Address
	}
	return string(a.Network) + ":" + a.Address
}

// Place returns a text that is the same for two addresses if one excludes the other: see
// [Address.Excludes].
func (a Address) Place() string {
	switch {
	case a.Network.IsTCP():
		return fmt.Sprintf("tcp:%d", a.endpoint().port)
	case a.Network.IsUDP():
		return fmt.Sprintf("udp:%d", a.endpoint().port)
	case a.Path() != "":
		return a.Path()
	}
	return a.String()
}

// Excludes reports whether the kernel allows only one of two different sockets with the addresses a
// and b at a time. Two sockets with ReusePort may share a port, but not within one superd, where
// equal ones would be the same socket twice.
func (a Address) Excludes(b Address) bool {
	if a.Place() != b.Place() {
		return false
	}
	if !a.Network.IsIP() {
		return true // a path is that of one socket or FIFO, an abstract name that of one network
	}
	here, there := a.endpoint(), b.endpoint()
	if !here.overlaps(there) || a.Device != "" && b.Device != "" && a.Device != b.Device {
		return false
	}
	return here == there || !a.ReusePort || !b.ReusePort
}

// An endpoint is a parsed IP address with its port.
type endpoint struct {
	addr netip.Addr // invalid: all of both families
	port uint16
}

func (a Address) endpoint() endpoint {
	if port, both := strings.CutPrefix(a.Address, ":"); both {
		n, _ := parsePort(port)
		return endpoint{port: n}
	}
	at, _ := netip.ParseAddrPort(a.Address)
	return endpoint{at.Addr(), at.Port()}
}

// overlaps reports whether some connection could go to both.
func (e endpoint) overlaps(other endpoint) bool {
	if !e.addr.IsValid() || !other.addr.IsValid() {
		return true
	}
	return e.addr.Is4() == other.addr.Is4() &&
		(e.addr == other.addr || e.addr.IsUnspecified() || other.addr.IsUnspecified())
}
