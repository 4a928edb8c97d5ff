package daemons

import (
	"strconv"
	"testing"
)

func TestNamed(t *testing.T) {
	s := newSite(t, "bind9")
	s.port("PORT")
	s.folder("bind", "bind")
	s.file("named.conf", `
		options {
			directory "DIR/bind";
			pid-file "DIR/bind/named.pid";
			session-keyfile "DIR/bind/session.key";
			listen-on port PORT { 127.0.0.1; };
			listen-on-v6 { none; };
			recursion no;
		};
		controls { };
		zone "example.test" { type primary; file "DIR/zone"; };
		`)
	s.file("zone", `$TTL 60
@ SOA ns admin 1 3600 600 86400 60
@ NS ns
ns A 127.0.0.1
www A 192.0.2.7
`)
	s.file("default", "# startup options for the server\nOPTIONS=\"-u bind -c DIR/named.conf\"\n")
	s.start(`
		[program.named]
		env_file = ["-DIR/none", "-DIR/default"]
		command = "/usr/sbin/named -f $OPTIONS"
		nice = 1
		ready = { notify = true }
		`)
	if as := userOf(t, s.Status("named").Pid); as != "bind" {
		t.Errorf("it runs as %s", as)
	}
	s.want("1\n", "sh", "-c", "cut -d ' ' -f 19 /proc/"+strconv.Itoa(s.Status("named").Pid)+"/stat")
	s.want("192.0.2.7\n", "dig", "@127.0.0.1", "-p", "PORT", "+short", "www.example.test")
	s.stop("named")
}

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
