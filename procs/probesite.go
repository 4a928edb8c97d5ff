package procs

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
	"superd/procs/probe"
)

// probeSuffix makes the name of the tree of an instance's exec checks: no instance has a colon in its name.
const probeSuffix = ":probe"

// A probeSite is where the exec checks of an instance run, one at a time: a tree of their own, so that a check is killed with all that it
// has brought forth while the program lives.
type probeSite struct {
	in      *instance
	tree    Tree
	check   *execCheck // under way; nil: none
	ridding bool       // of what an earlier superd, or a check, has left
	waiting []func()   // for the end of both
	hangsIn string     // what a worker that was called off has not come back from; empty: none hangs
}

// An execCheck is one check.
type execCheck struct {
	site    *probeSite
	done    func(error)
	stopped bool

	scope   *loop.Scope // of its process
	pending PendingSpawn
	process Process
	watched bool // superd learns of its end at once
}

// probes returns the instance's site, which is made when the first check runs. place is where an earlier superd had its tree.
func (in *instance) probes(place string) *probeSite {
	if in.site == nil {
		in.site = &probeSite{in: in, tree: in.sup.system.NewTree(in.name+probeSuffix, place)}
		if place == "" {
			in.save()
		}
	}
	return in.site
}

// probing reports whether anything of a check may live.
func (in *instance) probing() bool { return in.site != nil && in.site.busy() }

func (s *probeSite) busy() bool { return s.check != nil || s.ridding }

// whenFree has f called when nothing of a check lives: before it returns, if that is so.
func (s *probeSite) whenFree(f func()) {
	if !s.busy() {
		f()
		return
	}
	s.waiting = append(s.waiting, f)
}

// free tells those who wait.
func (s *probeSite) free() {
	for len(s.waiting) > 0 && !s.busy() {
		first := s.waiting[0]
		s.waiting = s.waiting[1:]
		first()
	}
}

// An execChecker is the [probe.Checker] of a command.
type execChecker struct {
	in      *instance
	run     *run
	command []string
}

// Check implements [probe.Checker].
func (c *execChecker) Check(done func(error)) (stop func() (begun bool)) {
	s := c.in.probes("")
	k := &execCheck{site: s, done: done}
	s.whenFree(func() {
		s.check = k
		switch {
		case k.stopped:
			c.in.scope.Post(func() { k.end(errCheckStopped) })
		case s.hangsIn != "":
			err := fmt.Errorf("a check before still hangs in %s; %s", s.hangsIn, hangHint)
			c.in.scope.Post(func() { k.end(err) })
		default:
			k.spawn(c)
		}
	})
	return k.stop
}

var errCheckStopped = errors.New("stopped")

// spawn has a worker start the command: as the program, less its output, which nobody reads.
func (k *execCheck) spawn(c *execChecker) {
	program := c.run.program.Clone()
	program.Command = c.command
	program.Log.Format = config.LogDirect
	spec := c.in.spec(c.run, program, nil)
	spec.Tree = k.site.tree
	spec.Outputs = []Outlet{{ReadFD: -1, Direct: func(uint32) (int, error) { return c.in.sup.system.Nowhere() }}}
	spec.Own.Set("SUPERD_PROBE", "1")
	k.pending = c.in.sup.system.Spawn(spec, k.spawned)
}

// spawned takes the worker's result.
func (k *execCheck) spawned(child Child, err error) {
	in := k.site.in
	k.pending = nil
	in.unstickProbe()
	if err != nil {
		if faultIn(err) == faultResource {
			err = probe.Uncounted{Err: err}
		}
		k.end(err)
		return
	}
	k.process, k.scope = child.Process, in.scope.Child()
	k.watched = in.sup.own(k.scope, k.process, "", k.reap)
	if k.stopped {
		k.kill()
	}
}

// stop ends the check with all that it has brought forth.
func (k *execCheck) stop() (begun bool) {
	if k.stopped {
		return true
	}
	k.stopped = true
	begun = k.pending == nil || !k.pending.Queued()
	switch {
	case k.process != nil && k.scope.Closed(): // with superd
	case k.process != nil:
		k.kill()
	case k.pending != nil:
		k.callOff()
	}
	return begun
}

// callOff ends a check that is not started yet, unless it is too late for that. The worker may hang: nothing waits for it but further checks.
func (k *execCheck) callOff() {
	s, stage := k.site, k.pending.Stage()
	back := func() {
		s.hangsIn = ""
		k.done(errCheckStopped)
	}
	if k.pending.CallOff(back) {
		k.pending = nil
		s.hangsIn, s.check = stage, nil
		s.free()
		return
	}
	s.in.scope.After(killPause, func() {
		if k.pending != nil {
			s.stuck("check: " + k.pending.Stage() + ": no answer; " + hangHint)
		}
	})
}

func (k *execCheck) kill() {
	in := k.site.in
	if err := k.process.SignalGroup(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
		in.sup.log.Error("check not killed", "instance", in.name, "pid", k.process.Pid(), "error", err)
	}
	if err := k.site.tree.Kill(); err != nil {
		in.sup.log.Error("tree of a check not killed", "instance", in.name, "error", err)
	}
	pid := k.process.Pid()
	k.scope.After(killPause, func() { k.site.nameStuck(pid) })
}

// reap takes the status of the command when it has ended.
func (k *execCheck) reap() {
	if k.process == nil {
		return
	}
	if k.watched { // so it has ended, and until it is reaped the number of its process group is its own
		if err := k.process.SignalGroup(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
			k.site.in.sup.log.Debug("group of a check not killed", "instance", k.site.in.name, "error", err)
		}
	}
	exit, ended := k.site.in.sup.wait(k.process)
	if !ended {
		return
	}
	k.scope.Close()
	k.process = nil
	var err error
	if !exit.Success() {
		err = errors.New(exit.String())
	}
	k.site.rid(func() { k.end(err) })
}

// end tells what came of the check, of which nothing is left.
func (k *execCheck) end(err error) {
	s := k.site
	s.check = nil
	s.in.unstickProbe()
	k.done(err)
	s.free()
}

// rid kills what lives in the tree and has f called when nothing does.
func (s *probeSite) rid(f func()) {
	in := s.in
	s.ridding = true
	scope := in.scope.Child()
	living := map[int]bool{}
	var round *loop.Scope
	finish := func() {
		scope.Close()
		s.ridding = false
		in.unstickProbe()
		f()
		s.free()
	}
	if s.tree.Empty() {
		finish()
		return
	}
	var look func()
	meet := func(found []Member) {
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
			in.sup.log.Error("tree of a check not killed", "instance", in.name, "error", err)
		}
		round = scope.Child()
		again := func() {
			round.Close()
			look()
		}
		for _, m := range found {
			pid := m.Process.Pid()
			living[pid] = true
			round.Defer(func() { m.Process.Close() })
			if err := m.Process.Signal(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
				in.sup.log.Error("signal not sent", "instance", in.name, "pid", pid, "signal", "SIGKILL", "error", err)
			}
			var watch *loop.Watch
			watch, err := round.OnReadable(m.Process.FD(), func() {
				watch.Stop()
				delete(living, pid)
				if len(living) == 0 {
					again()
				}
			})
			if err != nil {
				round.After(unwatchedPause, again)
			}
		}
	}
	look = func() { s.tree.Look(meet) }
	scope.After(killPause, func() { s.nameStuck(slices.Sorted(maps.Keys(living))...) })
	look()
}

// nameStuck says which processes of a check SIGKILL did not end.
func (s *probeSite) nameStuck(pids ...int) {
	in := s.in
	var text []string
	for _, pid := range pids {
		text = append(text, fmt.Sprintf("process %d of a check does not die: it waits in %s", pid, in.sup.system.WaitsIn(pid)))
	}
	if len(text) > 0 {
		s.stuck(strings.Join(text, "; "))
	}
}

// stuck notes that superd can do no more about a check than wait.
func (s *probeSite) stuck(why string) {
	in := s.in
	in.remark().probeStuck = why
	in.sup.log.Error("check is stuck", "instance", in.name, "reason", in.probeStuck)
	if r := in.run; r != nil && r.clearing == nil && in.machine.state == Clearing {
		in.stick(in.probeStuck) // the end of the run waits for it
	}
}

// unstickProbe forgets that a check was stuck.
func (in *instance) unstickProbe() {
	if in.probeStuck != "" && in.stuck == in.probeStuck {
		in.unstick()
	}
	if in.probeStuck != "" {
		in.probeStuck = ""
	}
}
