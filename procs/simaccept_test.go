package procs

import (
	"maps"
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/snapshot"
)

// The programs of a [socketHistory] that connections start: accepts has a process for each, and
// awaits starts with the first.
const accepts, awaits = "accepts", "awaits"

var (
	acceptsAt = listen.Address{Network: listen.TCP4, Address: "127.0.0.1:8"}
	awaitsAt  = listen.Address{Network: listen.Unix, Address: "/run/awaits"}
)

// drawConnected adds programs that connections start.
func (h *socketHistory) drawConnected(conf *config.Config) {
	add := func(name string, at listen.Address, own config.ProgramSockets) {
		s := &config.Socket{Name: "t-" + name, FDName: name, Listen: []listen.Address{at}, Backlog: 1}
		conf.Sockets = append(conf.Sockets, s)
		own.List = []config.ProgramSocket{{Name: s.Name, FDName: name, Listen: s.Listen}}
		own.OnConnect = true
		p := programNamed(name, func(p *config.Program) {
			p.Sockets, p.Autostart, p.Restart = &own, own.Accept, config.RestartOnFailure
		})
		h.kernel.AllowKillMode(name, p.KillMode)
		conf.Programs = append([]*config.Program{p}, conf.Programs...)
	}
	if h.random.IntN(4) > 0 {
		add(awaits, awaitsAt, config.ProgramSockets{
			Pass: config.PassFD, IdleTimeout: time.Duration(h.random.IntN(2)) * time.Minute,
		})
	}
	if h.random.IntN(4) > 0 {
		add(accepts, acceptsAt, config.ProgramSockets{
			Pass: config.PassStdin, Accept: true, MaxConnections: 1 + h.random.IntN(4),
		})
	}
}

// disturbConnected lets clients connect, or an operator stop and start the programs.
func (h *socketHistory) disturbConnected() {
	switch h.random.IntN(4) {
	case 0, 1:
		for range 1 + h.random.IntN(6) {
			h.kernel.Connect(acceptsAt)
		}
	case 2:
		h.kernel.Connect(awaitsAt)
	case 3:
		h.command(Op(h.random.IntN(3)), []string{accepts, awaits}[h.random.IntN(2)])
	}
}

// command gives a command for a program, if that exists.
func (h *socketHistory) command(op Op, program string) {
	if inspect(h.sup).config().Program(program) == nil {
		return
	}
	h.logf("%s %s", op, program)
	if _, err := h.sup.Command(op, []string{program}, false, func([]CommandResult) {}); err != nil {
		h.fail("%s %s: %v", op, program, err)
	}
}

// onAccept checks that superd accepts no more connections than the program may have.
func (h *socketHistory) onAccept(a listen.Address) {
	p := inspect(h.sup).config().Program(accepts)
	switch {
	case a != acceptsAt || p == nil:
		h.fail("superd accepts a connection to %s", a)
	case h.kernel.Serving(accepts) > p.Sockets.MaxConnections:
		h.fail("superd accepts connections beyond max_connections: %d, want %d at most", h.kernel.Serving(accepts), p.Sockets.MaxConnections)
	}
}

// acceptInPrograms lets a program that runs accept what waits for it.
func (h *socketHistory) acceptInPrograms() {
	if main, _ := h.kernel.CountLiving(awaits); main > 0 {
		if p := inspect(h.sup).config().Program(awaits); p != nil {
			h.kernel.AcceptAll(p.Sockets)
		}
	}
}

// checkConnected checks that each connection is served when faults are over, and that nothing of it
// is left.
func (h *socketHistory) checkConnected() {
	conf := inspect(h.sup).config()
	h.command(OpStart, accepts)
	h.command(OpStop, awaits)
	h.v.RunFor(time.Minute)
	h.command(OpStart, awaits)
	h.v.RunFor(time.Minute)
	for range 6 {
		h.kernel.Connect(acceptsAt)
	}
	h.kernel.Connect(awaitsAt)
	h.v.RunFor(10 * time.Second)
	if in := inspect(h.sup).instance(awaits); conf.Program(awaits) != nil && in.state() != fsm.Running {
		h.fail("%s has a connection, and is %s: %s", awaits, in.state(), in.reason())
	}
	h.acceptInPrograms()
	h.v.RunFor(10 * time.Minute)
	for _, l := range h.kernel.Listening() {
		if l.Waiting > 0 {
			h.fail("%d connections to %s are not accepted", l.Waiting, l.Address)
		}
	}
	if n := h.kernel.OpenConnections(); n > 0 {
		h.fail("superd has %d connections open that no process has", n)
	}
	if all := h.sup.registry.of(accepts); len(all) > 1 {
		h.fail("%d instances wait for a connection", len(all))
	}
}

// rests reports whether an instance of one of the programs is as it is without a connection.
func rests(in instanceView) bool {
	switch in.program().Name {
	case accepts:
		return in.state() == fsm.Waiting && in.machineAwaitsTrigger()
	case awaits:
		return in.state() == fsm.Stopped
	}
	return in.state() == fsm.Running
}

// connectionDefects are planted in what concerns connections.
var connectionDefects = []socketDefect{
	{defect{name: "a connection is never closed in superd", kernel: hosttest.Defects{LeaksConnections: true}}, "beyond max_connections"},
	{defect{name: "the start for a connection is lost", rules: func(r *fsm.Table) {
		r[fsm.Waiting][fsm.WantUp] = fsm.To(fsm.Waiting)
	}}, "are not accepted"},
	{defect{name: "recovery forgets instances with connections", recovery: func(_ *history, r *snapshot.Snapshot) {
		maps.DeleteFunc(r.Instances, func(name string, _ *snapshot.Instance) bool {
			return config.ProgramOf(name) == accepts && numbered(name)
		})
	}}, "and the journal has it as alive|beyond max_connections|while its process"},
}
