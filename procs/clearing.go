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
)

// A clearing ends what a run has left behind when its main process is gone, then runs the post_stop hooks and ends what
// those have left.
//
// It looks who lives, sends each of them the stop signal once, waits until all of them have ended and looks again, since
// they may have brought forth others. After the deadline it sends SIGKILL instead.
type clearing struct {
	in       *instance
	run      *run
	scope    *loop.Scope // until then
	round    *loop.Scope // of those found by the last look
	signaled map[processKey]bool
	living   map[int]string // those of the round by pid, with their names
	killing  bool
	due      *loop.Timer     // when it sends SIGKILL; nil: it does already
	killed   map[string]bool // names of those who got SIGKILL
	looks    int             // how often it was time to name somebody, and there was nobody
}

// maxEmptyLooks is when a tree that is not empty, and in which nobody is found, counts as stuck.
const maxEmptyLooks = 5

// unwatchedPause is how often superd looks after a process that it can't watch, being short of something.
const unwatchedPause = time.Second

// A processKey tells one process from another that has its pid later.
type processKey struct {
	pid   int
	start uint64
}

// clear ends the run: what is left of it, the post_stop hooks, what is left of those.
func (in *instance) clear() {
	r := in.run
	now := in.sup.loop.Now()
	deadline := r.stopDeadline
	if deadline == 0 {
		deadline = now + r.program.StopTimeout
	}
	in.clearLeft(r, deadline)
}

// leftCleared goes on when nothing is left of the main process, or of the post_stop hooks.
func (in *instance) leftCleared(r *run) {
	if in.probing() {
		if in.probeStuck != "" {
			in.stick(in.probeStuck)
		}
		in.site.whenFree(func() { in.leftCleared(r) })
		return
	}
	if r.postStopped || len(r.program.PostStop) == 0 || in.sup.inHurry() {
		in.do(in.machine.cleared)
		return
	}
	in.postStop(r).next()
}

// postStop returns the run of the post_stop hooks, after which comes the end of what they have left.
func (in *instance) postStop(r *run) *hookRun {
	return in.newHooks(r, "post_stop", r.program.PostStop, func(err error) {
		if err != nil {
			in.sup.log.Warn("hook failed", "instance", in.name, "error", err)
		}
		r.postStopped = true
		in.clearLeft(r, in.sup.loop.Now()+r.program.StopTimeout)
	})
}

// clearLeft ends what lives of the run, with SIGKILL after the deadline, and then goes on with leftCleared, not before it has returned.
func (in *instance) clearLeft(r *run, deadline time.Duration) {
	r.clearBy = deadline
	in.save()
	patience := max(deadline-in.sup.loop.Now(), 0)
	if r.program.KillMode == config.KillProcess {
		r.scope.Post(func() { in.leftCleared(r) })
		return
	}
	c := &clearing{in: in, run: r, scope: r.scope.Child(), signaled: map[processKey]bool{}, killed: map[string]bool{}}
	r.clearing = c
	c.round = c.scope.Child()
	if patience == 0 || in.sup.inHurry() {
		c.killing = true
		c.scope.After(killPause, c.killDue)
	} else {
		c.due = c.scope.After(patience, c.kill)
	}
	c.scope.Post(c.look)
}

// look finds who lives.
func (c *clearing) look() {
	c.round.Close()
	c.round = c.scope.Child()
	round := c.round
	c.in.tree.Look(func(found []Member) {
		if round.Closed() {
			for _, m := range found {
				m.Process.Close()
			}
			return
		}
		c.meet(round, found)
	})
}

// meet signals those who live and waits for their end.
func (c *clearing) meet(round *loop.Scope, found []Member) {
	c.living = map[int]string{}
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
			watch.Stop() // it stays readable
			delete(c.living, pid)
			if len(c.living) == 0 {
				c.look()
			}
		})
		if err != nil {
			c.in.sup.log.Error("process is not watched", "instance", c.in.name, "pid", pid, "error", err)
			unwatched = true
		}
	}
	if len(c.living) == 0 {
		c.end()
		return
	}
	if unwatched {
		round.After(unwatchedPause, c.look) // nobody else tells of its end
	}
	c.in.sup.changed()
	if c.killing {
		if c.run.program.KillMode == config.KillTree {
			c.in.killTree()
		}
		for _, m := range found {
			c.send(m, unix.SIGKILL)
		}
		for _, command := range c.living {
			c.killed[command] = true
		}
		if c.in.stuck != "" { // those named may be gone
			round.After(killPause, c.killDue)
		}
		return
	}
	for _, m := range found {
		id := processKey{m.Process.Pid(), m.Start}
		if !c.signaled[id] {
			c.signaled[id] = true
			c.send(m, c.run.program.StopSignal)
			c.send(m, unix.SIGCONT)
		}
	}
}

func (c *clearing) send(m Member, sig syscall.Signal) {
	if _, ok := c.living[m.Process.Pid()]; !ok {
		return // spared by kill_mode
	}
	if err := m.Process.Signal(sig); err != nil && !errors.Is(err, pidfd.ErrGone) {
		c.in.sup.log.Error("signal not sent", "instance", c.in.name, "pid", m.Process.Pid(), "signal", signalName(sig), "error", err)
	}
}

// kill goes on with SIGKILL: the stop time-out is over, or somebody is in a hurry.
func (c *clearing) kill() {
	if c.killing {
		return
	}
	c.killing = true
	if c.run.program.KillMode == config.KillTree {
		c.in.killTree() // also those whom superd can't see
	}
	if len(c.living) > 0 {
		c.in.sup.log.Warn("stop time-out, killing what is left", "instance", c.in.name, "processes", len(c.living))
	}
	c.scope.After(killPause, c.killDue)
	c.look()
}

// killDue names those whom SIGKILL did not end.
func (c *clearing) killDue() {
	if len(c.living) == 0 {
		if c.looks++; c.looks > maxEmptyLooks {
			c.in.stick("its cgroup holds processes that superd can't see")
			return
		}
		c.scope.After(killPause, c.killDue) // it is looking just now
		return
	}
	c.in.nameStuck(slices.Sorted(maps.Keys(c.living))...)
}

func (c *clearing) end() {
	c.scope.Close()
	c.run.clearing = nil
	if len(c.killed) > 0 {
		c.in.machine.ending += "; killed what was left: " + strings.Join(slices.Sorted(maps.Keys(c.killed)), ", ")
	}
	c.in.unstick()
	c.in.leftCleared(c.run)
}

// stage tells what the clearing does.
func (c *clearing) stage() string {
	var left []string
	for _, pid := range slices.Sorted(maps.Keys(c.living)) {
		left = append(left, fmt.Sprintf("%s (%d)", c.living[pid], pid))
	}
	if len(left) == 0 {
		return "looking for what is left of it"
	}
	return "ending what is left of it: " + strings.Join(left, ", ")
}
