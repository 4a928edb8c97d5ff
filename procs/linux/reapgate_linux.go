package linux

import (
	"sync"

	"superd/pidfd"
)

// A reapGate keeps the reaping of orphans away from children that the loop does not know yet. A
// child that hangs before its exec blocks neither the reaping nor other starts, as its pid is
// known.
type reapGate struct {
	mu      sync.Mutex
	free    sync.Cond                // signals that forks are allowed again
	forking map[*pidfd.Progress]bool // between fork and exec, or about to fork
	// pids of children that have executed, and that the loop does not know yet
	unannounced map[int]bool
	blocked     bool // the reaping waits for a child in forking or unannounced

	forkBlocks int // number of callers that block forks, see BlockForks
}

func (g *reapGate) init() {
	g.free.L = &g.mu
	g.forking, g.unannounced = map[*pidfd.Progress]bool{}, map[int]bool{}
}

// spawn forks and executes. It registers the child with a; nil: the child belongs to no
// start.
func (k *Host) spawn(a *attempt, attr *pidfd.Attr) (*pidfd.Process, error) {
	progress := new(pidfd.Progress)
	attr.Progress, attr.Slots, attr.OpenFiles = progress, k.slots, k.openFiles
	k.gate.enter(progress)
	if a != nil && !a.forkBegins(progress) {
		k.noteForkResult(progress, nil)
		return nil, pidfd.ErrKilled
	}
	child, err := pidfd.Spawn(attr)
	if a != nil {
		a.forkEnds()
	}
	k.noteForkResult(progress, child)
	return child, err
}

// enter registers a child before its fork. It waits while forks are blocked.
func (g *reapGate) enter(progress *pidfd.Progress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.forkBlocks > 0 {
		g.free.Wait()
	}
	g.forking[progress] = true
}

// noteForkResult registers the result of a fork: nil if the child has been reaped. It may be called
// from any goroutine.
func (k *Host) noteForkResult(progress *pidfd.Progress, child *pidfd.Process) {
	k.gate.mu.Lock()
	defer k.gate.mu.Unlock()
	delete(k.gate.forking, progress)
	if child != nil {
		k.gate.unannounced[child.Pid()] = true
		return
	}
	k.unblock()
}

// announced unregisters a child that has an owner on the loop, or is gone. It may be called from
// any goroutine.
func (k *Host) announced(pid int) {
	k.gate.mu.Lock()
	defer k.gate.mu.Unlock()
	delete(k.gate.unannounced, pid)
	k.unblock()
}

// unblock continues a reaping that waited for a child which the loop did not know. The caller holds
// the gate's mutex.
func (k *Host) unblock() {
	if k.gate.blocked {
		k.gate.blocked = false
		k.loop.Post(k.continueReaping)
	}
}

// isNew reports whether the loop does not know the child with that pid yet. The caller holds g.mu,
// and has held it since it saw that the child is a zombie: a pid is removed from g only after the
// child was reaped.
func (g *reapGate) isNew(pid int) bool {
	for progress := range g.forking {
		if progress.Owns(pid) {
			return true
		}
	}
	return g.unannounced[pid]
}

// isUnannounced is isNew for a caller that does not hold g.mu.
func (g *reapGate) isUnannounced(pid int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isNew(pid)
}

// spawnUnowned is spawn for a child that belongs to no start. The caller calls announce when the
// child is reaped.
func (k *Host) spawnUnowned(attr *pidfd.Attr) (child *pidfd.Process, announce func(), err error) {
	if child, err = k.spawn(nil, attr); err != nil {
		return nil, nil, err
	}
	return child, func() { k.announced(child.Pid()) }, nil
}

// MaskSIGCHLD implements [host.Host].
func (k *Host) MaskSIGCHLD() {
	if k.sigchld != nil {
		k.sigchld.Mask()
	}
}

// ReapOrphans implements [host.Host].
func (k *Host) ReapOrphans(dead func(pid int)) {
	k.reapChild = dead
	if k.sigchld != nil {
		k.sigchld.Unmask() // before the first Peek
	}
	k.continueReaping()
}

// continueReaping reaps the next reapShare zombies.
func (k *Host) continueReaping() {
	g := &k.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	last := 0
	for range reapShare {
		// Peek returns the same first zombie again until its owner has reaped it.
		pid, ok, err := pidfd.Peek()
		if err != nil || !ok || pid == last {
			return
		}
		if g.isNew(pid) {
			g.blocked = true // not for long: a zombie does not hang
			return
		}
		last = pid
		k.reapChild(pid)
	}
	k.loop.Post(k.continueReaping)
}

// reapShare is how many zombies are reaped before other callbacks run: a thousand programs killed
// at once are all zombies when the reaping begins.
const reapShare = 16
