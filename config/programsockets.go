package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/config/codec"
	"superd/config/directory"
	"superd/config/document"
	"superd/config/listen"
	"superd/internal/words"
)

// ProgramSockets say which sockets a program gets, how, and when. A program with other sockets, or
// with others of their addresses, needs a new run.
type ProgramSockets struct {
	List []ProgramSocket // not empty; descriptors are in this order
	Pass SocketPass

	OnConnect      bool          // started by a connection; Autostart is true only with Accept
	IdleTimeout    time.Duration // without a connection, until it is stopped; 0: it is not
	Accept         bool          // superd accepts, and each connection has a process of its own
	MaxConnections int           // with Accept; 1 or more
	MaxPerSource   int           `json:",omitzero"` // likewise, from one IP address; 0: no limit
}

// A ProgramSocket is what a program gets of a socket.
type ProgramSocket struct {
	Name   string
	FDName string
	Listen []listen.Address
}

// SocketPass says how a program gets its sockets.
type SocketPass string

// The values of socket_pass.
const (
	// From descriptor 3 on, with LISTEN_FDS, LISTEN_FDNAMES and LISTEN_PID
	PassSystemd SocketPass = "systemd"
	PassFD      SocketPass = "fd"    // from descriptor 3 on, with the number in ${SOCKET_FD_NAME}
	PassStdin   SocketPass = "stdin" // as standard input
)

// firstSocketFD is the number of the first socket that a program gets. Source: SD_LISTEN_FDS_START
// in man 3 sd_listen_fds.
const firstSocketFD = 3

// A SocketFD is a descriptor with which a program is started.
type SocketFD struct {
	Number  int
	Socket  string // its name
	FDName  string
	Address listen.Address
	// The variable that has the number, with [PassFD]: SOCKET_FD_http, or SOCKET_FD_http_2 for the
	// second address of a socket
	Variable string
}

// FDs returns the descriptors that each run of the program gets; none with Accept, where a process
// gets its connection only: see [ProgramSockets.First]. s may be nil.
func (s *ProgramSockets) FDs() []SocketFD {
	if s == nil || s.Accept {
		return nil
	}
	var all []SocketFD
	for _, socket := range s.List {
		for i, address := range socket.Listen {
			fd := SocketFD{Number: s.First() + len(all), Socket: socket.Name, FDName: socket.FDName, Address: address}
			if s.Pass == PassFD {
				fd.Variable = socketVariable(socket.Name, i)
			}
			all = append(all, fd)
		}
	}
	return all
}

// Has reports whether the program gets the socket of that name. s may be nil.
func (s *ProgramSockets) Has(socket string) bool {
	return s != nil && slices.ContainsFunc(s.List, func(one ProgramSocket) bool { return one.Name == socket })
}

// Listeners returns the sockets as those of a program that accepts by itself.
func (s *ProgramSockets) Listeners() *ProgramSockets {
	return &ProgramSockets{List: s.List, Pass: PassSystemd}
}

// First returns the number of the first descriptor, or that of the connection with Accept.
func (s *ProgramSockets) First() int {
	if s.Pass == PassStdin {
		return 0
	}
	return firstSocketFD
}

// socketVariablePrefix begins the variables with numbers of descriptors.
const socketVariablePrefix = "SOCKET_FD_"

// socketVariable returns the variable for address i of a socket, counted from 0.
func socketVariable(socket string, i int) string {
	name := socketVariablePrefix + strings.NewReplacer(".", "_", "-", "_").Replace(socket)
	if i > 0 {
		name += "_" + strconv.Itoa(i+1)
	}
	return name
}

// defaultMaxConnections is that of systemd. Source: MaxConnections= in man 5 systemd.socket.
const defaultMaxConnections = 64

// programSocketKeys returns the keys of a program that concern sockets, in the order of the
// reference.
func programSocketKeys() []key {
	return []key{
		bind("program", "sockets", socketList,
			func(d *builder) *[]ProgramSocket { return &d.sockets.List },
			"The sockets that it gets, by the names of their tables: see [Sockets](#sockets). "+
				"All its replicas share them."),
		bind("program", "socket_pass", codec.Choice(PassSystemd, PassFD, PassStdin),
			func(d *builder) *SocketPass { return &d.sockets.Pass },
			"How: as systemd passes them; as descriptors whose numbers are in "+
				"`${SOCKET_FD_NAME}`; or as standard input, which is the default with `accept`."),
		bind("program", "idle_timeout", codec.Duration(true),
			func(d *builder) *time.Duration { return &d.sockets.IdleTimeout },
			"With `start = \"on-connect\"`: after how long without a connection it is "+
				"stopped; `\"0s\"`: never."),
		bind("program", "accept", codec.Boolean,
			func(d *builder) *bool { return &d.sockets.Accept },
			"Whether superd accepts connections and starts a process for each, as inetd does, "+
				"with `start = \"on-connect\"`. The process gets the connection instead of the "+
				"socket."),
		bind("program", "max_connections", codec.Integer(1, most),
			func(d *builder) *int { return &d.sockets.MaxConnections },
			"With `accept`: how many connections are served at a time, which is also the "+
				"greatest number of processes. More wait."),
		bind("program", "max_connections_per_source", codec.Integer(0, most),
			func(d *builder) *int { return &d.sockets.MaxPerSource },
			"With `accept`: how many connections from one IP address are served at a time; `0`: as "+
				"many as `max_connections`. More are closed at once."),
	}
}

// socketList reads names of sockets. They are looked up when all sockets are known.
var socketList = func() codec.Codec[[]ProgramSocket] {
	name := codec.Text("string", "the name of a socket", func(s string) (ProgramSocket, error) {
		if s == "" {
			return ProgramSocket{}, fmt.Errorf("is empty: write the name of a socket")
		}
		return ProgramSocket{Name: s}, nil
	}, func(s ProgramSocket) string { return strconv.Quote(s.Name) })
	return codec.List("array of strings", name)
}()

// autostartKey returns the key autostart. Of a program that connections start, it stays true while
// the field is false.
func autostartKey() key {
	k := bind("program", "autostart", codec.Boolean, func(d *builder) *bool { return &d.Autostart },
		"Whether it starts with superd.")
	shown := func(d *builder) bool { return d.Autostart || d.sockets.OnConnect }
	k.get = func(d *builder) any { return shown(d) }
	k.shown = func(d *builder) string { return codec.Boolean.Show(shown(d)) }
	return k
}

// startOnConnect is the value of start for a program that connections start.
const startOnConnect = "on-connect"

// startKey returns the key start.
func startKey() key {
	choice := codec.Choice("at-once", startOnConnect)
	show := func(d *builder) string {
		if d.sockets.OnConnect {
			return strconv.Quote(startOnConnect)
		}
		return strconv.Quote("at-once")
	}
	return key{
		table: "program", name: "start", codec: choice.Name, shape: choice.Schema,
		doc: "`\"on-connect\"`: it starts with the first connection to one of its `sockets`, " +
			"instead of with superd.",
		set: func(d *builder, v codec.Value) {
			if start, ok := choice.Read(v); ok {
				d.sockets.OnConnect = start == startOnConnect
			}
		},
		get:   func(d *builder) any { return show(d) },
		shown: show,
	}
}

// joinSockets gives the programs their sockets, and checks both together.
func (l *loader) joinSockets() {
	used := map[string]bool{}
	starts := map[string]*builder{} // by socket, the program that connections start
	for _, d := range l.programs {
		known := l.lookUpSockets(d)
		for _, s := range d.sockets.List {
			used[s.Name] = true
		}
		if known {
			d.checkSockets()
			d.checkStarts(starts)
		}
	}
	l.checkShared()
	l.checkRemoved()
	for _, d := range l.sockets {
		if !used[d.Name] && len(d.Invalid) == 0 {
			d.self.Warn("no program uses this socket: add it to the sockets of one, or remove it")
		}
	}
}

// lookUpSockets fills in the sockets that a program names. It reports whether all of them exist and
// are valid; a program whose sockets are not is invalid, too.
func (l *loader) lookUpSockets(d *builder) (known bool) {
	d.Sockets = nil
	list := slices.Clone(d.sockets.List)
	items, isArray := d.mistakeAt("sockets").Items()
	if len(items) != len(list) || isArray != d.anySet("sockets") {
		return false // reported elsewhere
	}
	known = true
	for i := range list {
		name := list[i].Name
		of := l.socketBuilders[name]
		switch {
		case of == nil:
			items[i].Fail("there is no socket %s%s", document.Quote(name),
				words.DidYouMean(name, slices.Sorted(maps.Keys(l.socketBuilders)), ": add a table [socket.NAME] for it, or remove it here"))
			known = false
		case slices.ContainsFunc(list[:i], func(s ProgramSocket) bool { return s.Name == name }):
			items[i].Fail("%q stands twice: remove one", name)
			known = false
		case len(of.Invalid) > 0:
			d.Invalid = append(d.Invalid, of.Invalid...)
			known = false
		default:
			list[i].FDName, list[i].Listen = of.socket.FDName, of.socket.Listen
		}
	}
	if d.sockets.List = list; len(list) > 0 {
		sockets := d.sockets
		d.Sockets = &sockets
	}
	return known
}

// checkRemoved warns of a socket in a directory that superd removes when a run ends.
func (l *loader) checkRemoved() {
	const root = "/run/" // of a superd that is root
	for _, d := range l.programs {
		if !d.RemovesDirectories() {
			continue
		}
		for _, name := range d.runtimeNames() {
			for _, socket := range l.sockets {
				if len(socket.Invalid) > 0 {
					continue
				}
				for i, address := range socket.socket.Listen {
					if directory.Within(address.Path(), root+name) {
						socket.address(i).Warn("%q is in a runtime_directory of %q, which is removed when a run ends: choose another path, or write runtime_directory_preserve = true there", address, d.Name)
					}
				}
			}
		}
	}
}

// checkStarts refuses a socket whose connections start two programs.
func (d *builder) checkStarts(starts map[string]*builder) {
	if d.Sockets == nil || !d.Sockets.OnConnect {
		return
	}
	for i, s := range d.Sockets.List {
		if first := starts[s.Name]; first != nil {
			items, _ := d.mistakeAt("sockets").Items()
			items[i].Fail("connections to %q start %q already (%s): remove it from one of them, or write start = \"at-once\" there",
				s.Name, first.Name, first.self.Position())
			continue
		}
		starts[s.Name] = d
	}
}

// checkShared refuses a socket of a program whose connections superd accepts in another program.
func (l *loader) checkShared() {
	for _, d := range l.programs {
		if !d.sockets.Accept {
			continue
		}
		for _, other := range l.programs {
			for i, s := range other.sockets.List {
				if other == d || !d.sockets.Has(s.Name) {
					continue
				}
				items, _ := other.mistakeAt("sockets").Items()
				items[i].Fail("superd accepts the connections to %q for %q (%s): remove it here, or write accept = false there",
					s.Name, d.Name, d.self.Position())
			}
		}
	}
}

// checkSockets checks the keys of a program that concern its sockets in combination.
func (d *builder) checkSockets() {
	s := &d.sockets
	if len(s.List) == 0 {
		if s.OnConnect {
			d.mistakeAt("start").Fail(`"on-connect" needs sockets that are connected to: write sockets = ["NAME"], too`)
		}
		d.refuseSet("has no meaning without sockets: add them, or remove it", "socket_pass", "idle_timeout", "accept", "max_connections", "max_connections_per_source")
		return
	}
	fds := s.FDs()
	if s.Pass == PassStdin && len(fds) > 1 {
		d.mistakeAt("socket_pass", "sockets").Fail(`"stdin" is one descriptor, and the sockets have %d: name one socket with one address, or write socket_pass = "systemd" or "fd"`, len(fds))
	}
	if last := s.First() + len(fds); d.Ready != nil && d.Ready.FD >= firstSocketFD && d.Ready.FD < last {
		d.mistakeAt("ready.fd").Fail("%d is the number of a socket of the program: write %d", d.Ready.FD, last)
	}
	d.checkProbes(fds)
	if s.OnConnect {
		d.checkOnConnect()
	}
	switch {
	case s.Accept:
		d.checkAccept()
	case !s.OnConnect:
		d.refuseSet(`has no meaning without start = "on-connect": write that, too, or remove it`, "idle_timeout", "max_connections", "max_connections_per_source")
	default:
		d.refuseSet("has no meaning without accept = true: write that, too, or remove it", "max_connections", "max_connections_per_source")
	}
	if s.Pass == PassFD {
		d.checkSocketVariables(fds)
	}
}

// checkOnConnect checks a program that connections start. It does not start with superd, which only
// watches its sockets, so Autostart is false from now on.
func (d *builder) checkOnConnect() {
	if d.Type == TypeOneshot {
		d.mistakeAt("start", "type").Fail(`"on-connect" is for services: write type = "service", or start = "at-once"`)
	}
	if !d.Autostart {
		d.mistakeAt("autostart", "start").Fail(`nothing but a command starts it with autostart = false, not even a connection: write autostart = true, or start = "at-once"`)
	}
	d.Autostart = false
}

// checkProbes warns of probes of the program's own sockets: where superd listens, a connection
// succeeds whether the program accepts it or not.
func (d *builder) checkProbes(fds []SocketFD) {
	for key, probe := range map[string]struct{ address, remedy string }{
		"ready.tcp":  {d.ready.TCP, "write ready.notify, ready.fd or ready.line"},
		"health.tcp": {d.health.TCP, "write health.http or health.exec"},
	} {
		probed, err := listen.Parse(strings.Replace(probe.address, "localhost:", "127.0.0.1:", 1), nil)
		if err != nil {
			continue // a name, or variables
		}
		for _, fd := range fds {
			if fd.Address.Network.IsTCP() && fd.Address.Excludes(probed) {
				d.mistakeAt(key).Warn("superd itself listens at %s, so a connection says nothing about the program: %s", fd.Address, probe.remedy)
			}
		}
	}
}

// checkAccept checks a program that has a process for each connection.
func (d *builder) checkAccept() {
	s := &d.sockets
	d.Autostart = true // it accepts from the beginning
	if !d.anySet("socket_pass") {
		s.Pass, d.Sockets.Pass = PassStdin, PassStdin
	}
	if !s.OnConnect {
		d.mistakeAt("accept").Fail(`each connection starts a process: write start = "on-connect", too`)
	}
	for _, socket := range s.List {
		for _, address := range socket.Listen {
			if !address.Network.Connects() {
				d.mistakeAt("accept", "sockets").Fail("%q of the socket %q has no connections to accept: write accept = false, or use addresses of TCP and Unix sockets only", address, socket.Name)
			}
		}
	}
	if s.Pass == PassFD {
		d.mistakeAt("socket_pass", "accept").Fail(`"fd" is for sockets, and a connection needs no number: write "stdin" or "systemd"`)
	}
	if d.Replicas != 1 {
		d.mistakeAt("replicas", "accept").Fail("connections are the replicas of a program with accept: write max_connections = %d, or remove it", max(1, d.Replicas))
	}
	const why = "has no meaning with accept, where each connection has a process of its own: remove it"
	d.refuseSet(why, "idle_timeout", "ready", "health", "rolling", "restart", "no_restart_exit_codes", "start_limit", "backoff", "essential", "watch")
	d.Ready, d.Health, d.Rolling, d.Watch, d.Essential = nil, nil, nil, nil, false // of [defaults]
	if d.Type == TypeForking {
		d.mistakeAt("type", "accept").Fail(`the process of a connection stays in the foreground: write type = "service"`)
	}
	if file := cmp.Or(d.Log.File, d.Log.StderrFile); file != "" && s.MaxConnections > 1 {
		d.mistakeAt("log.file", "log.stderr_file", "accept").Fail("%q would be the log file of %d processes: remove it, and each has <instance>.log; or write max_connections = 1", file, s.MaxConnections)
	}
	if name := d.SharedDirectory(); name != "" && s.MaxConnections > 1 {
		d.mistakeAt(directory.Runtime.Key()).Fail("%q would be removed with the process of each connection: add ${SUPERD_REPLICA} to it, or write runtime_directory_preserve = true", name)
	}
}

// refuseSet refuses keys that the table itself sets.
func (d *builder) refuseSet(why string, names ...string) {
	for _, name := range names {
		if v, ok := d.set[name]; ok {
			v.FailKey("%s", why)
		}
	}
}

// checkSocketVariables refuses variables that would stand for two things.
func (d *builder) checkSocketVariables(fds []SocketFD) {
	owners := map[string]string{}
	for _, fd := range fds {
		if other, taken := owners[fd.Variable]; taken {
			d.mistakeAt("sockets").Fail("${%s} would stand for %q and for %q: rename one of them", fd.Variable, other, fd.Socket)
			return
		}
		owners[fd.Variable] = fd.Socket
		if _, own := d.Environment[fd.Variable]; own {
			d.variable(fd.Variable).FailKey("is set by superd itself, to the descriptor of a socket: choose another name")
		}
	}
}

// checkReference returns why a variable that is not set has the name of one with a descriptor; nil
// if it has another name.
func (d *builder) checkReference(variable string) error {
	if !strings.HasPrefix(variable, socketVariablePrefix) {
		return nil
	}
	asFDs := d.sockets
	asFDs.Pass, asFDs.Accept = PassFD, false
	var all []string
	for _, fd := range asFDs.FDs() {
		if fd.Variable == variable {
			return fmt.Errorf("${%s} has a value with socket_pass = \"fd\" only: write that, too", variable)
		}
		all = append(all, fd.Variable)
	}
	if nearest := words.Nearest(variable, all); nearest != "" {
		return fmt.Errorf("${%s} is no socket of the program: did you mean ${%s}?", variable, nearest)
	}
	return fmt.Errorf("${%s} is no socket of the program: add it to sockets, or remove this", variable)
}

// setsSocket reports whether superd sets the variable: to the number of a descriptor, or to the
// peer of a connection. A peer of a Unix socket may have no name.
func (d *builder) setsSocket(variable string) bool {
	if s := d.Sockets; s != nil && s.Accept && (variable == "REMOTE_ADDR" || variable == "REMOTE_PORT") {
		return !slices.ContainsFunc(s.Listeners().FDs(), func(fd SocketFD) bool { return !fd.Address.Network.IsTCP() })
	}
	return strings.HasPrefix(variable, socketVariablePrefix) &&
		slices.ContainsFunc(d.Sockets.FDs(), func(fd SocketFD) bool { return fd.Variable == variable })
}
