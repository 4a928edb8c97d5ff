package procs

import (
	"slices"
	"syscall"

	"superd/pidfd"
	"superd/procs/host"
)

// Adopt implements [host.Host].
func (k *simKernel) Adopt(all []*host.RecoveredProcess) {
	for _, a := range all {
		// superd may know an earlier main process
		if p := k.byStart[a.Process.Start]; p != nil && p.role != roleHook && p.role != roleAfterHook {
			if k.mains[p.run] == nil {
				p.began = k.v.Now()
			}
			p.reparented = true // even if an earlier superd reaped it
			k.setMain(p.run, p)
		}
		if p := k.byStart[a.Process.Start]; p != nil && (a.NotifySocket != "" || a.ReadyNumber != 0) {
			s := k.socketOf(p.run)
			if !k.keeper {
				s.messages, s.lost = nil, true
			}
			a.NotifyFD, a.ReadyFD = k.openNotifyFDs(p.run, a.NotifySocket != "", a.ReadyNumber != 0)
		}
		p := k.byPid[a.Process.Pid]
		if p != nil && (p.start == a.Process.Start || k.adoptsByPid) {
			a.Found = p.open()
		}
	}
}

// Search implements [host.Host]. It reports leftover processes in TestLostRecords only, as the
// observer has no model of quarantine.
func (k *simKernel) Search(lookup []*host.LookupRequest, known map[string]bool, _ func(string) []string) (leftovers []host.Leftover, err error) {
	for _, pid := range sortedKeys(k.byPid) {
		p := k.byPid[pid]
		if p.zombie || k.noSearch {
			continue
		}
		for _, w := range lookup {
			if p.run == w.Run && p.role.child() && p.role != roleProbe && p.start > w.After {
				w.Found = p.id()
			}
		}
		if p.role == roleProbe || known[p.run] || !k.leftovers || slices.ContainsFunc(lookup, func(w *host.LookupRequest) bool { return w.Run == p.run }) {
			continue
		}
		leftover := host.Leftover{Pid: pid, Command: "sim", Instance: p.instance, Run: p.run, Leads: p.role.child()}
		if leftover.Leads {
			leftover.Eldest = p.id()
		}
		leftovers = append(leftovers, leftover)
	}
	return leftovers, nil
}

// Lives implements [host.Host].
func (k *simKernel) Lives(id pidfd.Identity) bool {
	p := k.byPid[id.Pid]
	return p != nil && p.start == id.Start
}

// killSupervisor ends superd: its children get another parent.
func (k *simKernel) killSupervisor() {
	k.session.Close()
	k.session = k.v.Root().Child()
	k.forks, k.pendingSweep = 0, nil
	clear(k.checking)
	for _, pid := range sortedKeys(k.byPid) {
		p := k.byPid[pid]
		p.reparented, p.resultPending = true, false
		hangs := p.atEnd != nil
		p.atEnd = nil
		switch {
		case p.zombie:
			k.reapForeign(p)
		case hangs: // a child that has not executed a program dies with its superd
			p.end(pidfd.Exit{Known: true, Signal: syscall.SIGKILL})
		}
	}
	for _, p := range k.mains {
		p.reparented = true // only an earlier superd may know its exit
	}
	k.zombies = nil
}

// Store implements [host.FDStore].
func (k *simKernel) Store(string, int) {}

// Discard implements [host.FDStore].
func (k *simKernel) Discard(string) {}
func (k *simKernel) Forget(string)  {}

// Acknowledge implements [host.FDStore].
func (k *simKernel) Acknowledge(pid int, start uint64) {
	k.exits = slices.DeleteFunc(k.exits, func(e host.StoredExit) bool { return e.Pid == pid && e.Start == start })
}
