package systemd

import (
	"strings"

	"superd/config"
	"superd/config/listen"
	"superd/exporter/manifest"
)

// sockets writes the units of the sockets that a program is the first to have.
func (e *exporting) sockets(p *manifest.Program) {
	if p.Sockets.Accept {
		// All of them are one unit, since a process for each connection belongs to the unit's name.
		u := e.socket(p, p.Sockets.List[0].Name)
		for _, used := range p.Sockets.List[1:] {
			p.Note("sockets", "the settings of %s hold for %s, too, as they are one unit", p.Sockets.List[0].Name, used.Name)
			listens(u, e.Socket(used.Name))
		}
		u.set("Socket", "Accept", "yes")
		u.set("Socket", "MaxConnections", "%d", p.Sockets.MaxConnections)
		if p.Sockets.MaxPerSource > 0 {
			u.set("Socket", "MaxConnectionsPerSource", "%d", p.Sockets.MaxPerSource)
		}
		e.add(p.Name+".socket", u)
		return
	}
	for _, used := range p.Sockets.List {
		if e.socketOwners[used.Name] != p {
			continue
		}
		u := e.socket(p, used.Name)
		if template(p) {
			p.Note("replicas", "a socket starts one unit only: %s@1", p.Name)
			u.set("Socket", "Service", "%s@1.service", p.Name)
		} else {
			u.set("Socket", "Service", "%s.service", p.Name)
		}
		e.add(e.socketUnit(p, used.Name), u)
	}
}

// socket returns the unit of a socket, without what depends on the program.
func (e *exporting) socket(p *manifest.Program, name string) *unit {
	s, u := e.Socket(name), &unit{}
	u.set("Unit", "Description", "the socket %s", specifier(name))
	set := func(key, format string, args ...any) { u.set("Socket", key, format, args...) }
	listens(u, s)
	set("Backlog", "%d", s.Backlog)
	if s.Mode != nil {
		set("SocketMode", "%04o", *s.Mode)
	}
	if s.User != "" {
		set("SocketUser", "%s", s.User)
	}
	if s.Group != "" {
		set("SocketGroup", "%s", s.Group)
	}
	if s.FDName != p.Name || p.Sockets.List[0].Name != name {
		set("FileDescriptorName", "%s", s.FDName)
	}
	for _, flag := range []struct {
		key string
		on  bool
	}{{"FreeBind", s.FreeBind}, {"NoDelay", s.NoDelay}, {"KeepAlive", s.KeepAlive}} {
		if flag.on {
			set(flag.key, "yes")
		}
	}
	for _, a := range s.Listen {
		if a.ReusePort {
			set("ReusePort", "yes")
		}
		if a.Device != "" {
			set("BindToDevice", "%s", a.Device)
		}
		if a.ReusePort || a.Device != "" {
			break // all of a socket have the same
		}
	}
	if p.Autostart || p.Sockets.OnConnect {
		u.set("Install", "WantedBy", "sockets.target")
	}
	return u
}

// listens writes the addresses of a socket.
func listens(u *unit, s *config.Socket) {
	for _, a := range s.Listen {
		key := "ListenStream"
		switch {
		case a.Network.IsUDP() || a.Network == listen.Unixgram:
			key = "ListenDatagram"
		case a.Network == listen.FIFO:
			key = "ListenFIFO"
		}
		address := strings.TrimPrefix(a.Address, ":") // a port alone is that of all addresses
		u.set("Socket", key, "%s", specifier(address))
		if a.Network == listen.TCP6 || a.Network == listen.UDP6 {
			u.set("Socket", "BindIPv6Only", "ipv6-only")
		}
	}
}
