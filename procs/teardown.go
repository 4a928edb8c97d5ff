package procs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// A teardown kills the leftover processes of a run, runs the post_stop hooks, then kills what those
// left.
//
// It looks for live processes and sends each one the stop signal once. It waits for their end and
// looks again, since they may have started others. After the deadline it sends SIGKILL instead;
// with kill_mode = "mixed" from the beginning.
type teardown struct {
	in       *instance
	run      *run
	scope    *loop.Scope // closed at its end
	round    *loop.Scope // of the processes that the last look found
	signaled map[host.ProcessKey]bool
	living   map[int]string // command names of the processes of the round, by pid
	killing  bool
	due      *loop.Timer     // begins SIGKILL; nil if that has begun
	killed   map[string]bool // command names of processes that got SIGKILL
	looks    int             // times that a report was due and no process was found
}

// maxEmptyLooks is after how many looks a non-empty tree without visible processes counts as
// unkillable.
const maxEmptyLooks = 5

// unwatchedPause is how often superd checks a process that it can't watch, in a resource shortage.
const unwatchedPause = time.Second

// tearDown ends the run's leftover processes, runs the post_stop hooks and ends what these left.
func (in *instance) tearDown() {
	r := in.run
	now := in.sup.loop.Now()
	deadline := r.stopDeadline
	if deadline == 0 {
		deadline = now + r.program.StopTimeout
	}
	in.killLeftovers(r, deadline)
}

// leftoversKilled continues when nothing is left of the main process, or of the post_stop hooks.
func (in *instance) leftoversKilled(r *run) {
	if in.probing() {
		if in.probeUnkillable != "" {
			in.markUnkillable(in.probeUnkillable)
		}
		in.execProbe.whenFree(func() { in.leftoversKilled(r) })
		return
	}
	if r.postStopped || len(r.program.PostStop) == 0 || in.sup.inHurry() {
		in.do(in.machine.tornDown)
		return
	}
	in.postStop(r).next()
}

// postStop returns the run of the post_stop hooks, after which it ends what they left.
func (in *instance) postStop(r *run) *hookRun {
	return in.newHooks(r, "post_stop", r.program.PostStop, func(err error) {
		if err != nil {
			in.sup.log.Warn("hook failed", "instance", in.name, "error", err)
		}
		r.postStopped = true
		in.killLeftovers(r, in.sup.loop.Now()+r.program.StopTimeout)
	})
}

// killLeftovers ends the live processes of the run, with SIGKILL after the deadline. Then, not
// before it has returned, it calls leftoversKilled.
func (in *instance) killLeftovers(r *run, deadline time.Duration) {
	r.teardownDeadline = deadline
	in.save()
	patience := max(deadline-in.sup.loop.Now(), 0)
	if r.program.KillMode == config.KillProcess {
		r.scope.Post(func() { in.leftoversKilled(r) })
		return
	}
	c := &teardown{in: in, run: r, scope: r.scope.Child(), signaled: map[host.ProcessKey]bool{}, killed: map[string]bool{}}
	r.teardown = c
	c.round = c.scope.Child()
	if patience == 0 || in.sup.inHurry() || r.program.KillMode == config.KillMixed {
		c.killing = true
		c.scope.After(host.KillPause, c.killDue)
	} else {
		c.due = c.scope.After(patience, c.kill)
	}
	c.scope.Post(c.look)
}

// look finds the live processes.
func (c *teardown) look() {
	c.round.Close()
	c.round = c.scope.Child()
	round := c.round
	c.in.tree.Look(func(found []host.Member) {
		if round.Closed() {
			for _, m := range found {
				m.Process.Close()
			}
			return
		}
		c.track(round, found)
	})
}

// track signals the live processes and waits for their end.
func (c *teardown) track(round *loop.Scope, found []host.Member) {
	c.living = map[int]string{}
	if c.run.brief && len(found) > 0 {
		c.run.brief = false
		c.in.wentToBackground()
	}
	unwatched := false
	for _, m := range found {
		if c.run.program.KillMode == config.KillGroup && m.Group != int(c.run.group) {
			m.Process.Close()
			continue
		}
		pid := m.Process.Pid()
		c.living[pid] = m.Command
		round.Defer(func() { m.Process.Close() })
		var watch *loop.Watch
		watch, err := round.OnReadable(m.Process.FD(), func() {
			watch.Stop() // the pidfd stays readable
			delete(c.living, pid)
			if len(c.living) == 0 {
				c.look()
			}
		})
		if err != nil {
			c.in.sup.notWatched(pid, err)
			unwatched = true
		}
	}
	if len(c.living) == 0 {
		c.end()
		return
	}
	if unwatched {
		round.After(unwatchedPause, c.look) // no watch reports its end
	}
	c.in.sup.changed()
	if c.killing {
		if c.run.program.KillMode.KillsTree() {
			c.in.killTree()
		}
		for _, m := range found {
			c.send(m, unix.SIGKILL)
		}
		for _, command := range c.living {
			c.killed[command] = true
		}
		if c.in.unkillable != "" { // the reported processes may be gone
			round.After(host.KillPause, c.killDue)
		}
		return
	}
	for _, m := range found {
		id := host.ProcessKey{Pid: m.Process.Pid(), Start: m.Start}
		if !c.signaled[id] {
			c.signaled[id] = true
			c.send(m, c.run.program.StopSignal)
			c.send(m, unix.SIGCONT)
		}
	}
}

func (c *teardown) send(m host.Member, sig syscall.Signal) {
	if _, ok := c.living[m.Process.Pid()]; !ok {
		return // spared by kill_mode
	}
	if err := m.Process.Signal(sig); err != nil && !errors.Is(err, pidfd.ErrGone) {
		c.in.sup.log.Error("signal not sent", "instance", c.in.name, "pid", m.Process.Pid(), "signal", signalName(sig), "error", err)
	}
}

// kill begins SIGKILL: the stop time-out is over, or a stop is in a hurry.
func (c *teardown) kill() {
	if c.killing {
		return
	}
	c.killing = true
	if c.run.program.KillMode.KillsTree() {
		c.in.killTree() // including processes that superd can't see
	}
	if len(c.living) > 0 {
		c.in.sup.log.Warn("stop_timeout is over, killing leftover processes", "instance", c.in.name, "processes", len(c.living))
	}
	c.scope.After(host.KillPause, c.killDue)
	c.look()
}

// killDue reports the processes that SIGKILL did not end.
func (c *teardown) killDue() {
	if len(c.living) == 0 {
		if c.looks++; c.looks > maxEmptyLooks {
			c.in.markUnkillable("its cgroup has processes that superd can't see")
			return
		}
		c.scope.After(host.KillPause, c.killDue) // a look is under way
		return
	}
	c.in.reportUnkillable(slices.Sorted(maps.Keys(c.living))...)
}

func (c *teardown) end() {
	c.scope.Close()
	c.run.teardown = nil
	if len(c.killed) > 0 {
		m := &c.in.machine
		killed := slices.Sorted(maps.Keys(c.killed))
		m.exitReason = m.exitReason.and("; leftover processes killed: " + strings.Join(killed, ", "))
	}
	c.in.clearUnkillable()
	c.in.leftoversKilled(c.run)
}

// stage returns what the teardown does.
func (c *teardown) stage() string {
	var left []string
	for _, pid := range slices.Sorted(maps.Keys(c.living)) {
		left = append(left, fmt.Sprintf("%s (%d)", c.living[pid], pid))
	}
	if len(left) == 0 {
		return "looking for leftover processes"
	}
	return "ending leftover processes: " + strings.Join(left, ", ")
}
