package instance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/probe"
)

// An execProbe runs the exec checks of an instance, one at a time. It has a process tree of its
// own, so that a check can be killed with all its processes while the program runs.
type execProbe struct {
	in         *Instance
	tree       host.Tree
	recorded   bool       // the journal has the path of tree, or could not be written
	check      *execCheck // check under way; nil without one
	cleaningUp bool       // leftover processes of a check are being killed
	waiting    []func()   // functions to call when no process of a check lives
	hangsIn    string     // stage in which a cancelled worker hangs; empty without one
}

// An execCheck is one run of a check's command.
type execCheck struct {
	probe      *execProbe
	done       func(error)
	stopped    bool
	unrecorded bool // it waits until the journal has the path of the tree

	scope   *loop.Scope // of its process
	pending host.PendingSpawn
	process host.Process
	watched bool // superd learns of its end at once
}

// probes returns the instance's execProbe and creates it on first use. place is the path of the
// tree that an earlier superd created; empty: none.
func (in *Instance) probes(place string) *execProbe {
	if in.execProbe == nil {
		in.execProbe = &execProbe{in: in, tree: in.Env.Host.NewTree(in.Name+host.ProbeSuffix, place), recorded: place != ""}
		if place == "" {
			in.Save()
		}
	}
	return in.execProbe
}

// probing reports whether a process of a check may live.
func (in *Instance) probing() bool { return in.execProbe != nil && in.execProbe.busy() }

func (s *execProbe) busy() bool { return s.check != nil || s.cleaningUp }

// whenIdle calls f when no process of a check lives. It calls f before it returns if that is
// already so.
func (s *execProbe) whenIdle(f func()) {
	if !s.busy() {
		f()
		return
	}
	s.waiting = append(s.waiting, f)
}

// runWaiting calls the waiting functions in order, until one of them makes the probe busy.
func (s *execProbe) runWaiting() {
	for len(s.waiting) > 0 && !s.busy() {
		first := s.waiting[0]
		s.waiting = s.waiting[1:]
		first()
	}
}

// An execChecker is the [probe.Checker] of a command.
type execChecker struct {
	in      *Instance
	run     *run
	command []string
}

// Check implements [probe.Checker].
func (c *execChecker) Check(done func(error)) (stop func() (begun bool)) {
	s := c.in.probes("")
	k := &execCheck{probe: s, done: done}
	s.whenIdle(func() {
		s.check = k
		switch {
		case k.stopped:
			c.in.Scope.Post(func() { k.end(ErrCheckStopped) })
		case s.hangsIn != "":
			err := fmt.Errorf("the previous check still hangs in %s; %s", s.hangsIn, host.HangHint)
			c.in.Scope.Post(func() { k.end(err) })
		default:
			k.begin(c)
		}
	})
	return k.stop
}

var ErrCheckStopped = errors.New("stopped")

// begin starts the check once the journal has the path of the tree, by which a successor finds
// leftover processes of the check.
func (k *execCheck) begin(c *execChecker) {
	s := k.probe
	if s.recorded {
		k.spawn(c)
		return
	}
	k.unrecorded = true
	c.in.Env.Records.AfterSaving(func(error) {
		s.recorded = true
		if k.unrecorded {
			k.unrecorded = false
			k.spawn(c)
		}
	})
}

// spawn starts the command in the environment of the program. Its output is not captured.
func (k *execCheck) spawn(c *execChecker) {
	program := c.run.program.Clone()
	program.Command = c.command
	program.Log.Format = config.LogDirect
	spec := c.run.spawnSpec(program, nil)
	spec.Tree = k.probe.tree
	spec.Outputs = []host.Outlet{{ReadFD: -1, Direct: func(uint32) (int, error) { return c.in.Env.Host.Nowhere() }}}
	spec.Own.Set("SUPERD_PROBE", "1")
	k.pending = c.in.Env.Host.Spawn(spec, k.spawned)
}

// spawned handles the result of the spawn.
func (k *execCheck) spawned(child host.Child, err error) {
	in := k.probe.in
	k.pending = nil
	in.clearProbeUnkillable()
	if err != nil {
		if faultIn(err) == host.FaultResource {
			err = probe.Uncounted{Err: err}
		}
		k.end(err)
		return
	}
	k.process, k.scope = child.Process, in.Scope.Child()
	k.watched = in.Env.Reaper.WatchChild(k.scope, k.process, "", k.reap)
	if k.stopped {
		k.kill()
	}
}

// stop ends the check and all its processes. begun reports whether the command may have run.
func (k *execCheck) stop() (begun bool) {
	if k.stopped {
		return true
	}
	k.stopped = true
	if k.unrecorded {
		k.unrecorded, k.probe.check = false, nil
		k.probe.in.Scope.Post(func() { k.done(ErrCheckStopped) })
		k.probe.runWaiting()
		return false
	}
	begun = k.pending == nil || !k.pending.Queued()
	switch {
	case k.process != nil && k.scope.Closed(): // superd is ending
	case k.process != nil:
		k.kill()
	case k.pending != nil:
		k.cancel()
	}
	return begun
}

// cancel cancels a check that has not started. Only further checks wait for a worker that hangs. If
// it is too late to cancel, the host kills the child before it executes the command. The child may
// not be scheduled in time, so cancel tries again before it reports the check as unkillable.
func (k *execCheck) cancel() {
	if k.canceled() {
		return
	}
	s := k.probe
	s.in.Scope.After(host.KillPause, func() {
		if k.pending != nil && !k.canceled() {
			s.markUnkillable("check: " + s.in.Env.describeHungStart(k.pending))
		}
	})
}

// canceled cancels the spawn of the check if possible, and reports whether it did.
func (k *execCheck) canceled() bool {
	s, stage := k.probe, k.pending.Stage()
	back := func() {
		s.hangsIn = ""
		k.done(ErrCheckStopped)
	}
	if !k.pending.Cancel(back) {
		return false
	}
	k.pending = nil
	s.hangsIn, s.check = stage, nil
	s.runWaiting()
	return true
}

func (k *execCheck) kill() {
	in := k.probe.in
	if err := k.process.SignalGroup(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
		in.Env.Log.Error("check not killed", "instance", in.Name, "pid", k.process.Pid(), "error", err)
	}
	if err := k.probe.tree.Kill(); err != nil {
		in.Env.Log.Error("process tree of a check not killed", "instance", in.Name, "error", err)
	}
	pid := k.process.Pid()
	k.scope.After(host.KillPause, func() { k.probe.reportUnkillable(pid) })
}

// reap handles the exit of the command.
func (k *execCheck) reap() {
	if k.process == nil {
		return
	}
	if k.watched { // the number of its process group is not reused before it is reaped
		if err := k.process.SignalGroup(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
			k.probe.in.Env.Log.Debug("process group of a check not killed", "instance", k.probe.in.Name, "error", err)
		}
	}
	exit, ended := k.probe.in.Env.Reaper.WaitStatus(k.process)
	if !ended {
		return
	}
	k.scope.Close()
	k.process = nil
	var err error
	if !exit.Success() {
		err = errors.New(exit.String())
	}
	k.probe.cleanUp(func() { k.end(err) })
}

// end reports the result of the check, when no process of it is left.
func (k *execCheck) end(err error) {
	s := k.probe
	s.check = nil
	s.in.clearProbeUnkillable()
	k.done(err)
	s.runWaiting()
}

// cleanUp kills the processes in the tree and calls f when none lives.
func (s *execProbe) cleanUp(f func()) {
	in := s.in
	s.cleaningUp = true
	scope := in.Scope.Child()
	living := map[int]bool{}
	var round *loop.Scope
	finish := func() {
		scope.Close()
		s.cleaningUp = false
		in.clearProbeUnkillable()
		f()
		s.runWaiting()
	}
	if s.tree.Empty() {
		finish()
		return
	}
	var scan func()
	track := func(found []host.Member) {
		if scope.Closed() {
			for _, m := range found {
				m.Process.Close()
			}
			return
		}
		clear(living)
		if len(found) == 0 {
			finish()
			return
		}
		if err := s.tree.Kill(); err != nil {
			in.Env.Log.Error("process tree of a check not killed", "instance", in.Name, "error", err)
		}
		round = scope.Child()
		rescan := func() {
			round.Close()
			scan()
		}
		for _, m := range found {
			pid := m.Process.Pid()
			living[pid] = true
			round.Defer(func() { m.Process.Close() })
			if err := m.Process.Signal(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
				in.Env.Log.Error("signal not sent", "instance", in.Name, "pid", pid, "signal", "SIGKILL", "error", err)
			}
			var watch *loop.Watch
			watch, err := round.OnReadable(m.Process.FD(), func() {
				watch.Stop()
				delete(living, pid)
				if len(living) == 0 {
					rescan()
				}
			})
			if err != nil {
				round.After(host.UnwatchedPause, rescan)
			}
		}
	}
	scan = func() { s.tree.Look(track) }
	scope.After(host.KillPause, func() { s.reportUnkillable(slices.Sorted(maps.Keys(living))...) })
	scan()
}

// reportUnkillable reports processes of a check that survived SIGKILL.
func (s *execProbe) reportUnkillable(pids ...int) {
	in := s.in
	var text []string
	for _, pid := range pids {
		text = append(text, fmt.Sprintf("process %d of a check survives SIGKILL: state %s",
			pid, in.Env.Host.WaitsIn(pid).Text))
	}
	if len(text) > 0 {
		s.markUnkillable(strings.Join(text, "; "))
	}
}

// markUnkillable records that a check has an unkillable process.
func (s *execProbe) markUnkillable(why string) {
	in := s.in
	in.ownProblems().probeUnkillable = why
	in.Env.Log.Error("check is unkillable", "instance", in.Name, "reason", in.probeUnkillable)
	if r := in.run; r != nil && r.teardown == nil && in.Machine.State() == fsm.TearingDown {
		in.markUnkillable(in.probeUnkillable) // the end of the run waits for it
	}
}

// clearProbeUnkillable clears the record of an unkillable check.
func (in *Instance) clearProbeUnkillable() {
	if in.probeUnkillable != "" && in.Unkillable == in.probeUnkillable {
		in.clearUnkillable()
	}
	if in.probeUnkillable != "" {
		in.probeUnkillable = ""
	}
}
