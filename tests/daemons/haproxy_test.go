package daemons

import "testing"

func TestHAProxy(t *testing.T) {
	m := newMachine(t, "haproxy", "haproxy")
	received, release := m.backend("127.0.0.1:8000")
	m.backend("127.0.0.1:8001")
	debian := m.read("/etc/haproxy/haproxy.cfg")
	conf := func(port string) {
		m.write("/etc/haproxy/haproxy.cfg", debian+"\nfrontend web\n\tbind *:80\n\tdefault_backend app\nbackend app\n\tserver one 127.0.0.1:"+port+"\n")
	}
	conf("8000")
	m.boot()
	serves := func(text string) error {
		got, err := m.get("http://127.0.0.1/")
		return ok(got, err, text)
	}
	served := func() error { return serves("127.0.0.1") }
	m.reloads(served, func() { conf("8001") }, func() bool { return serves("8001") == nil })
	m.refuses("/etc/haproxy/haproxy.cfg", debian+"\nbogus\n", "unknown keyword 'bogus'")
	m.upgrades(served)
	conf("8000")
	m.MustCtl("reload", "haproxy")
	m.answers(func() error {
		got, err := m.get("http://127.0.0.1/slow")
		return ok(got, err, "slow answer")
	}, received, release)
}
