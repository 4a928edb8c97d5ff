package procs

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"superd/pidfd"
)

const (
	groupTime  = 20 * time.Millisecond // for orphans to die, so that their groups can be killed
	chaseTime  = 10 * time.Millisecond
	chaseQuiet = 20 // rounds in which nobody was met
)

// serveKills sends SIGKILL to everybody in the trees, and returns how long to wait before the next walk.
func (c *census) serveKills(trees []*censusTree, w *headcount) (pause time.Duration) {
	if len(trees) == 0 {
		return 0
	}
	c.kernel.gate.enter() // so that no orphan is reaped meanwhile: see killGroup
	defer c.kernel.loop.Post(c.kernel.leaveGate)
	patience := time.Now().Add(groupTime)
	for _, t := range trees {
		fresh := 0
		for i := range w.members[t] {
			s := &w.members[t][i]
			if !t.signaled[s.key()] && c.kill(s, patience) {
				t.signaled[s.key()] = true
				fresh++
			}
		}
		if fresh == 0 {
			pause = 5 * time.Millisecond // they are ending, or can't
		}
		groups := map[int]bool{}
		for key, tree := range w.zombies {
			if s := w.stats[key.pid]; tree == t && !groups[s.group] {
				groups[s.group] = true
				c.killGroup(s)
			}
		}
		empty := len(w.members[t]) == 0
		c.mu.Lock()
		if empty && t.emptyWalk != nil && w.follows(t.emptyWalk, t) || time.Now().After(t.killUntil) {
			t.killing = false
			c.changed.Broadcast()
		}
		if t.emptyWalk = nil; empty {
			t.emptyWalk = w
		}
		c.mu.Unlock()
	}
	c.chase(trees, w)
	return pause
}

// chase catches orphans that hand their life on to a child faster than a walk lasts: it looks at superd's own children only, which
// takes some microseconds.
func (c *census) chase(trees []*censusTree, w *headcount) {
	c.mu.Lock()
	register := c.register.clone()
	c.mu.Unlock()
	met := map[processKey]bool{}
	deadline := time.Now().Add(chaseTime)
	for quiet := 0; quiet < chaseQuiet && time.Now().Before(deadline); quiet++ {
		for pid := range childrenOf(c.self) {
			if w.stats[pid] != nil {
				continue // the walk has met it
			}
			s, err := readStat(pid)
			if err != nil || s.parent != c.self || met[s.key()] || register.known[s.key()] != nil {
				continue
			}
			t, _ := c.treeOf(&s, register)
			met[s.key()] = t != nil || s.dead
			switch {
			case t == nil || !slices.Contains(trees, t):
			case s.dead:
				c.killGroup(&s)
				quiet = 0
			case c.kill(&s, deadline):
				quiet = 0
			}
		}
	}
}

// kill sends SIGKILL to a process of a tree; if it is an orphan, to its process group, too. It reports whether the process is dying.
func (c *census) kill(s *procStat, patience time.Time) bool {
	p, err := openProcess(s)
	if err != nil {
		return errors.Is(err, pidfd.ErrGone)
	}
	defer p.Close()
	if err := p.Signal(unix.SIGKILL); err != nil {
		return errors.Is(err, pidfd.ErrGone)
	}
	c.mu.Lock()
	orphan := s.parent == c.self && c.known[s.key()] == nil
	c.mu.Unlock()
	fds := []unix.PollFd{{Fd: int32(p.FD()), Events: unix.POLLIN}}
	if !orphan {
		return true
	}
	if n, err := unix.Poll(fds, int(max(time.Until(patience).Milliseconds(), 0))); n > 0 && err == nil {
		c.killGroup(s)
	}
	return true
}

// killGroup sends SIGKILL to the process group of an orphan that has ended. One call reaches those, too, who are just being brought forth: a
// group that forks faster than anybody can look is dead at once.
//
// The orphan is superd's child, and no sweep reaps it now: as long as it is a zombie, the number of its group can't be anybody else's.
func (c *census) killGroup(s *procStat) {
	now, err := readStat(s.pid)
	switch {
	case err != nil, now.start != s.start, now.parent != c.self, !now.dead:
	case now.session == c.session, now.group == c.group, now.group <= 1: // it was there before superd was superd
	default:
		_ = unix.Kill(-now.group, unix.SIGKILL) // ESRCH: it was the last of its group
	}
}
