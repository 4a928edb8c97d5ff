package listen

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"superd/config/document"
	"superd/internal/words"
)

// abstractMark begins the name of a Unix socket that is not in the file system.
const abstractMark = "@"

// maxPath is the length of the longest path or abstract name of a Unix socket, without the NUL that
// ends a path. Source: sun_path in man 7 unix.
const maxPath = 107

// Parse reads an address:
//
//	0.0.0.0:80  [::]:80    a TCP port of one address; 0.0.0.0 and [::] are all of one family
//	:80                    a TCP port of all addresses
//	udp:…                  likewise, of UDP; tcp:… can be written, too
//	unix:/run/web.sock     a Unix socket; unix:@name is an abstract one
//	unixgram:/run/log.sock a Unix socket for datagrams
//	fifo:/run/web.fifo     a FIFO
//
// abs makes a path absolute. The error has the remedy.
func Parse(s string, abs func(path string) string) (Address, error) {
	if s == "" {
		return Address{}, errors.New(`is empty: write an address such as ":80" or "unix:/run/web.sock"`)
	}
	network, rest, named := strings.Cut(s, ":")
	switch Network(network) {
	case TCP:
		return parseIP(TCP, "", s, rest)
	case UDP:
		return parseIP(UDP, "udp:", s, rest)
	case Unix, Unixgram:
		return parsePath(Network(network), rest, abs)
	case FIFO:
		if strings.HasPrefix(rest, abstractMark) {
			return Address{}, fmt.Errorf("%s has an abstract name, which only Unix sockets have: write a path", document.Quote(s))
		}
		return parsePath(FIFO, rest, abs)
	default: // see below
	}
	if strings.HasPrefix(s, "/") || strings.HasPrefix(s, abstractMark) {
		return Address{}, fmt.Errorf("%s does not say what to open: write %q, or \"fifo:…\" for a FIFO", document.Quote(s), "unix:"+s)
	}
	if named && strings.ContainsAny(rest, ":/@") && isWord(network) {
		return Address{}, fmt.Errorf("%s begins with %s, which is no kind of address%s", document.Quote(s), document.Quote(network+":"),
			words.DidYouMean(network, kinds, ": it can be "+words.OneOf(kinds)))
	}
	return parseIP(TCP, "", s, s)
}

// kinds are what an address may begin with.
var kinds = []string{string(TCP), string(UDP), string(Unix), string(Unixgram), string(FIFO)}

// isWord reports whether s consists of letters.
func isWord(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz") == ""
}

// parsePort reads the number of a port.
func parsePort(s string) (port uint16, ok bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil && n > 0
}

// parsePath reads what follows the name of a network with paths.
func parsePath(network Network, s string, abs func(string) string) (Address, error) {
	whole := document.Quote(string(network) + ":" + s)
	name, abstract := strings.CutPrefix(s, abstractMark)
	switch {
	case name == "" || strings.HasSuffix(name, "/") && !abstract:
		return Address{}, fmt.Errorf("%s names no file: write \"%s:/run/web\"", whole, network)
	case !abstract:
		name = abs(s)
		s = name
	}
	if len(name) > maxPath && network != FIFO {
		return Address{}, fmt.Errorf("%s has %d bytes, and the kernel allows %d: choose a shorter path", whole, len(name), maxPath)
	}
	return Address{Network: network, Address: s}, nil
}

// parseIP reads s, an address with a port. It is what follows the kind in whole; in a remedy it
// follows prefix.
func parseIP(network Network, prefix, whole, s string) (Address, error) {
	whole = document.Quote(whole)
	if _, isPort := parsePort(s); isPort {
		return Address{}, fmt.Errorf("%s has no address: write %q for all", whole, prefix+":"+s)
	}
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return Address{}, withoutPort(prefix, whole, s)
	}
	port, ok := parsePort(text)
	if !ok {
		return Address{}, fmt.Errorf("%s has the port %s, which must be a number from 1 to 65535", whole, document.Quote(text))
	}
	if host == "" {
		return Address{Network: network, Address: ":" + strconv.Itoa(int(port))}, nil
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case host == "*":
		return Address{}, fmt.Errorf("%s: write %q for all addresses", whole, prefix+":"+text)
	case host == "localhost":
		return Address{}, fmt.Errorf("%s has a name, and what it stands for may change: write %q or %q",
			whole, prefix+"127.0.0.1:"+text, prefix+"[::1]:"+text)
	case err != nil:
		return Address{}, fmt.Errorf("%s has a name, and what it stands for may change: write its address, as in %q",
			whole, prefix+"192.0.2.1:"+text)
	case addr.Is4In6():
		return Address{}, fmt.Errorf("%s is an IPv4 address: write %q",
			whole, prefix+netip.AddrPortFrom(addr.Unmap(), port).String())
	case addr.IsMulticast() && network == TCP:
		return Address{}, fmt.Errorf("%s is a multicast address, which TCP does not have: write another one", whole)
	}
	family := Network("6")
	if addr.Is4() {
		family = "4"
	}
	return Address{Network: network + family, Address: netip.AddrPortFrom(addr, port).String()}, nil
}

// withoutPort returns the error for s, which is not HOST:PORT.
func withoutPort(prefix, whole, s string) error {
	if at := strings.LastIndexByte(s, ':'); strings.Count(s, ":") > 1 && !strings.HasPrefix(s, "[") {
		_, err := netip.ParseAddr(s[:at])
		if _, isPort := parsePort(s[at+1:]); isPort && err == nil {
			return fmt.Errorf("%s needs brackets: write %q", whole, prefix+"["+s[:at]+"]"+s[at:])
		}
	}
	return fmt.Errorf("%s has no port: write an address such as %q or %q", whole, prefix+"127.0.0.1:80", prefix+":80")
}
