package hosttest

import (
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/notify"
)

// A Service is the service of a program. A main process shares it with a child to which it hands
// over.
type Service struct {
	Began          time.Duration // when the loop learned of it
	ReadyAt        time.Duration // when it became ready; 0 before
	Unhealthy      bool          // it fails all checks and sends no pings
	UnhealthySince time.Duration // when it last became unhealthy; 0: never
	// It reloads its configuration, has reported that, and fails all checks
	Busy     bool
	BusyAt   time.Duration // when it last became busy
	IdleAt   time.Duration // when it last ceased to be busy
	Watchdog time.Duration // time-out for its pings; 0: none
	PingedAt time.Duration // when it last sent a ping
}

// scheduleHandover makes a main process hand over to a child, which it may announce by MAINPID=, at
// times with a wrong pid.
func (p *Process) scheduleHandover() {
	k := p.k
	if !p.notifies || !k.chance(k.Mix.Handover) {
		return
	}
	p.scope.After(k.upTo(time.Duration(k.pick(0.001, 1, 60)*float64(time.Second))), func() {
		if p.Dying {
			return
		}
		successor := p.ForkSuccessor()
		pid := successor.Pid
		if k.chance(0.2) {
			pid = 2 + k.rng.IntN(10)
		}
		successor.becomeReady()
		successor.ping()
		successor.scheduleHandover()
		sender := p
		if k.chance(0.5) {
			sender = successor
		}
		sender.scope.After(k.upTo(time.Duration(k.pick(0, 1)*float64(time.Second))), func() {
			if sender.Dying {
				return
			}
			k.logf("%s (%d) sends MAINPID=%d", p.Instance, sender.Pid, pid)
			p.Notify(notify.Message{MainPID: pid})
			if k.chance(0.7) {
				p.scope.After(k.upTo(time.Second), func() { p.End(pidfd.Exit{Known: true}) })
			}
		})
	})
}

// ForkSuccessor returns a child that continues the service of the process.
func (p *Process) ForkSuccessor() *Process {
	successor := p.k.NewProcess(p.Instance, p.Run, RoleSuccessor)
	successor.Service, successor.parent, successor.Reparented, successor.notifies, successor.isSuccessor = p.Service, p, true, true, true
	p.children = append(p.children, successor)
	successor.endScheduledRun(p.k.definitions[p.Run])
	return successor
}

// endScheduledRun ends a process of a scheduled program after a random time.
func (p *Process) endScheduledRun(definition *config.Program) {
	if k := p.k; definition != nil && definition.Schedule != "" && k.Mix.RunTime > 0 {
		p.scope.After(k.upTo(k.Mix.RunTime), func() { p.End(pidfd.Exit{Known: true}) })
	}
}

// serves reports whether the process provides the service of its program: as main process, or as
// its successor before or after the handover. A successor of an earlier run does not: it may share
// its address with the next run, whose checks would then pass before that run is ready.
func (p *Process) serves() bool {
	if p.Role != RoleSuccessor {
		return p.Role == RoleMain
	}
	main := p.k.mains[p.Run]
	return main != nil && main.Service == p.Service && !main.finished()
}

// mainAnnounced is called when superd reads MAINPID=. It makes the process the expected main
// process if it belongs to the program.
func (k *Kernel) mainAnnounced(run string, pid int) {
	main, p := k.mains[run], k.Process(pid)
	// Without a result of the spawn superd knows the first main process by its start record only
	if p != nil && (main != nil && p.Instance == main.Instance || main == nil && p.Run == run) {
		if main != nil && main != p {
			p.isLauncher = false // a program may announce its command
		}
		k.setMain(run, p)
	}
}

// setMain sets the main process of the run. The previous one becomes an ordinary process of the
// tree.
func (k *Kernel) setMain(run string, p *Process) {
	before := k.mains[run]
	if before == p {
		return
	}
	if before != nil {
		before.setRole(RoleEscaped)
		p.Service = before.Service
	}
	p.setRole(RoleMain)
	// p may be a leftover process of another run
	k.mains[run], p.Run, p.MainAt = p, run, k.v.Now()
}

// setRole changes the role of a process.
func (p *Process) setRole(role Role) {
	if p.Zombie {
		p.Role = role
		return
	}
	p.k.count(p, -1)
	p.Role = role
	p.k.count(p, 1)
}

// orphanChildren gives the children of a process that has ended the parent of that process.
func (p *Process) orphanChildren() {
	for _, child := range p.children {
		if !child.Zombie {
			child.parent, child.Reparented = nil, p.Reparented
		}
	}
}

// becomeReady makes a main process ready after a random time, and unhealthy later, by the mix.
func (p *Process) becomeReady() {
	k := p.k
	if p.ReadyAt != 0 || k.chance(k.Mix.NeverReady) {
		return
	}
	p.scope.After(k.upTo(k.Mix.SlowReady), func() {
		if p.ReadyAt != 0 { // another process of the service was faster
			return
		}
		p.ReadyAt = k.v.Now()
		k.logf("%s (%d) is ready", p.Instance, p.Pid)
		k.SocketOf(p.Run).WriteNewline()
		p.Notify(notify.Message{Ready: true, HasStatus: true, Status: "up"})
		if k.chance(k.Mix.Unhealthy) {
			p.scope.After(k.upTo(5*time.Minute), func() {
				k.logf("%s (%d) becomes unhealthy", p.Instance, p.Pid)
				p.Unhealthy, p.UnhealthySince = true, k.v.Now()
				if k.chance(0.5) {
					p.scope.After(k.upTo(5*time.Minute), func() { p.Unhealthy = false })
				}
			})
		}
		if k.chance(k.Mix.Reloads) {
			p.scope.After(k.upTo(30*time.Second), func() {
				p.reload()
			})
		}
		p.ping()
	})
}

// reload makes the process reload its configuration, if it has a notify socket and superd listens.
func (p *Process) reload() {
	k := p.k
	p.Notify(notify.Message{Reloading: true})
	if s := k.SocketOf(p.Run); s.readMessages != nil && k.IsRunning != nil && k.IsRunning(p.Instance) {
		p.Busy, p.BusyAt = true, k.v.Now()
	}
	over := func() { p.Busy, p.IdleAt = false, k.v.Now() }
	if k.chance(0.7) {
		p.scope.After(k.upTo(10*time.Second), func() {
			over()
			p.Notify(notify.Message{Ready: true})
		})
		return
	}
	p.scope.After(10*time.Minute, over)
}

// ping sends watchdog pings while the process is healthy.
func (p *Process) ping() {
	if p.Watchdog == 0 || p.ReadyAt == 0 {
		return
	}
	if !p.Unhealthy {
		p.PingedAt = p.k.v.Now()
		p.Notify(notify.Message{Watchdog: true})
	}
	p.scope.After(p.Watchdog/2, p.ping)
}

// Notify sends a message to the run's notify socket.
func (p *Process) Notify(m notify.Message) {
	s := p.k.SocketOf(p.Run)
	s.Messages = append(s.Messages, m)
	if s.readMessages != nil {
		s.readMessages()
	}
}
