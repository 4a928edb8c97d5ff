package daemons

import "testing"

func TestUnbound(t *testing.T) {
	s := newSite(t, "unbound")
	s.port("PORT")
	s.folder("unbound", "unbound")
	s.file("unbound.conf", `
server:
	interface: 127.0.0.1@PORT
	username: "unbound"
	directory: "DIR/unbound"
	chroot: ""
	pidfile: ""
	use-syslog: no
	local-zone: "example.test." static
	local-data: "www.example.test. A 192.0.2.7"
remote-control:
	control-enable: no
`)
	s.start(`
		[program.unbound]
		command = ["/usr/sbin/unbound", "-d", "-p", "-c", "DIR/unbound.conf"]
		ready = { notify = true }
		`)
	if as := userOf(t, s.Status("unbound").Pid); as != "unbound" {
		t.Errorf("it runs as %s", as)
	}
	s.want("192.0.2.7\n", "dig", "@127.0.0.1", "-p", "PORT", "+short", "www.example.test")
	s.stop("unbound")
}
