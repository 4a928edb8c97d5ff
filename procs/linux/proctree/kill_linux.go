package proctree

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/pidfd"
)

// killInterval is the time between scans while all processes that they find have got SIGKILL.
const killInterval = 5 * time.Millisecond

// serveKills sends SIGKILL to all processes of the trees, and returns the pause before the next
// scan.
func (c *Scanner) serveKills(trees []*Tree, w *scan) (pause time.Duration) {
	for _, t := range trees {
		fresh := false
		for i := range w.members[t] {
			s := &w.members[t][i]
			if !t.signaled[keyOf(s)] && kill(s) {
				t.signaled[keyOf(s)] = true
				fresh = true
			}
		}
		if !fresh {
			pause = killInterval // they are ending, or are unkillable
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
	return pause
}

// kill sends SIGKILL to a process. It reports whether the process is dying or gone.
func kill(s *procfs.Stat) bool {
	p, err := procfs.OpenProcess(s)
	if err == nil {
		defer p.Close()
		err = p.Signal(unix.SIGKILL)
	}
	return err == nil || errors.Is(err, pidfd.ErrGone)
}
