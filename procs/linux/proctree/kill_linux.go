package proctree

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/pidfd"
)

// killInterval is the pause after a scan that found no process without SIGKILL.
const killInterval = 5 * time.Millisecond

// serveKills sends SIGKILL to all processes of the trees, and returns the pause before the next
// scan.
func (c *Scanner) serveKills(trees []*Tree, sc *scan) (pause time.Duration) {
	for _, t := range trees {
		fresh := false
		for i := range sc.members[t] {
			s := &sc.members[t][i]
			if !t.killed[keyOf(s)] && kill(s) {
				t.killed[keyOf(s)] = true
				fresh = true
			}
		}
		if !fresh {
			pause = killInterval // they are ending, or are unkillable
		}
		empty := len(sc.members[t]) == 0
		c.mu.Lock()
		if empty && t.emptyScan != nil && sc.follows(t.emptyScan, t) || time.Now().After(t.killUntil) {
			t.killing = false
			c.changed.Broadcast()
		}
		if t.emptyScan = nil; empty {
			t.emptyScan = sc
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
