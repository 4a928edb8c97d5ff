// Package listener opens what superd listens on for programs: sockets and FIFOs. It also changes
// what can be changed while they are open, and finds who has an address that is in use.
//
// Its functions block, in the file system of a path or in a lookup of users. Source: man 7 ip, man
// 7 ipv6, man 7 tcp, man 7 unix, man 7 fifo, man 7 sock_diag.
package listener

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/config/listen"
)

// Open opens an address of a socket, close-on-exec. Reads and writes on it block, as most programs
// expect that get it, unless the socket has non_blocking. The error is "address in use" if the
// kernel refuses it for that reason, and says by whom if that can be seen.
func Open(s *config.Socket, a listen.Address) (fd int, err error) {
	switch {
	case a.Network == listen.FIFO:
		return openFIFO(s, a.Address)
	case a.Network.IsIP():
		fd, err = openIP(s, a)
	default:
		fd, err = openUnix(s, a)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return -1, &InUseError{Holders: holders(a)}
	}
	return fd, err
}

// An InUseError reports that others have the address.
type InUseError struct {
	Holders []Process // as far as they can be seen
}

func (e *InUseError) Error() string {
	if len(e.Holders) == 0 {
		return "address in use; superd can't see by whom"
	}
	const shown = 3
	var names []string
	for _, p := range e.Holders[:min(len(e.Holders), shown)] {
		names = append(names, p.String())
	}
	text := "address in use by " + strings.Join(names, ", ")
	if more := len(e.Holders) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Unwrap returns the kernel's error.
func (e *InUseError) Unwrap() error { return unix.EADDRINUSE }

// closeIf closes fd after an error.
func closeIf(err error, fd int) (int, error) {
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openIP opens a socket of TCP or UDP.
func openIP(s *config.Socket, a listen.Address) (int, error) {
	family := unix.AF_INET6
	if strings.HasSuffix(string(a.Network), "4") {
		family = unix.AF_INET
	}
	kind := unix.SOCK_STREAM
	if a.Network.IsUDP() {
		kind = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) && strings.HasPrefix(a.Address, ":") {
		family = unix.AF_INET // a machine without IPv6: all of its addresses are of IPv4
		fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		return -1, fmt.Errorf("make socket: %w", err)
	}
	return closeIf(bindIP(fd, family, s, a), fd)
}

// bindIP binds a new socket of that family, with the options that are fixed by it.
func bindIP(fd, family int, s *config.Socket, a listen.Address) error {
	to, err := ipAddress(family, a)
	if err != nil {
		return err
	}
	set := func(level, option int, value bool) {
		number := 0
		if value {
			number = 1
		}
		if err == nil {
			err = unix.SetsockoptInt(fd, level, option, number)
		}
	}
	if a.Network.IsTCP() {
		set(unix.SOL_SOCKET, unix.SO_REUSEADDR, true) // connections of before may still be closing
	}
	if family == unix.AF_INET6 {
		set(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, strings.HasSuffix(string(a.Network), "6"))
	}
	if a.ReusePort {
		set(unix.SOL_SOCKET, unix.SO_REUSEPORT, true)
	}
	if s.FreeBind {
		set(unix.IPPROTO_IP, unix.IP_FREEBIND, true)
	}
	if err != nil {
		return fmt.Errorf("set option: %w", err)
	}
	if a.Device != "" {
		if err := unix.BindToDevice(fd, a.Device); err != nil {
			return fmt.Errorf("use network interface %s: %w", a.Device, err)
		}
	}
	if err := unix.Bind(fd, to); err != nil {
		return explainBind(err)
	}
	return Change(fd, s, a)
}

// explainBind adds to an error of bind(2) what the operator can do.
func explainBind(err error) error {
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return errors.New("the machine does not have this address (yet): set free_bind = true to listen all the same")
	case errors.Is(err, unix.EACCES):
		return errors.New("permission denied: superd needs CAP_NET_BIND_SERVICE or root for this port")
	}
	return fmt.Errorf("bind: %w", err)
}

// ipAddress returns the address for bind(2).
func ipAddress(family int, a listen.Address) (unix.Sockaddr, error) {
	host, text, err := net.SplitHostPort(a.Address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	addr := netip.IPv6Unspecified()
	switch {
	case host != "":
		if addr, err = netip.ParseAddr(host); err != nil {
			return nil, err
		}
	case family == unix.AF_INET:
		addr = netip.IPv4Unspecified()
	}
	if family == unix.AF_INET {
		return &unix.SockaddrInet4{Port: port, Addr: addr.As4()}, nil
	}
	to := &unix.SockaddrInet6{Port: port, Addr: addr.As16()}
	if zone := addr.Zone(); zone != "" {
		found, err := net.InterfaceByName(zone)
		if err != nil {
			return nil, fmt.Errorf("find network interface %s: %w", zone, err)
		}
		to.ZoneId = uint32(found.Index)
	}
	return to, nil
}

// Change gives an open socket or FIFO the settings that can be changed in it. Those of TCP hold for
// connections that are accepted later. It never makes a socket blocking: O_NONBLOCK may be the
// program's own, which has the same open file description.
func Change(fd int, s *config.Socket, a listen.Address) error {
	if s.NonBlocking {
		if err := unix.SetNonblock(fd, true); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	if path := a.Path(); path != "" {
		// A program may have removed it while there was no superd
		if _, err := Restore(fd, a); err != nil {
			return err
		}
		if err := changePath(fd, s, a); err != nil {
			return err
		}
	}
	for _, option := range []struct {
		level, name int
		on          bool
	}{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, s.KeepAlive},
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, s.NoDelay},
	} {
		value := 0
		if option.on {
			value = 1
		}
		if !a.Network.IsTCP() {
			break
		}
		if err := unix.SetsockoptInt(fd, option.level, option.name, value); err != nil {
			return fmt.Errorf("set option: %w", err)
		}
	}
	if a.Network.Connects() {
		if err := unix.Listen(fd, s.Backlog); err != nil {
			return os.NewSyscallError("listen", err)
		}
	}
	return nil
}

// Address returns the address of an open socket, without ReusePort and Device.
func Address(fd int) (a listen.Address, err error) {
	at, err := unix.Getsockname(fd)
	if err != nil {
		return a, os.NewSyscallError("getsockname", err)
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return a, os.NewSyscallError("getsockopt", err)
	}
	network, stream := listen.UDP, kind == unix.SOCK_STREAM
	if stream {
		network = listen.TCP
	}
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		a.Network = network + "4"
		a.Address = netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String()
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(at.Addr)
		only, err := unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
		if err != nil {
			return a, os.NewSyscallError("getsockopt", err)
		}
		if only == 0 && addr.IsUnspecified() {
			return listen.Address{Network: network, Address: ":" + strconv.Itoa(at.Port)}, nil
		}
		if device, err := net.InterfaceByIndex(int(at.ZoneId)); err == nil {
			addr = addr.WithZone(device.Name)
		}
		a.Network = network + "6"
		a.Address = netip.AddrPortFrom(addr, uint16(at.Port)).String()
	case *unix.SockaddrUnix:
		if a.Network = listen.Unixgram; stream {
			a.Network = listen.Unix
		}
		a.Address = at.Name
	default:
		return a, errors.New("it is no socket of TCP, UDP or Unix")
	}
	return a, nil
}
