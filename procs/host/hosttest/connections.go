package hosttest

import (
	"superd/config"
	"superd/config/listen"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// Connect lets a client connect to an address. It reports whether the address is open.
func (k *Kernel) Connect(a listen.Address) bool {
	for _, fd := range sortedKeys(k.listening) {
		if l := k.listening[fd]; l.Address == a {
			l.Waiting++
			k.showWaiting(l)
			return true
		}
	}
	return false
}

// showWaiting makes a socket readable while a connection waits in it.
func (k *Kernel) showWaiting(l *Listening) {
	ready := loop.Ready(0)
	if l.Waiting > 0 && !k.Defects.HidesConnections && !(k.Defects.HidesFromBusy && k.isServed(l)) {
		ready = loop.Readable
	}
	for _, fd := range sortedKeys(k.listening) {
		if k.listening[fd] == l {
			k.v.SetReady(fd, ready)
		}
	}
}

// isServed reports whether a program that lives has the socket.
func (k *Kernel) isServed(l *Listening) bool {
	for p := range k.Processes() {
		if p.Role != RoleMain || p.Zombie || k.definitions[p.Run] == nil {
			continue
		}
		for _, fd := range k.definitions[p.Run].Sockets.FDs() {
			if fd.Address == l.Address {
				return true
			}
		}
	}
	return false
}

// AcceptAll lets a program accept what waits in its sockets.
func (k *Kernel) AcceptAll(sockets *config.ProgramSockets) {
	for _, l := range k.Listening() {
		for _, fd := range sockets.FDs() {
			if fd.Address == l.Address {
				l.Waiting = 0
				k.showWaiting(l)
			}
		}
	}
}

// Accept implements [host.Sockets].
func (k *Kernel) Accept(fd *host.SharedFD, most int) (all []host.Connection, err error) {
	l := k.listening[fd.FD()]
	if l == nil || most < 1 {
		k.fail("%d connections of descriptor %d are accepted", most, fd.FD())
		return nil, nil
	}
	for l.Waiting > 0 && len(all) < most {
		l.Waiting--
		connection := k.v.NewFD()
		k.connections[connection] = ""
		all = append(all, host.Connection{FD: host.NewSharedFD(connection, k.closeConnection), Addr: "192.0.2.1", Port: "1"})
	}
	k.showWaiting(l)
	if k.OnAccept != nil && len(all) > 0 {
		k.OnAccept(l.Address)
	}
	return all, nil
}

func (k *Kernel) closeConnection(fd int) {
	if k.Defects.LeaksConnections {
		return
	}
	if _, open := k.connections[fd]; !open {
		k.fail("connection %d is closed, which is not open", fd)
	}
	delete(k.connections, fd)
	k.v.CloseFD(fd)
}

// OpenConnections returns how many accepted connections superd has open.
func (k *Kernel) OpenConnections() int { return len(k.connections) }

// Serving returns how many connections of a program superd has accepted, and it or a process has.
func (k *Kernel) Serving(program string) (n int) {
	starting := map[string]bool{}
	for _, run := range k.connections {
		starting[run] = true
	}
	for p := range k.Processes() {
		if p.Role == RoleMain && !p.Zombie && k.served[p.Run] && !starting[p.Run] && config.ProgramOf(p.Instance) == program {
			n++
		}
	}
	return n + len(k.connections)
}

// useConnection checks the connection with which a main process is started.
func (k *Kernel) useConnection(spec *host.SpawnSpec) {
	run, _ := spec.Own.Get("SUPERD_INVOCATION_ID")
	if len(spec.Sockets) != 1 || !spec.Connection {
		k.fail("%s is started without a connection", spec.Name)
		return
	}
	fd := spec.Sockets[0].FD()
	switch other, open := k.connections[fd]; {
	case !open:
		k.fail("%s is started with a connection that is closed", spec.Name)
	case other != "":
		k.fail("%s is started with a connection that another run has", spec.Name)
	case k.served[run]:
		k.fail("%s is started for a second connection in one run", spec.Name)
	}
	k.connections[fd], k.served[run] = run, true
}

// endConnection ends a process by itself that serves a connection.
func (p *Process) endConnection(definition *config.Program) {
	if k := p.k; definition.Accepts() && k.Mix.ConnectionTime > 0 {
		code := k.rng.IntN(2)
		p.scope.After(k.upTo(k.Mix.ConnectionTime), func() { p.End(pidfd.Exit{Known: true, Code: code}) })
	}
}
