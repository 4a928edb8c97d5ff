// Package pages has the settings of `superd web`: the table [web] of the configuration.
package pages

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"superd/config/codec"
	"superd/config/document"
)

// Settings are the keys of [web], of which `superd web` takes what its flags do not say.
type Settings struct {
	Listen          string // HOST:PORT; the host may be empty
	TokenFile       string // absolute; "": the usual one
	ViewerTokenFile string // absolute; "": none
	TLSCert, TLSKey string // absolute; both or none
	Hosts           []string
	ReadOnly        bool
}

// DefaultListen is the address to listen on if none is named.
const DefaultListen = "127.0.0.1:9001"

// Address reads HOST:PORT, where HOST may be empty.
var Address = codec.Text("host:port", "a string", func(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if n, portErr := strconv.Atoi(port); err != nil || portErr != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("must be host:port, got %s: write %q", document.Quote(s), DefaultListen)
	}
	return s, nil
}, codec.QuoteSet).Matching(`:\+?[0-9]+$`)

// HostName reads the name of a host.
var HostName = codec.Text("host name", "a string", func(s string) (string, error) {
	return s, CheckHostName(s)
}, codec.QuoteSet).Matching(`^[^:/*@ \t\r\n]+$`)

// CheckHostName returns why s is not the name of a host.
func CheckHostName(s string) error {
	if s == "" || strings.ContainsAny(s, ":/*@ \t\r\n") {
		return fmt.Errorf(`must be the name of a host, got %s: write "superd.example.org"`, document.Quote(s))
	}
	return nil
}

// Check returns what `superd web` would refuse, and the keys that it concerns; nil: nothing.
func (s *Settings) Check() (keys []string, err error) {
	if (s.TLSCert == "") != (s.TLSKey == "") {
		return []string{"tls_cert", "tls_key"}, errors.New("tls_cert and tls_key need each other: add the other one")
	}
	host, _, _ := net.SplitHostPort(s.Listen)
	if address, err := netip.ParseAddr(host); err == nil && !address.Unmap().IsLoopback() && s.TLSCert == "" {
		return []string{"listen"}, fmt.Errorf("%s is beyond the loopback interface, where others could read the token on the way: "+
			"add tls_cert and tls_key, or write %q", host, DefaultListen)
	}
	return nil, nil
}
