package onconnect

import (
	"slices"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance"
)

// An idler stops a program that had no connection for its idle_timeout. It does not while a program
// runs that requires it, or while a rolling restart of it is under way: that may wait for the
// operator. In each such time it notices the first connection only, so that a busy program costs
// superd one wake-up.
type idler struct {
	timeout time.Duration
	scope   *loop.Scope
	held    []*host.SharedFD
	watches []*loop.Watch // until the first connection
	busy    bool          // there was one
	unseen  bool          // the connections could not be counted, as was logged
}

// updateIdle begins or ends to wait until a program is idle.
func (c *Connectors) updateIdle(name string, p *config.Program, concerned bool) {
	wanted := concerned && p.Sockets.IdleTimeout > 0 && c.isUp(name)
	if w := c.idle[name]; w != nil && (!wanted || w.timeout != p.Sockets.IdleTimeout) {
		c.forgetIdle(name)
	}
	if !wanted || c.idle[name] != nil {
		return
	}
	held, _ := c.Sockets.Hold(p.Sockets)
	if len(held) == 0 {
		return
	}
	w := &idler{timeout: p.Sockets.IdleTimeout, scope: c.Scope.Child(), held: held}
	c.idle[name] = w
	c.await(name, w)
}

// isUp reports whether an instance of a program runs, and none is about to start or to stop.
func (c *Connectors) isUp(name string) bool {
	up := false
	for _, in := range c.Instances(name) {
		if state := in.Machine.State(); state != fsm.Running && !state.AtRest() {
			return false
		} else if state == fsm.Running {
			up = true
		}
	}
	return up
}

// await waits for a connection for as long as the timeout.
func (c *Connectors) await(name string, w *idler) {
	w.busy = false
	for _, fd := range w.held {
		watch, err := w.scope.OnReadableEdge(fd.FD(), func() {
			w.busy = true
			w.stopWatches()
		})
		if err != nil {
			w.busy = true // it can't be seen whether the program is idle
			break
		}
		w.watches = append(w.watches, watch)
	}
	w.scope.After(w.timeout, func() {
		w.stopWatches()
		if w.busy || c.Rolling(name) || c.isRequired(name) {
			c.await(name, w)
			return
		}
		c.Host.SocketConnections(w.held, func(count int, err error) {
			switch {
			case c.idle[name] != w: // it has ended meanwhile
			case err != nil:
				if !w.unseen {
					w.unseen = true
					c.Log.Warn("idle_timeout has no effect: it can't be seen whether the program has connections",
						"program", name, "error", err)
				}
				c.await(name, w)
			case count > 0:
				c.await(name, w)
			default:
				c.stop(name)
			}
		})
	})
}

// isRequired reports whether a program runs that requires this one. It would be stopped, too.
func (c *Connectors) isRequired(name string) bool {
	return slices.ContainsFunc(c.Instances(name), func(in *instance.Instance) bool {
		return in.Node.HasDependents() && !in.Node.DependentsDown()
	})
}

func (w *idler) stopWatches() {
	for _, watch := range w.watches {
		watch.Stop()
	}
	w.watches = nil
}

// stop stops an idle program.
func (c *Connectors) stop(name string) {
	c.forgetIdle(name)
	for _, in := range slices.Clone(c.Instances(name)) {
		if in.Machine.Desired().Up {
			in.Apply(in.Machine.WantDown(fsm.By(fsm.ActorIdle), in.Conditions()))
		}
	}
}

// forgetIdle ends the wait of a program.
func (c *Connectors) forgetIdle(name string) {
	if w := c.idle[name]; w != nil {
		delete(c.idle, name)
		w.scope.Close()
		for _, fd := range w.held {
			fd.Release()
		}
	}
}
