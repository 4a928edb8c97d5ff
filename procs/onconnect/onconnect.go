// Package onconnect starts programs by connections to their sockets: by the first one, or for each.
package onconnect

import (
	"log/slog"
	"slices"
	"time"

	"superd/config"
	"superd/internal/words"
	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance"
	"superd/procs/sockets"
)

// connectPause is the least time between two starts of a program by connections: one that ends
// without accepting any would otherwise be started again at once.
const connectPause = time.Second

// Options are what [Connectors] need.
type Options struct {
	Loop      *loop.Loop
	Scope     *loop.Scope
	Host      host.Sockets
	Log       *slog.Logger
	Sockets   *sockets.Set
	Config    func() *config.Config                     // the active one
	Instances func(program string) []*instance.Instance // of a program
	Ending    func() bool                               // superd shuts down
	Rolling   func(program string) bool                 // a rolling restart of it is under way
	// Create adds an instance of a program, and Retire removes one
	Create func(p *config.Program, instance string) *instance.Instance
	Retire func(in *instance.Instance)
}

// Connectors watch the sockets of programs that connections start. They watch those of a program
// only while it is down and may be started: as long as it runs, it accepts.
type Connectors struct {
	Options
	watching  map[string]*watched      // by program
	idle      map[string]*idler        // likewise: those that run and have an idle_timeout
	acceptors map[string]*acceptor     // likewise: those with a process for each connection
	started   map[string]time.Duration // when a connection last started it, by program
	sources   *sources                 // of the connections that are served
}

// New returns connectors that watch nothing.
func New(o Options) *Connectors {
	return &Connectors{
		Options: o, watching: map[string]*watched{}, idle: map[string]*idler{},
		acceptors: map[string]*acceptor{}, started: map[string]time.Duration{}, sources: newSources(),
	}
}

// watched are the sockets of one program, which are watched or soon will be.
type watched struct {
	scope *loop.Scope
	held  []*host.SharedFD
}

// close ends the watch. w may be nil.
func (w *watched) close() {
	if w == nil {
		return
	}
	w.scope.Close()
	for _, fd := range w.held {
		fd.Release()
	}
}

// UpdateAll watches the sockets of all programs that wait for a connection, and no others.
func (c *Connectors) UpdateAll() {
	for name := range c.watching {
		c.Update(name)
	}
	for name := range c.idle {
		c.Update(name)
	}
	for name := range c.acceptors {
		c.Update(name)
	}
	for _, p := range c.Config().Programs {
		if startsOnConnect(p) || p.Accepts() {
			c.Update(p.Name)
		}
	}
}

// UpdateUsers updates the programs that connections to a socket start.
func (c *Connectors) UpdateUsers(socket string) {
	for _, p := range c.Config().Programs {
		if p.Sockets.Has(socket) && (startsOnConnect(p) || p.Accepts()) {
			c.Update(p.Name)
		}
	}
}

// startsOnConnect reports whether connections start the program.
func startsOnConnect(p *config.Program) bool {
	return p.Sockets != nil && p.Sockets.OnConnect && !p.Sockets.Accept && len(p.Invalid) == 0
}

// Update begins or ends to watch the sockets of a program. It is called when something of that has
// changed.
func (c *Connectors) Update(name string) {
	p := c.Config().Program(name)
	c.updateAccept(name, p)
	concerned := p != nil && startsOnConnect(p) && !c.Ending()
	c.updateIdle(name, p, concerned)
	wanted := concerned && c.isDown(name)
	if wanted == (c.watching[name] != nil) {
		return
	}
	c.forget(name)
	if !wanted {
		return
	}
	held, _ := c.Sockets.Hold(p.Sockets)
	if len(held) == 0 {
		return // it is updated when they are open
	}
	w := &watched{scope: c.Scope.Child(), held: held}
	c.watching[name] = w
	begin := func() {
		connected := func(*host.SharedFD) { c.connected(name) }
		c.watch(name, w, connected, connected)
	}
	if wait := c.started[name] + connectPause - c.Loop.Now(); c.started[name] != 0 && wait > 0 {
		w.scope.After(wait, begin)
		return
	}
	begin()
}

// watch calls readable in each turn in which one of the sockets is readable, or late after a while
// for one that can't be watched.
func (c *Connectors) watch(name string, w *watched, readable, late func(*host.SharedFD)) {
	for _, fd := range w.held {
		if _, err := w.scope.OnReadable(fd.FD(), func() { readable(fd) }); err != nil {
			c.Log.Warn("connections are noticed late", "program", name, "error", err)
			w.scope.After(connectPause, func() { late(fd) })
		}
	}
}

// connected starts a program.
func (c *Connectors) connected(name string) {
	c.forget(name)
	c.started[name] = max(c.Loop.Now(), 1)
	for _, in := range slices.Clone(c.Instances(name)) {
		if mayStart(in) {
			in.Apply(in.Machine.WantUp(fsm.By(fsm.ActorConnection), false, in.Conditions()))
		}
	}
}

// forget ends the watch of a program's sockets.
func (c *Connectors) forget(name string) {
	c.watching[name].close()
	delete(c.watching, name)
}

// ForgetAll ends all watches, before sockets are closed.
func (c *Connectors) ForgetAll() {
	for name := range c.watching {
		c.forget(name)
	}
	for name := range c.idle {
		c.forgetIdle(name)
	}
	for _, a := range c.acceptors {
		a.ignore()
	}
}

// isDown reports whether all instances of a program are down and a connection may start one.
func (c *Connectors) isDown(name string) bool {
	all := c.Instances(name)
	return slices.ContainsFunc(all, mayStart) &&
		!slices.ContainsFunc(all, func(in *instance.Instance) bool { return !in.Machine.State().AtRest() })
}

// mayStart reports whether a connection may start an instance of a program that connections start.
// What the operator has stopped stays down, and so does what has failed for good.
func mayStart(in *instance.Instance) bool {
	state, desired := in.Machine.State(), in.Machine.Desired()
	return state.AtRest() && state != fsm.Failed && !in.Membership.Leaves() && !in.Quarantined() &&
		(desired.Up || !desired.By.Is(fsm.ActorOperator))
}

// Awaits reports whether a connection starts the instance, once no other one of its program runs.
func (c *Connectors) Awaits(in *instance.Instance) bool {
	p := c.Config().Program(in.Program.Name)
	return p != nil && startsOnConnect(p) && !c.Ending() && mayStart(in)
}

// Reason returns why an instance for which [Connectors.Awaits] is true is down.
func (c *Connectors) Reason(in *instance.Instance) fsm.Reason {
	p := c.Config().Program(in.Program.Name)
	var why fsm.Reason
	if missing, _ := c.Sockets.Missing(p.Sockets); missing != "" {
		why = fsm.ReasonWaitsForSocket.With(missing)
	} else {
		names := make([]string, len(p.Sockets.List))
		for i, s := range p.Sockets.List {
			names[i] = s.Name
		}
		why = fsm.ReasonWaitsForConnection.With(" to " + words.OneOf(names))
	}
	if before := in.Machine.StateReason(); before.Kind != fsm.ReasonNone && before.Kind != fsm.ReasonNotStarted {
		why = why.And("; before: " + before.String())
	}
	return why
}
