package daemons

import (
	"context"
	"net"
	"testing"
)

func TestUnbound(t *testing.T) {
	m := newMachine(t, "unbound", "unbound")
	// The network has no root.
	m.write("/etc/unbound/unbound.conf.d/root-auto-trust-anchor-file.conf", "")
	conf := func(address string) {
		m.write("/etc/unbound/unbound.conf.d/test.conf",
			"server:\n\tlocal-zone: \"example.test.\" static\n\tlocal-data: \"www.example.test. A "+address+"\"\n")
	}
	conf("192.0.2.7")
	m.boot()
	if as := userOf(t, m.pid()); as != "unbound" {
		t.Errorf("it runs as %s", as)
	}
	resolver := net.Resolver{PreferGo: true, Dial: func(_ context.Context, protocol, _ string) (net.Conn, error) {
		return m.dial(protocol, "127.0.0.1:53")
	}}
	resolves := func(address string) error {
		found, err := resolver.LookupHost(t.Context(), "www.example.test.")
		if err != nil {
			return err
		}
		return ok(found[0], nil, address)
	}
	request := func() error { return resolves("192.0.2.") }
	m.reloads(request, func() { conf("192.0.2.8") }, func() bool { return resolves("192.0.2.8") == nil })
	m.refuses("/etc/unbound/unbound.conf.d/test.conf", "server:\n\tbogus: 1\n", "unknown keyword 'bogus'")
	m.upgrades(request)
	m.stops()
}
