package daemons

import "testing"

// TestMemcached: it has no reload, and nothing that a stop could keep.
func TestMemcached(t *testing.T) {
	m := newMachine(t, "memcached", "memcached")
	m.boot()
	if as := userOf(t, m.pid()); as != "memcache" {
		t.Errorf("it runs as %s", as)
	}
	const address = "127.0.0.1:11211"
	set := func() error {
		got, err := m.oneLine(address, "set key 0 0 4\r\nkept")
		return ok(got, err, "STORED")
	}
	get := func() error {
		got, err := m.oneLine(address, "get key")
		return ok(got, err, "VALUE key 0 4")
	}
	m.writes(func(int) error { return set() }, func() { m.MustCtl("restart", "memcached") })
	if err := set(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	m.refusesRestart("/etc/memcached.conf", "-t 0\n", "Number of threads must be greater than 0")
	m.upgrades(get)
	m.healthy()
	m.writes(func(int) error { return get() }, m.stops)
}
