package hosttest

import (
	"slices"
	"syscall"

	"superd/pidfd"
	"superd/procs/host"
)

// Adopt implements [host.Host].
func (k *Kernel) Adopt(all []*host.RecoveredProcess) {
	for _, a := range all {
		if p := k.byStart[a.Process.Start]; p != nil && k.OnAdopt != nil {
			k.OnAdopt(p, a)
		}
		// superd may know an earlier main process
		if p := k.byStart[a.Process.Start]; p != nil && p.Role != RolePreStart && p.Role != RolePostStop {
			if k.mains[p.Run] == nil {
				p.Began = k.v.Now()
			}
			p.Reparented = true // even if an earlier superd reaped it
			k.setMain(p.Run, p)
		}
		if p := k.byStart[a.Process.Start]; p != nil && (a.NotifySocket != "" || a.ReadyNumber != 0) {
			s := k.SocketOf(p.Run)
			if !k.Keeper {
				s.Messages, s.Lost = nil, true
			}
			notifyFD, readyFD := k.openNotifyFDs(p.Run,
				a.NotifySocket != "" && a.NotifyFD < 0, a.ReadyNumber != 0 && a.ReadyFD < 0)
			a.NotifyFD, a.ReadyFD = max(a.NotifyFD, notifyFD), max(a.ReadyFD, readyFD)
		}
		k.CloseFD(a.PidFD)
		p := k.Process(a.Process.Pid)
		if p != nil && (p.start == a.Process.Start || k.Defects.AdoptsByPid) {
			a.Found = p.open()
		}
	}
}

// Search implements [host.Host]. It reports leftover processes in TestLostRecords only, as the
// observer has no model of quarantine.
func (k *Kernel) Search(lookup []*host.LookupRequest, known map[string]bool, _ func(string) []string) (leftovers []host.Leftover, err error) {
	for p := range k.Processes() {
		if p.Zombie || k.Defects.NoSearch {
			continue
		}
		for _, w := range lookup {
			if p.Run == w.Run && p.Role.Spawned() && !p.Role.OwnTree() && p.start > w.After {
				w.Found = p.id()
			}
		}
		if p.Role.OwnTree() || known[p.Run] || !k.ReportsLeftovers || slices.ContainsFunc(lookup, func(w *host.LookupRequest) bool { return w.Run == p.Run }) {
			continue
		}
		leftover := host.Leftover{Pid: p.Pid, Command: "sim", Instance: p.Instance, Run: p.Run, Leads: p.Role.Spawned()}
		if leftover.Leads {
			leftover.Eldest = p.id()
		}
		leftovers = append(leftovers, leftover)
	}
	return leftovers, nil
}

// Lives implements [host.Host].
func (k *Kernel) Lives(id pidfd.Identity) bool {
	p := k.Process(id.Pid)
	return p != nil && p.start == id.Start
}

// KillSupervisor ends superd: its children get another parent.
func (k *Kernel) KillSupervisor() {
	k.session.Close()
	k.session = k.v.Root().Child()
	k.forks, k.pendingSweep = 0, nil
	for fd := range k.listening {
		delete(k.listening, fd)
		k.v.CloseFD(fd)
	}
	for fd := range k.connections {
		delete(k.connections, fd)
		k.v.CloseFD(fd)
	}
	clear(k.checking)
	for p := range k.Processes() {
		p.Reparented, p.resultPending = true, false
		hangs := p.atEnd != nil
		p.atEnd = nil
		switch {
		case p.Zombie:
			k.ReapForeign(p)
		case hangs: // a child that has not executed a program dies with its superd
			p.End(pidfd.Exit{Known: true, Signal: syscall.SIGKILL})
		}
	}
	for _, p := range k.mains {
		p.Reparented = true // only an earlier superd may know its exit
	}
	k.zombies = nil
}
