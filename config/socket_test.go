package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/config/listen"
)

func TestSocketKeysReachTheirFields(t *testing.T) {
	c := mustLoad(t, `[socket.http]
listen = ["127.0.0.1:80", "unix:web.sock"]
backlog = 7
mode = "0660"
user = "root"
group = "www-data"
fdname = "www"
reuse_port = true
free_bind = true
device = "eth0"
no_delay = true
keep_alive = true
non_blocking = true
[socket.dns]
listen = "udp::53"
[socket.ssh]
listen = ":22"
[defaults]
start = "on-connect"
[program.web]
command = "x"
sockets = ["dns", "http"]
socket_pass = "fd"
start = "at-once"
[program.ssh]
command = "x"
sockets = ["ssh"]
accept = true
max_connections = 9
[program.idle]
command = "x"
sockets = ["dns"]
idle_timeout = "5m"
`)
	mode := uint32(0o660)
	dns := []listen.Address{{Network: listen.UDP, Address: ":53"}}
	ssh := []listen.Address{{Network: listen.TCP, Address: ":22"}}
	http := []listen.Address{
		{Network: listen.TCP4, Address: "127.0.0.1:80", ReusePort: true, Device: "eth0"},
		{Network: listen.Unix, Address: "/etc/superd/web.sock"},
	}
	if got, want := c.Socket("dns"), (&Socket{Name: "dns", FDName: "dns", Listen: dns, Backlog: defaultBacklog, File: "superd.toml", Line: 14}); !reflect.DeepEqual(got, want) {
		t.Errorf("dns = %+v, want %+v", got, want)
	}
	want := &Socket{
		Name: "http", FDName: "www", Listen: http,
		Backlog: 7, Mode: &mode, User: "root", Group: "www-data", FreeBind: true, NoDelay: true, KeepAlive: true, NonBlocking: true, File: "superd.toml", Line: 1,
	}
	if got := c.Socket("http"); !reflect.DeepEqual(got, want) {
		t.Errorf("http = %+v, want %+v", got, want)
	}
	for name, want := range map[string]ProgramSockets{
		"web":  {List: []ProgramSocket{{"dns", "dns", dns}, {"http", "www", http}}, Pass: PassFD, MaxConnections: 64},
		"ssh":  {List: []ProgramSocket{{"ssh", "ssh", ssh}}, Pass: PassStdin, OnConnect: true, Accept: true, MaxConnections: 9},
		"idle": {List: []ProgramSocket{{"dns", "dns", dns}}, Pass: PassSystemd, OnConnect: true, IdleTimeout: 5 * time.Minute, MaxConnections: 64},
	} {
		if p := c.Program(name); !reflect.DeepEqual(p.Sockets, &want) || p.Autostart != (want.Accept || !want.OnConnect) {
			t.Errorf("sockets of %s = %+v, autostart %v, want %+v", name, p.Sockets, p.Autostart, want)
		}
	}
}

// describeSockets returns the changes of sockets in the form of the tests.
func describeSockets(d Diff) string {
	var b strings.Builder
	for _, c := range d.Sockets {
		fmt.Fprintf(&b, "%s %s", c.Name, c.Kind)
		for _, k := range c.Keys {
			fmt.Fprintf(&b, ", %v", k)
			if k.Restart {
				b.WriteString(" (restart)")
			}
		}
		for _, list := range []struct {
			what string
			of   []listen.Address
		}{{"opened", c.Opened}, {"closed", c.Closed}} {
			if len(list.of) > 0 {
				fmt.Fprintf(&b, ", %s %v", list.what, list.of)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestCompareSockets: a reload opens and closes what differs, and restarts the programs whose
// descriptors differ.
func TestCompareSockets(t *testing.T) {
	const (
		users = "\n[program.a]\ncommand = 'x'\nsockets = ['s']\n[program.b]\ncommand = 'x'\n"
		one   = "[socket.s]\nlisten = [':80', 'unix:/run/s']\n"
	)
	const restart = "a restart needed: sockets changed (restart)\nb unchanged\n"
	const none = "a unchanged\nb unchanged\n"
	tests := []struct{ name, old, new, sockets, programs string }{
		{"nothing", one, "# moved\n" + one, "s unchanged\n", none},
		{"another notation", one, "[socket.s]\nlisten = ['tcp::080', 'unix:/run/../run/s']\nbacklog = 4096", "s unchanged\n", none},
		{"an address more", one, "[socket.s]\nlisten = [':80', 'unix:/run/s', ':81']",
			`s restart needed, listen [":80", "unix:/run/s"] -> [":80", "unix:/run/s", ":81"] (restart), opened [:81]` + "\n", restart},
		{"another address", one, "[socket.s]\nlisten = [':81', 'unix:/run/s']",
			`s restart needed, listen [":80", "unix:/run/s"] -> [":81", "unix:/run/s"] (restart), opened [:81], closed [:80]` + "\n", restart},
		{"another order", one, "[socket.s]\nlisten = ['unix:/run/s', ':80']",
			`s restart needed, listen [":80", "unix:/run/s"] -> ["unix:/run/s", ":80"] (restart)` + "\n", restart},
		{"in place", one, one + "backlog = 5\nmode = '600'\nuser = 'root'\ngroup = 'root'\nfree_bind = true\nno_delay = true\nkeep_alive = true\nnon_blocking = true",
			`s applied live, backlog 4096 -> 5, mode = "600", user = "root", group = "root", free_bind false -> true, no_delay false -> true, keep_alive false -> true, non_blocking false -> true` + "\n", none},
		{"bound otherwise", one, one + "device = 'eth0'\nreuse_port = true",
			"s restart needed, reuse_port false -> true (restart), device = \"eth0\" (restart), opened [:80], closed [:80]\n", restart},
		{"another name", one, one + "fdname = 'www'", `s restart needed, fdname "s" -> "www" (restart)` + "\n", restart},
		{"a mistake", one, one + "backlog = 0",
			"s restart needed, backlog has a mistake: must be an integer from 1 to 1000000, got 0 (restart), closed [:80 unix:/run/s]\n",
			"a restart needed: socket.s.backlog has a mistake: must be an integer from 1 to 1000000, got 0 (restart), sockets changed (restart)\nb unchanged\n"},
		{"a socket more", one, one + "[socket.t]\nlisten = ':81'", "s unchanged\nt added, opened [:81]\n", none},
		{"a socket less", one + "[socket.r]\nlisten = ':81'", one, "r removed, closed [:81]\ns unchanged\n", none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var configs [2]*Config
			for i, text := range []string{tt.old, tt.new} {
				c, err := load("superd.toml", memory(map[string]string{"superd.toml": text + users}))
				if err != nil {
					t.Fatal(err)
				}
				configs[i] = c
			}
			diff := Compare(configs[0], configs[1])
			if got := describeSockets(diff); got != tt.sockets {
				t.Errorf("sockets:\n%swant\n%s", got, tt.sockets)
			}
			diff.Superd = nil
			if got := describe(diff); got != tt.programs {
				t.Errorf("programs:\n%swant\n%s", got, tt.programs)
			}
			if got, want := diff.Differs(), tt.sockets != "s unchanged\n"; got != want {
				t.Errorf("Differs() = %v, want %v", got, want)
			}
		})
	}
}

// TestCompareProgramSockets: what a run gets needs a new one, when it starts and stops does not.
func TestCompareProgramSockets(t *testing.T) {
	const base = "[socket.s]\nlisten = ':80'\n[socket.t]\nlisten = ':81'\n[program.a]\ncommand = 'x'\n"
	for _, tt := range []struct{ old, new, want string }{
		{"", "sockets = ['s']", `a restart needed: sockets [] -> ["s"] (restart)`},
		{"sockets = ['s']", "", `a restart needed: sockets ["s"] -> [] (restart)`},
		{"sockets = ['s', 't']", "sockets = ['t', 's']", `a restart needed: sockets ["s", "t"] -> ["t", "s"] (restart)`},
		{"sockets = ['s']", "sockets = ['s']\nsocket_pass = 'fd'", `a restart needed: socket_pass "systemd" -> "fd" (restart)`},
		{"sockets = ['s']", "sockets = ['s']\nstart = 'on-connect'", `a applied live: start "at-once" -> "on-connect"`},
		{"sockets = ['s']\nstart = 'on-connect'", "sockets = ['s']\nautostart = false", `a applied live: autostart true -> false, start "on-connect" -> "at-once"`},
		{"sockets = ['s']\nstart = 'on-connect'", "sockets = ['s']\nstart = 'on-connect'\nidle_timeout = '5s'", `a applied live: idle_timeout "0s" -> "5s"`},
		{"sockets = ['s']\nstart = 'on-connect'", "sockets = ['s']\nstart = 'on-connect'\naccept = true\nmax_connections = 5",
			`a restart needed: socket_pass "systemd" -> "stdin" (restart), accept false -> true (restart), max_connections 64 -> 5`},
	} {
		before, after := mustLoad(t, base+tt.old), mustLoad(t, base+tt.new)
		if got := strings.TrimSpace(describe(Compare(before, after))); got != tt.want {
			t.Errorf("%q -> %q gives\n%s, want\n%s", tt.old, tt.new, got, tt.want)
		}
	}
}

// TestExcludedSocket: a run that has an address stands in the way of another.
func TestExcludedSocket(t *testing.T) {
	of := func(addresses ...listen.Address) *Program {
		return &Program{Settings: &Settings{Sockets: &ProgramSockets{List: []ProgramSocket{{Listen: addresses}}}}}
	}
	local, all := listen.Address{Network: listen.TCP, Address: "127.0.0.1:80"}, listen.Address{Network: listen.TCP, Address: ":80"}
	device, other := all, listen.Address{Network: listen.TCP, Address: ":81"}
	device.Device = "lo"
	for _, tt := range []struct {
		run, next *Program
		want      bool
	}{
		{of(local), of(all), true},
		{of(other, all), of(device), true},
		{of(all), of(all, other), false},
		{of(local), of(other), false},
		{&Program{Settings: &Settings{}}, of(all), false},
		{of(all), &Program{Settings: &Settings{}}, false},
	} {
		if got := ExcludedSocket(tt.run, tt.next); (got != "") != tt.want {
			t.Errorf("from %+v to %+v: %q, want one: %v", tt.run.Sockets, tt.next.Sockets, got, tt.want)
		}
	}
}

// TestEachSocketFieldIsCompared fails for a field of a socket in which a difference goes unnoticed.
func TestEachSocketFieldIsCompared(t *testing.T) {
	full := func() *Socket {
		s := builtin().socket.Socket
		s.Mode = new(uint32)
		return &s
	}
	none := []string{"Name", "File", "Line", "Invalid"}
	visitLeaves(reflect.ValueOf(full()).Elem(), "", func(path string, _ reflect.Value) {
		if slices.Contains(none, strings.TrimPrefix(path, ".")) {
			return
		}
		before, after := full(), full()
		visitLeaves(reflect.ValueOf(after).Elem(), "", func(other string, leaf reflect.Value) {
			if other == path {
				alter(t, leaf)
			}
		})
		if c := compareSocket(before, after); c.Kind == Unchanged || len(c.Keys) == 0 {
			t.Errorf("a difference in Socket%s is %s, by the keys %v", path, c.Kind, c.Keys)
		}
	})
}

// TestFDs: descriptors are numbered in the order of the file, addresses of a socket side by side.
func TestFDs(t *testing.T) {
	http := ProgramSocket{"my-http", "www", []listen.Address{{Network: listen.TCP, Address: ":80"}, {Network: listen.TCP, Address: ":443"}}}
	dns := ProgramSocket{"dns", "dns", []listen.Address{{Network: listen.UDP, Address: ":53"}}}
	show := func(s *ProgramSockets) string {
		var all []string
		for _, fd := range s.FDs() {
			all = append(all, fmt.Sprintf("%d %s %s %v %s", fd.Number, fd.Socket, fd.FDName, fd.Address, fd.Variable))
		}
		return strings.Join(all, "; ")
	}
	for _, tt := range []struct {
		sockets *ProgramSockets
		want    string
	}{
		{nil, ""},
		{&ProgramSockets{List: []ProgramSocket{http, dns}, Pass: PassSystemd}, "3 my-http www :80 ; 4 my-http www :443 ; 5 dns dns udp::53 "},
		{&ProgramSockets{List: []ProgramSocket{dns, http}, Pass: PassFD},
			"3 dns dns udp::53 SOCKET_FD_dns; 4 my-http www :80 SOCKET_FD_my_http; 5 my-http www :443 SOCKET_FD_my_http_2"},
		{&ProgramSockets{List: []ProgramSocket{dns}, Pass: PassStdin}, "0 dns dns udp::53 "},
		{&ProgramSockets{List: []ProgramSocket{http}, Pass: PassStdin, Accept: true}, ""},
	} {
		if got := show(tt.sockets); got != tt.want {
			t.Errorf("FDs of %+v = %s, want %s", tt.sockets, got, tt.want)
		}
	}
	if first := (&ProgramSockets{Pass: PassStdin, Accept: true}).First(); first != 0 {
		t.Errorf("First = %d, want 0", first)
	}
}
