package daemons

import (
	"context"
	"net"
	"slices"
	"testing"
)

// TestNamed: named answers during a reload, and a dynamic update is kept.
func TestNamed(t *testing.T) {
	m := newMachine(t, "named", "bind9", "bind9-dnsutils")
	const zone = "$TTL 60\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n"
	m.write("/etc/bind/named.conf.local", `
		zone "static.test" { type primary; file "/etc/bind/db.static"; };
		zone "dynamic.test" { type primary; file "/var/lib/bind/db.dynamic"; allow-update { 127.0.0.1; }; };
		`)
	m.write("/etc/bind/db.static", zone+"www A 192.0.2.7\n")
	m.write("/var/lib/bind/db.dynamic", zone)
	m.boot()

	resolver := net.Resolver{PreferGo: true, Dial: func(_ context.Context, protocol, _ string) (net.Conn, error) {
		return m.dial(protocol, "127.0.0.1:53")
	}}
	answers := func(name, address string) bool {
		found, err := resolver.LookupHost(t.Context(), name)
		return err == nil && slices.Equal(found, []string{address})
	}
	request := func() error {
		_, err := resolver.LookupHost(t.Context(), "www.static.test.")
		return err
	}
	if as := userOf(t, m.pid()); as != "bind" {
		t.Errorf("it runs as %s", as)
	}
	m.reloads(request, func() {
		m.write("/etc/bind/db.static", "$TTL 60\n@ SOA ns admin 2 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.8\n")
	}, func() bool { return answers("www.static.test.", "192.0.2.8") })
	m.refuses("/etc/bind/db.static", zone+"www A 192.0.2.999\n", "bad dotted quad")
	m.refuses("/etc/bind/named.conf.local", "zone { }", "expected string near")
	m.upgrades(request)

	m.run("sh", "-c", `printf 'server 127.0.0.1\nupdate add new.dynamic.test 60 A 192.0.2.9\nsend\n' | nsupdate`)
	m.stops()
	m.MustCtl("start", m.name)
	if !answers("new.dynamic.test.", "192.0.2.9") {
		t.Error("the dynamic update is lost")
	}
}
