package onconnect

import (
	"fmt"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance"
)

// Limits of what the connections of one program cost superd.
const (
	acceptBatch  = 16   // connections that are accepted in one turn
	acceptMost   = 100  // connections that are accepted within acceptWindow
	refuseMost   = 1000 // connections that are refused within it
	acceptWindow = time.Second
	acceptRetry  = time.Second // after an error
	spareFor     = time.Minute // until instances without a connection are removed
	reportPause  = time.Minute // between two reports that connections wait
)

// An acceptor accepts the connections of one program. Each is given to an instance that waits for
// one: the program's own and, as far as more are needed, numbered ones beside it.
type acceptor struct {
	watched   *watched
	windowEnd time.Duration
	accepted  int           // since the window began
	refused   int           // likewise
	paused    *loop.Timer   // until it accepts again
	spare     *loop.Timer   // until instances without a connection are removed
	reported  time.Duration // when it was last reported that connections wait; 0: never
	refusals  Refusals
	refusedAt time.Duration // when a refusal was last reported; 0: never
}

// Refusals are the connections that were closed because of max_connections_per_source.
type Refusals struct {
	Count  int
	Source string // address of the last one
}

// updateAccept begins or ends to accept the connections of a program.
func (c *Connectors) updateAccept(name string, p *config.Program) {
	accepts := p != nil && p.Accepts() && !c.Ending()
	for _, in := range c.Instances(name) {
		if !accepts || !in.Machine.RunPending() {
			c.Sockets.Forsake(in.Name) // its run has ended before it could have it
		}
	}
	c.sources.keep(name, c.serving)
	a := c.acceptors[name]
	switch {
	case !accepts:
		if a != nil {
			delete(c.acceptors, name)
			a.ignore()
			a.paused.Stop()
			a.spare.Stop()
		}
		return
	case a == nil:
		a = &acceptor{}
		c.acceptors[name] = a
	}
	wanted := c.mayAccept(name) && !a.paused.Active() && c.free(p) > 0
	switch {
	case wanted && a.watched == nil:
		c.listen(p, a)
	case !wanted:
		a.ignore()
	}
	if c.spares(p) > 0 && !a.spare.Active() {
		a.spare = c.Scope.After(spareFor, func() { c.removeSpares(name) })
	}
}

// listen accepts connections when they come, if the sockets of the program are open. Otherwise it
// is called when they are.
func (c *Connectors) listen(p *config.Program, a *acceptor) {
	held, ok := c.Sockets.Hold(p.Sockets.Listeners())
	if !ok {
		return
	}
	a.watched = &watched{scope: c.Scope.Child(), held: held}
	accept := func(fd *host.SharedFD) { c.accept(p.Name, fd) }
	c.watch(p.Name, a.watched, accept, func(fd *host.SharedFD) {
		accept(fd)
		a.ignore() // perhaps it can be watched by now
		c.Update(p.Name)
	})
}

// ignore accepts no more connections.
func (a *acceptor) ignore() {
	a.watched.close()
	a.watched = nil
}

// mayAccept reports whether the program's own instance waits for connections or has one. If the
// operator has stopped that, no other instance is started either.
func (c *Connectors) mayAccept(name string) bool {
	for _, in := range c.Instances(name) {
		if in.Name == name {
			return in.Machine.Desired().Up && in.Membership.Stays() && !in.Quarantined()
		}
	}
	return false
}

// isFree reports whether an instance waits for a connection.
func isFree(in *instance.Instance) bool {
	return in.AwaitsTrigger() && in.Machine.Desired().Up && in.Membership.Stays() && !in.Quarantined()
}

// numberOf returns the number of an instance of a program with a process for each connection.
func numberOf(in *instance.Instance) int { return max(1, config.NumberOf(in.Name)) }

// free returns how many more connections the program may have.
func (c *Connectors) free(p *config.Program) int {
	n := p.Sockets.MaxConnections
	for _, in := range c.Instances(p.Name) {
		if !isFree(in) {
			n--
		}
	}
	return n
}

// accept accepts the connections that wait in a socket.
func (c *Connectors) accept(name string, fd *host.SharedFD) {
	a, p, now := c.acceptors[name], c.Config().Program(name), c.Loop.Now()
	if now >= a.windowEnd {
		a.windowEnd, a.accepted, a.refused = now+acceptWindow, 0, 0
	}
	all, err := c.Host.Accept(fd, min(acceptBatch, acceptMost-a.accepted, c.free(p)))
	for _, one := range all {
		if limit := p.Sockets.MaxPerSource; limit > 0 && one.Port != "" && c.sources.count(name, one.Addr) >= limit {
			a.refused++
			c.refuse(p, a, one)
			continue
		}
		a.accepted++ // one that is refused must not let others wait
		c.serve(p, one)
	}
	switch {
	case err != nil:
		c.pause(p, a, acceptRetry, "superd can't accept any: "+err.Error())
	case a.refused >= refuseMost:
		c.pause(p, a, a.windowEnd-now, fmt.Sprintf("%d were refused within a second", refuseMost))
	case a.accepted >= acceptMost:
		c.pause(p, a, a.windowEnd-now, fmt.Sprintf("%d have come within a second", acceptMost))
	case c.free(p) == 0:
		c.report(p, a, fsm.ReasonConnectionsFull.With(fmt.Sprintf("it has %d, as max_connections allows", p.Sockets.MaxConnections)))
	}
}

// serve gives a connection to the free instance with the lowest number.
func (c *Connectors) serve(p *config.Program, one host.Connection) {
	next := 1
	for _, in := range c.Instances(p.Name) {
		switch n := numberOf(in); {
		case n == next && isFree(in):
			c.start(in, one)
			return
		case n == next:
			next++
		}
	}
	if in := c.Create(p, fmt.Sprintf("%s@%d", p.Name, next)); in != nil && isFree(in) {
		c.start(in, one)
		return
	}
	c.Log.Warn("connection closed", "program", p.Name, "from", one.Peer(), "error", "no instance for it can be made")
	one.FD.Release()
}

// refuse closes a connection from a source that has enough.
func (c *Connectors) refuse(p *config.Program, a *acceptor, one host.Connection) {
	one.FD.Release()
	a.refusals.Count++
	a.refusals.Source = one.Addr
	now := c.Loop.Now()
	if a.refusedAt != 0 && now < a.refusedAt+reportPause {
		return
	}
	a.refusedAt = max(now, 1)
	c.Sockets.RecordRefusal(p, fsm.ReasonConnectionsRefused.With(
		fmt.Sprintf("%s has %d, as max_connections_per_source allows", one.Addr, p.Sockets.MaxPerSource)))
}

// Refused returns which connections of a program were refused, since it accepts.
func (c *Connectors) Refused(program string) Refusals {
	if a := c.acceptors[program]; a != nil {
		return a.refusals
	}
	return Refusals{}
}

func (c *Connectors) start(in *instance.Instance, one host.Connection) {
	c.Sockets.Give(in.Name, one)
	c.sources.set(in.Name, source{in.Program.Name, one.Addr})
	why := fsm.ReasonStarted.With("a connection from " + one.Peer())
	in.Apply(in.Machine.Trigger(why, in.Conditions()))
}

// pause accepts nothing for a while.
func (c *Connectors) pause(p *config.Program, a *acceptor, d time.Duration, why string) {
	a.paused.Stop()
	a.paused = c.Scope.After(d, func() { c.Update(p.Name) })
	c.report(p, a, fsm.ReasonConnectionsPaused.With(why))
	c.Update(p.Name)
}

// report records that connections wait, but not again and again.
func (c *Connectors) report(p *config.Program, a *acceptor, why fsm.Reason) {
	now := c.Loop.Now()
	if a.reported != 0 && now < a.reported+reportPause {
		return
	}
	a.reported = max(now, 1)
	c.Sockets.RecordPause(p, why)
}

// spares returns how many of the last instances of a program have no connection. The first one
// does not count.
func (c *Connectors) spares(p *config.Program) (n int) {
	for _, in := range c.Instances(p.Name) {
		if n++; !isFree(in) || in.Name == p.Name {
			n = 0
		}
	}
	return n
}

// removeSpares removes the last instances of a program that have no connection.
func (c *Connectors) removeSpares(name string) {
	p := c.Config().Program(name)
	if c.acceptors[name] == nil || p == nil {
		return
	}
	all := c.Instances(name)
	last := append([]*instance.Instance(nil), all[len(all)-c.spares(p):]...)
	for _, in := range last {
		c.Retire(in)
	}
}

// isServing reports whether an instance has a connection.
func isServing(in *instance.Instance) bool {
	return in.Machine.RunPending() || in.Machine.State().HasRun()
}

// serving returns the names of the instances of a program that have a connection.
func (c *Connectors) serving(program string) map[string]bool {
	names := map[string]bool{}
	for _, in := range c.Instances(program) {
		if isServing(in) {
			names[in.Name] = true
		}
	}
	return names
}

// Connections returns how many connections of a program are served.
func (c *Connectors) Connections(program string) (n int) {
	for _, in := range c.Instances(program) {
		if isServing(in) {
			n++
		}
	}
	return n
}
