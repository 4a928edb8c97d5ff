package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"superd/config/codec"
	"superd/config/document"
	"superd/config/environ"
	"superd/config/listen"
)

// A Socket is one [socket.NAME] table: what superd listens on for programs.
type Socket struct {
	Name   string
	FDName string // the name of its descriptors in LISTEN_FDNAMES; never ""
	// In the order of the file, without two that exclude each other; the kernel has each once
	Listen []listen.Address

	Backlog   int     // connections that wait to be accepted
	Mode      *uint32 // of paths; nil: 0666
	User      string  // owner of paths; "" for that of superd
	Group     string  // likewise
	FreeBind  bool    // IP_FREEBIND: the address need not exist yet
	NoDelay   bool    // TCP_NODELAY, which accepted connections inherit
	KeepAlive bool    // SO_KEEPALIVE, likewise

	NonBlocking bool // O_NONBLOCK, which all who have the descriptor share

	// If not empty, it must not be opened; the programs that use it have the same mistakes
	Invalid Errors
	File    string // file in which its table begins
	Line    int    // its line when it was read
}

// defaultBacklog is what the kernel allows without further settings (net.core.somaxconn, since
// Linux 5.4). The backlog has to take all connections that come while a program restarts, so there
// is no reason for less.
const defaultBacklog = 4096

// maxFDName is the length of the longest name of a descriptor. Source: man 3 sd_listen_fds.
const maxFDName = 255

// reservedFDName is a name of a descriptor that superd passes to its successor. Others are numbers.
// What a socket unit has with such a name can't be told from these.
const reservedFDName = "control"

// maxDevice is the length of the longest name of a network interface. Source: IFNAMSIZ in man 7
// netdevice, less the NUL.
const maxDevice = 15

// A socketBuilder is a socket while it is read.
type socketBuilder struct {
	Socket
	written   []string // addresses, ${X} not yet expanded
	reusePort bool
	device    string
}

// socketKeys returns the keys of the table of a socket, in the order of the reference.
func socketKeys() []key {
	return []key{
		reading("required", bind("socket", "listen", addresses,
			func(d *builder) *[]string { return &d.socket.written },
			"Where superd listens: `\":80\"`, `\"127.0.0.1:80\"`, `\"[::]:80\"`, "+
				"`\"udp:0.0.0.0:53\"`, `\"unix:/run/web.sock\"`, `\"unix:@name\"`, "+
				"`\"unixgram:/run/log.sock\"` or `\"fifo:/run/web.fifo\"`. See [Sockets](#sockets).")),
		bind("socket", "backlog", codec.Integer(1, most),
			func(d *builder) *int { return &d.socket.Backlog },
			"How many connections wait until the program accepts them. The kernel's own limit, "+
				"`net.core.somaxconn`, holds as well."),
		reading("`\"0666\"`", bind("socket", "mode", codec.Octal("mode", "660", 0o777),
			func(d *builder) **uint32 { return &d.socket.Mode },
			"The mode of paths: `\"0660\"` or `0o660`. Who may write to a Unix socket may connect. "+
				"The umask does not apply to it.")),
		reading("superd's own", bind("socket", "user", codec.Word,
			func(d *builder) *string { return &d.socket.User },
			"The Unix user that owns paths: a name or number in `/etc/passwd`. superd must be "+
				"root.")),
		reading("superd's own", bind("socket", "group", codec.Word,
			func(d *builder) *string { return &d.socket.Group },
			"The Unix group of paths.")),
		reading("the socket's name", bind("socket", "fdname", fdName,
			func(d *builder) *string { return &d.socket.FDName },
			"Its name in `LISTEN_FDNAMES`, and among the sockets that superd gets from systemd.")),
		bind("socket", "reuse_port", codec.Boolean,
			func(d *builder) *bool { return &d.socket.reusePort },
			"Whether other processes of the same user may listen on the same port, too "+
				"(SO_REUSEPORT). What waits in one backlog is lost when that socket is closed."),
		bind("socket", "free_bind", codec.Boolean,
			func(d *builder) *bool { return &d.socket.FreeBind },
			"Whether the address may be one that the machine does not have yet (IP_FREEBIND)."),
		reading("all", bind("socket", "device", device,
			func(d *builder) *string { return &d.socket.device },
			"The network interface to listen on (SO_BINDTODEVICE).")),
		bind("socket", "no_delay", codec.Boolean,
			func(d *builder) *bool { return &d.socket.NoDelay },
			"Whether connections send at once what is written to them (TCP_NODELAY)."),
		bind("socket", "keep_alive", codec.Boolean,
			func(d *builder) *bool { return &d.socket.KeepAlive },
			"Whether the kernel asks idle peers if they are still there (SO_KEEPALIVE)."),
		bind("socket", "non_blocking", codec.Boolean,
			func(d *builder) *bool { return &d.socket.NonBlocking },
			"Whether a program does not wait in `accept` or `read` (O_NONBLOCK). nginx needs it."),
	}
}

// addresses reads an address, or an array of them. They are parsed when variables are known.
var addresses = codec.Codec[[]string]{
	Name:   "array of addresses, or an address",
	Schema: codec.OneOrList(codec.Word).Schema,
	Show:   codec.List("", codec.Word).Show,
	Read: func(v codec.Value) ([]string, bool) {
		items, isArray := v.Items()
		if !isArray {
			items = []codec.Value{v}
		}
		if len(items) == 0 {
			v.Fail(`names no address: write an address such as ":80" or "unix:/run/web.sock"`)
			return nil, false
		}
		all, ok := make([]string, len(items)), true
		for i, item := range items {
			if port, isNumber := item.Raw.(int64); isNumber && 0 < port && port < 1<<16 {
				item.Fail(`must be an address, got the integer %d: write ":%d"`, port, port)
				ok = false
				continue
			}
			text, isString := item.Str("an address", func(string) bool { return false })
			all[i], ok = text, isString && item.Template(text) && ok
		}
		return all, ok
	},
}

// fdName reads the name of a descriptor.
var fdName = codec.Text("string", "a string", func(s string) (string, error) {
	switch bad := strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' }); {
	case s == "":
		return "", fmt.Errorf("is empty: remove the key, or write a value")
	case bad >= 0 || len(s) > maxFDName:
		return "", fmt.Errorf("%s must be at most %d printable characters of ASCII, without ':' and blanks: choose another name", document.Quote(s), maxFDName)
	}
	return s, nil
}, codec.QuoteSet)

// device reads the name of a network interface.
var device = codec.Text("string", "a string", func(s string) (string, error) {
	switch bad := strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' || r == ':' }); {
	case s == "":
		return "", fmt.Errorf("is empty: remove the key, or write a value")
	case bad || len(s) > maxDevice:
		return "", fmt.Errorf(`%s can't be a network interface: write a name such as "eth0", of at most %d bytes`, document.Quote(s), maxDevice)
	}
	return s, nil
}, codec.QuoteSet)

// readSockets reads the tables of sockets and checks all sockets together.
func (l *loader) readSockets() {
	for _, table := range l.tables["socket"] {
		l.socket(table)
	}
	for _, name := range slices.Sorted(maps.Keys(l.socketBuilders)) {
		d := l.socketBuilders[name]
		l.resolve(d)
		d.checkSocket()
		if checkName("socket", name) == nil {
			l.sockets = append(l.sockets, d)
		}
	}
	l.checkAddresses()
}

// socket reads the table of one socket.
func (l *loader) socket(table codec.Value) {
	name := table.Key[len(table.Key)-1]
	d := builtin().child(table)
	if first := l.socketBuilders[name]; first != nil {
		table.Owner = &first.Invalid
		table.FailKey("is already defined at %s: rename one of them", first.self.KeyMistake("").Position())
	} else {
		l.socketBuilders[name] = d
		table.Owner = &d.Invalid
	}
	d.self = table
	d.Name, d.socket.Name, d.socket.FDName = name, name, name
	d.socket.File, d.socket.Line = table.Name, table.Line()
	if err := checkName("socket", name); err != nil {
		table.FailKey("%w", err)
	}
	d.decode(table, "socket", "")
}

// resolve parses the addresses of a socket.
func (l *loader) resolve(d *builder) {
	surroundings := environ.Inherited(l.environ)
	for i, template := range d.socket.written {
		at := d.address(i)
		text, unset, err := document.Expand(template, surroundings.Get)
		if len(unset) > 0 {
			err = fmt.Errorf("${%s} is not set in superd's environment: set it there, or write ${%s:-default}", unset[0], unset[0])
		}
		var address listen.Address
		if err == nil {
			address, err = listen.Parse(text, at.Path)
		}
		if err != nil {
			at.Fail("%w", err)
			continue
		}
		if address.Network.IsIP() {
			address.ReusePort, address.Device = d.socket.reusePort, d.socket.device
		}
		d.socket.Listen = append(d.socket.Listen, address)
	}
}

// address returns the position of an address of the socket.
func (d *builder) address(i int) codec.Value {
	written := d.mistakeAt("listen")
	if items, isArray := written.Items(); isArray {
		return items[i]
	}
	return written
}

// checkSocket refuses keys that have no effect with any address of the socket.
func (d *builder) checkSocket() {
	if _, isTable := d.self.Raw.(map[string]any); !isTable {
		return
	}
	if !d.isSet("listen") {
		if !slices.Contains(d.meant, "listen") {
			d.self.FailKey(`has no address: write listen = ":80"`)
		}
		return
	}
	if name := d.socket.FDName; name != "" && strings.Trim(name, "0123456789") == "" || name == reservedFDName {
		const why = "%q is a name under which superd itself stores descriptors with systemd: %s"
		if d.isSet("fdname") {
			d.set["fdname"].Fail(why, d.socket.FDName, "choose another name")
		} else {
			d.self.FailKey(why, d.socket.FDName, `write fdname = "NAME", too, or choose another name`)
		}
	}
	if len(d.Invalid) > 0 {
		return // the addresses are not known
	}
	for _, only := range []struct {
		what string
		fits func(listen.Address) bool
		keys []string
	}{
		{"a socket with connections, of TCP or Unix", func(a listen.Address) bool { return a.Network.Connects() }, []string{"backlog"}},
		{"a path", func(a listen.Address) bool { return a.Path() != "" }, []string{"mode", "user", "group"}},
		{"an address of TCP or UDP", func(a listen.Address) bool { return a.Network.IsIP() }, []string{"reuse_port", "free_bind", "device"}},
		{"an address of TCP", func(a listen.Address) bool { return a.Network.IsTCP() }, []string{"no_delay", "keep_alive"}},
	} {
		for _, name := range only.keys {
			if d.isSet(name) && !slices.ContainsFunc(d.socket.Listen, only.fits) {
				d.set[name].FailKey("has no meaning without %s: remove it", only.what)
			}
		}
	}
}

// checkAddresses refuses addresses that exclude each other, at both places.
func (l *loader) checkAddresses() {
	type use struct {
		*builder
		at      codec.Value
		address listen.Address
	}
	byPlace := map[string][]use{}
	for _, d := range l.sockets {
		if len(d.socket.Listen) != len(d.socket.written) {
			continue // one of them has a mistake
		}
		for i, address := range d.socket.Listen {
			u := use{d, d.address(i), address}
			for _, other := range byPlace[address.Place()] {
				switch {
				case !address.Excludes(other.address):
				case other.builder == d:
					u.at.Fail("%q can't be open together with %q in the same list: remove one of them", address, other.address)
				default:
					const text = "%q can't be open together with %q of the socket %q (%s): change one of them, or use one socket in both programs"
					u.at.Fail(text, address, other.address, other.Name, other.at.Position())
					other.at.Fail(text, other.address, address, d.Name, u.at.Position())
				}
			}
			byPlace[address.Place()] = append(byPlace[address.Place()], u)
		}
	}
}
