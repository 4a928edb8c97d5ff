package execprobe

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
	"superd/procs/probe"
)

// A check is one run of a check's command.
type check struct {
	runner     *Runner
	spec       func() *host.SpawnSpec
	done       func(error)
	stopped    bool
	unrecorded bool // it waits until the journal has the path of the tree

	scope   *loop.Scope // of its process
	pending host.PendingSpawn
	process host.Process
	watched bool // superd learns of its end at once

	startedAt time.Duration // when the process was started, as far as superd knows; 0 before
}

// begin starts the check once the journal has the path of the tree, by which a successor finds
// leftover processes of the check.
func (c *check) begin() {
	r := c.runner
	if r.recorded {
		c.spawn()
		return
	}
	c.unrecorded = true
	r.AfterSaving(func(error) {
		r.recorded = true
		if c.unrecorded {
			c.unrecorded = false
			c.spawn()
		}
	})
}

// spawn starts the command in the environment of the program.
func (c *check) spawn() {
	r, spec := c.runner, c.spec()
	spec.Tree = r.tree
	spec.Own.Set("SUPERD_PROBE", "1")
	c.pending = r.Host.Spawn(spec, c.spawned)
}

// spawned handles the result of the spawn.
func (c *check) spawned(child host.Child, err error) {
	r := c.runner
	c.pending = nil
	r.setUnkillable("")
	if err != nil {
		if host.FaultIn(err) == host.FaultResource {
			err = probe.Uncounted{Err: err}
		}
		c.end(NotRun{err})
		return
	}
	for _, fd := range child.ReadFDs {
		r.Host.CloseFD(fd) // of a FIFO that did not exist: nobody reads it
	}
	c.process, c.scope = child.Process, r.Scope.Child()
	c.startedAt = r.Scope.Loop().Now()
	c.watched = r.Reaper.WatchChild(c.scope, c.process, "", c.reap)
	if c.stopped {
		c.kill()
	}
}

// stop ends the check and all its processes. begun reports whether the command may have run.
func (c *check) stop() (begun bool) {
	if c.stopped {
		return true
	}
	c.stopped = true
	r := c.runner
	if c.unrecorded {
		c.unrecorded, r.check = false, nil
		r.Scope.Post(func() { c.done(ErrStopped) })
		r.runWaiting()
		return false
	}
	begun = c.pending == nil || !c.pending.Queued()
	switch {
	case c.process != nil && c.scope.Closed(): // superd is ending
	case c.process != nil:
		c.kill()
	case c.pending != nil:
		c.cancel()
	}
	return begun
}

// cancel cancels a check that has not started. Only further checks wait for a worker that hangs. If
// it is too late to cancel, the host kills the child before it executes the command. The child may
// not be scheduled in time, so cancel tries again before it reports the check as unkillable.
func (c *check) cancel() {
	if c.canceled() {
		return
	}
	r := c.runner
	r.Scope.After(host.KillPause, func() {
		if c.pending != nil && !c.canceled() {
			r.markUnkillable("check: " + host.DescribeHung(r.Host, c.pending))
		}
	})
}

// canceled cancels the spawn of the check if possible, and reports whether it did.
func (c *check) canceled() bool {
	r, stage := c.runner, c.pending.Stage()
	back := func() {
		r.hangsIn = ""
		c.done(ErrStopped)
	}
	if !c.pending.Cancel(back) {
		return false
	}
	c.pending = nil
	r.hangsIn, r.check = stage, nil
	r.runWaiting()
	return true
}

func (c *check) kill() {
	r := c.runner
	err := c.process.SignalGroup(unix.SIGKILL)
	if err != nil && !errors.Is(err, pidfd.ErrGone) {
		r.Log.Error("check not killed",
			"instance", r.Instance, "pid", c.process.Pid(), "error", err)
	}
	if err := r.tree.Kill(); err != nil {
		r.Log.Error("process tree of a check not killed", "instance", r.Instance, "error", err)
	}
	pid := c.process.Pid()
	c.scope.After(host.KillPause, func() { r.reportUnkillable(pid) })
}

// reap handles the exit of the command.
func (c *check) reap() {
	r := c.runner
	if c.process == nil {
		return
	}
	if c.watched { // the number of its process group is not reused before it is reaped
		err := c.process.SignalGroup(unix.SIGKILL)
		if err != nil && !errors.Is(err, pidfd.ErrGone) {
			r.Log.Debug("process group of a check not killed",
				"instance", r.Instance, "error", err)
		}
	}
	exit, ended := r.Reaper.WaitStatus(c.process)
	if !ended {
		return
	}
	c.scope.Close()
	c.process = nil
	var err error
	if !exit.Success() {
		err = errors.New(exit.String())
	}
	r.CleanUp(func() { c.end(err) })
}

// end reports the result of the check, when no process of it is left.
func (c *check) end(err error) {
	r := c.runner
	r.check = nil
	r.setUnkillable("")
	c.done(err)
	r.runWaiting()
}
