package listener

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A Connection is one that was accepted: its descriptor, and its peer as REMOTE_ADDR and
// REMOTE_PORT have it.
type Connection struct {
	FD         int
	Addr, Port string
}

// maxSkipped is how many errors of connections one call of [Accept] passes over. A filter that
// refuses the call gives such an error, too, and for ever.
const maxSkipped = 100

// Accept accepts at most so many of the connections that wait. No other process accepts from this
// socket, except one that a reload is just stopping: with that the accept must not block.
func Accept(fd, most int) (all []Connection, err error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	defer func() {
		if blockErr := unix.SetNonblock(fd, false); blockErr != nil {
			err = errors.Join(err, os.NewSyscallError("fcntl", blockErr))
		}
	}()
	for skipped := 0; len(all) < most; {
		c, peer, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return all, nil
		case isOfConnection(err) && skipped < maxSkipped:
			skipped++ // the next one may be alive
			continue
		case err != nil:
			return all, fmt.Errorf("accept: %w", err)
		}
		one := Connection{FD: c}
		one.Addr, one.Port = namePeer(peer)
		all = append(all, one)
	}
	return all, nil
}

// isOfConnection reports whether an error is one of the connection that was to be accepted. Source:
// man 2 accept, "Error handling".
func isOfConnection(err error) bool {
	for _, own := range []error{
		unix.EINTR, unix.ECONNABORTED, unix.ENETDOWN, unix.EPROTO, unix.ENOPROTOOPT, unix.EHOSTDOWN,
		unix.ENONET, unix.EHOSTUNREACH, unix.EOPNOTSUPP, unix.ENETUNREACH, unix.EPERM,
	} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

// namePeer returns the address and the port of a peer. Source: REMOTE_ADDR in man 5 systemd.exec.
func namePeer(peer unix.Sockaddr) (addr, port string) {
	switch peer := peer.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(peer.Addr).String(), strconv.Itoa(peer.Port)
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(peer.Addr).Unmap()
		if device, err := net.InterfaceByIndex(int(peer.ZoneId)); peer.ZoneId != 0 && err == nil {
			ip = ip.WithZone(device.Name)
		}
		return ip.String(), strconv.Itoa(peer.Port)
	case *unix.SockaddrUnix:
		if peer.Name != "@" { // as a peer without a name has it
			return peer.Name, ""
		}
	}
	return "", ""
}
