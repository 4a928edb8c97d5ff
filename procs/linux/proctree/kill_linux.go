package proctree

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/pidfd"
	"superd/procs/host"
)

const (
	groupTime  = 20 * time.Millisecond // for orphans to die, so that their groups can be killed
	chaseTime  = 10 * time.Millisecond
	chaseQuiet = 20 // rounds that found no new process
)

// serveKills sends SIGKILL to all processes of the trees, and returns the pause before the next
// scan.
func (c *Scanner) serveKills(trees []*Tree, w *scan) (pause time.Duration) {
	if len(trees) == 0 {
		return 0
	}
	defer c.options.PauseReaping()() // so that no orphan is reaped meanwhile: see killGroup
	patience := time.Now().Add(groupTime)
	for _, t := range trees {
		fresh := 0
		for i := range w.members[t] {
			s := &w.members[t][i]
			if !t.signaled[keyOf(s)] && c.kill(s, patience) {
				t.signaled[keyOf(s)] = true
				fresh++
			}
		}
		if fresh == 0 {
			pause = 5 * time.Millisecond // they are ending, or can't
		}
		groups := map[int]bool{}
		for key, tree := range w.zombies {
			if s := w.stats[key.Pid]; tree == t && !groups[s.Group] {
				groups[s.Group] = true
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
	c.killRace(trees, w)
	return pause
}

// killRace kills orphans that fork and exit faster than a scan lasts. It looks only at superd's own
// children, which takes some microseconds.
func (c *Scanner) killRace(trees []*Tree, w *scan) {
	c.mu.Lock()
	register := c.register.clone()
	c.mu.Unlock()
	met := map[host.ProcessKey]bool{}
	deadline := time.Now().Add(chaseTime)
	for quiet := 0; quiet < chaseQuiet && time.Now().Before(deadline); quiet++ {
		for pid := range procfs.Children(c.self) {
			if w.stats[pid] != nil {
				continue // the scan has visited it
			}
			s, err := procfs.ReadStat(pid)
			if err != nil || s.Parent != c.self || met[keyOf(&s)] || register.known[keyOf(&s)] != nil {
				continue
			}
			t, _ := c.treeOf(&s, register)
			met[keyOf(&s)] = t != nil || s.Dead
			switch {
			case t == nil || !slices.Contains(trees, t):
			case s.Dead:
				c.killGroup(&s)
				quiet = 0
			case c.kill(&s, deadline):
				quiet = 0
			}
		}
	}
}

// kill sends SIGKILL to a process of a tree; if it is an orphan, to its process group, too. It
// reports whether the process is dying.
func (c *Scanner) kill(s *procfs.Stat, patience time.Time) bool {
	p, err := procfs.OpenProcess(s)
	if err != nil {
		return errors.Is(err, pidfd.ErrGone)
	}
	defer p.Close()
	if err := p.Signal(unix.SIGKILL); err != nil {
		return errors.Is(err, pidfd.ErrGone)
	}
	c.mu.Lock()
	orphan := s.Parent == c.self && c.known[keyOf(s)] == nil
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

// killGroup sends SIGKILL to the process group of an orphan that has ended. One call reaches even
// processes that are being forked: a group that forks faster than any scan is dead at once.
//
// The orphan is superd's child and is not reaped now. While it is a zombie, the number of its group
// can't be reused.
func (c *Scanner) killGroup(s *procfs.Stat) {
	now, err := procfs.ReadStat(s.Pid)
	switch {
	case err != nil, now.Start != s.Start, now.Parent != c.self, !now.Dead:
	// a group from before this process became superd
	case now.Session == c.session, now.Group == c.group, now.Group <= 1:
	default:
		_ = unix.Kill(-now.Group, unix.SIGKILL) // ESRCH: it was the last of its group
	}
}
