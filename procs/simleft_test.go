package procs

import (
	"slices"
)

// Adopt implements [System].
func (k *simKernel) Adopt(all []*Adoptee) {
	for _, a := range all {
		// What superd knows of the main process may be of before another one took its place.
		if p := k.byStart[a.Process.Start]; p != nil && p.role != roleHook && p.role != roleAfterHook {
			if k.mains[p.run] == nil {
				p.began = k.v.Now()
			}
			k.setMain(p.run, p)
		}
		if p := k.byStart[a.Process.Start]; p != nil && (a.NotifySocket != "" || a.ReadyNumber != 0) {
			s := k.socketOf(p.run)
			if !k.keeper {
				s.messages, s.lost = nil, true
			}
			a.NotifyFD, a.ReadyFD = k.openTold(p.run, a.NotifySocket != "", a.ReadyNumber != 0)
		}
		p := k.byPid[a.Process.Pid]
		if p != nil && (p.start == a.Process.Start || k.unidentified) {
			a.Found = p.open()
		}
	}
}

// Search implements [System].
func (k *simKernel) Search(sought []*Sought, _ map[string]bool) ([]Stray, error) {
	for _, w := range sought {
		for _, pid := range sortedKeys(k.byPid) {
			p := k.byPid[pid]
			if p.run == w.Run && p.role.child() && p.role != roleProbe && p.start > w.After && !p.zombie && !k.unsought {
				w.Found = p.id()
			}
		}
	}
	return nil, nil
}

// abandon is the end of superd: those whom it has started get another parent.
func (k *simKernel) abandon() {
	k.session.Close()
	k.session = k.v.Root().Child()
	k.forks, k.sweep = 0, nil
	clear(k.checking)
	for _, pid := range sortedKeys(k.byPid) {
		p := k.byPid[pid]
		p.foreign = true
		if p.zombie {
			k.reapForeign(p)
		}
	}
	for _, p := range k.mains {
		p.foreign = true // or its exit was known to a superd that is no more
	}
	k.zombies = nil
}

// Store implements [Keeper].
func (k *simKernel) Store(string, int) {}

// Discard implements [Keeper].
func (k *simKernel) Discard(string) {}
func (k *simKernel) Forget(string)  {}

// Acknowledge implements [Keeper].
func (k *simKernel) Acknowledge(pid int, start uint64) {
	k.exits = slices.DeleteFunc(k.exits, func(e KeptExit) bool { return e.Pid == pid && e.Start == start })
}
