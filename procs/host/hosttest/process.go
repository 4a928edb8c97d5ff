package hosttest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// A Process is one process. [Kernel.NewProcess] makes one.
type Process struct {
	*Service // of its program

	Instance    string
	Run         string // invocation ID
	Role        Role
	Pid         int
	Group       int  // process group; 0: it leads one, unless it is a successor
	IgnoresStop bool // it ignores the stop signal
	Unkillable  bool // SIGKILL takes minutes
	Traced      bool // a tracer keeps it a zombie, which superd can't reap
	Reparented  bool // it is not superd's child any more

	Dying   bool // it got SIGKILL
	DyingAt time.Duration
	Zombie  bool
	EndedAt time.Duration // when it became a zombie
	Exit    pidfd.Exit
	MainAt  time.Duration // when it became the main process in place of another

	k           *Kernel
	start       uint64
	reaped      bool
	exitInfo    bool        // whether the kernel reports its exit status after the reaping
	notifies    bool        // whether it has a notify socket
	parent      *Process    // live parent of a successor
	isSuccessor bool        // whether it is a successor, which leads no group
	isLauncher  bool        // whether its main process is another one, which it starts
	foundBy     *loop.Scope // of the superd that has found that; nil: none
	children    []*Process  // its successors
	// Whether superd spawned it and the loop does not have the result yet
	resultPending bool
	atEnd         func()     // called at its end; may be nil
	scope         loop.Scope // of what it does by itself
	handles       []*Handle
	firstHandle   [1]*Handle     // storage of handles
	ignored       syscall.Signal // last stop signal that it ignored
	service       Service        // storage of Service, unless it has that of its parent
	log           *CommandLog    // of a command beside a main process; may be nil
	Key           string         // of that command
}

// A Role is what a process is to its instance.
type Role uint8

// The roles of processes.
const (
	RoleMain Role = iota
	RolePreStart
	RolePostStop
	RoleEscaped   // a descendant that has left its group
	RoleOrphan    // an unknown child of superd
	RoleProbe     // of an exec check
	RoleSuccessor // of a main process that hands over to it
	RoleBeside    // of another command beside a main process
)

// Spawned reports whether superd spawned the process.
func (r Role) Spawned() bool { return r <= RolePostStop || r.OwnTree() }

// OwnTree reports whether its processes are in the tree of the exec checks.
func (r Role) OwnTree() bool { return r == RoleProbe || r == RoleBeside }

// A Handle is a pidfd: the process as superd sees it.
type Handle struct {
	Process *Process

	fd        int
	closed    bool
	unwatched bool // watching it fails
}

// NewProcess creates a process with the lowest free pid.
func (k *Kernel) NewProcess(instance, run string, role Role) *Process {
	pid := k.freePid()
	if role.Spawned() && !role.OwnTree() {
		for other := range k.Processes() {
			twice := role == RoleMain && other.Role == RoleMain
			if twice && !other.Zombie && k.conflict(other.Instance, instance) {
				k.fail("%s is started as %d while %d of %s is alive", instance, pid, other.Pid, other.Instance)
			}
			if other.Instance == instance && !other.Zombie && (twice || other.Run != run && !k.Spares(instance)) {
				k.fail("%s is started as %d while its process %d is alive", instance, pid, other.Pid)
			}
		}
	}
	k.spawned++
	p := &Process{
		k: k, Instance: instance, Run: run, Role: role, Pid: pid, start: uint64(k.spawned),
		IgnoresStop: k.chance(k.Mix.IgnoresStop), Unkillable: k.chance(k.Mix.Unkillable),
		exitInfo: k.chance(k.Mix.ExitInfo),
	}
	p.Service = &p.service
	p.handles = p.firstHandle[:0]
	p.scope.Open(k.v.Root())
	k.byPid[pid], k.byStart[p.start] = p, p
	k.count(p, 1)
	if k.Logf != nil {
		k.Logf("%s starts as %d (role %d, deaf %v, immortal %v)", instance, pid, role, p.IgnoresStop, p.Unkillable)
	}
	switch role {
	case RoleProbe:
		if !k.chance(k.Mix.CheckHangs) {
			exit := pidfd.Exit{Known: true}
			if k.checkResult(strings.TrimSuffix(instance, host.ProbeSuffix)) != nil {
				exit.Code = 1
			}
			p.scope.After(k.upTo(50*time.Millisecond), func() { p.End(exit) })
		}
	case RolePreStart, RolePostStop, RoleBeside:
		if !k.chance(k.Mix.HookHangs) {
			exit := pidfd.Exit{Known: true}
			if k.chance(k.Mix.HookFails) {
				exit.Code = 1
			}
			p.scope.After(k.upTo(max(k.Mix.HookTime, 50*time.Millisecond)), func() { p.End(exit) })
		}
	case RoleEscaped, RoleOrphan: // do nothing by themselves
	case RoleMain, RoleSuccessor:
		if k.chance(k.Mix.Crash) {
			exit := pidfd.Exit{Known: true, Code: k.rng.IntN(3)}
			if k.chance(0.3) {
				exit = pidfd.Exit{Known: true, Signal: syscall.SIGSEGV}
			}
			p.scope.After(time.Duration(k.rng.ExpFloat64()*float64(k.Mix.Lifetime)), func() { p.End(exit) })
		}
	}
	if role != RoleOrphan && k.chance(k.Mix.Forks) {
		p.scope.After(k.upTo(100*time.Millisecond), func() { k.NewProcess(instance, run, RoleEscaped).Reparented = p.Reparented })
	}
	return p
}

// Renumber gives the process another pid, which must be free.
func (p *Process) Renumber(pid int) {
	p.k.byPid[p.Pid] = nil
	p.Pid = pid
	p.k.byPid[pid] = p
}

// conflict reports whether two instances must not run at once, as the one replaces the other: of
// one program, and only one of them numbered. An extra one replaces none.
func (k *Kernel) conflict(a, b string) bool {
	if k.IsExtra != nil && (k.IsExtra(a) || k.IsExtra(b)) {
		return false
	}
	return config.ProgramOf(a) == config.ProgramOf(b) && strings.Contains(a, "@") != strings.Contains(b, "@")
}

// End makes p a zombie. An escaped process has lost its parent and is superd's child by then.
func (p *Process) End(exit pidfd.Exit) {
	k := p.k
	if p.Zombie {
		return
	}
	if k.Logf != nil { // otherwise the arguments would be allocated
		k.Logf("%s (%d) ends: %v", p.Instance, p.Pid, exit)
	}
	p.Zombie, p.Exit, p.EndedAt, k.endedAt[p.Pid] = true, exit, k.v.Now(), k.v.Now()
	k.count(p, -1)
	p.scope.Close()
	p.orphanChildren()
	if p.atEnd != nil {
		p.atEnd()
	}
	if p.Reparented {
		late := 10 * time.Millisecond
		if k.chance(k.Mix.SlowReap) {
			late = 3 * time.Second
		}
		k.v.Root().After(k.upTo(late), func() { k.ReapForeign(p) })
	} else {
		k.zombies = append(k.zombies, p)
	}
	for _, h := range p.handles {
		if !h.closed {
			k.v.SetReady(h.fd, loop.Readable)
		}
	}
	if p.Role == RolePreStart || p.Role == RolePostStop {
		k.hookEnds++
	}
	p.log.ended(exit.Known && exit.Signal == 0 && exit.Code == 0 && !p.Dying, k.v.Now())
	if p.Reparented {
		return
	}
	if p.Role != RoleOrphan && k.chance(k.Mix.Orphans) {
		k.NewProcess("", "", RoleOrphan).End(pidfd.Exit{Known: true})
	}
	k.v.Root().After(k.upTo(10*time.Millisecond), k.SIGCHLD)
}

// OnEnd calls f when the process ends, which superd did not start.
func (p *Process) OnEnd(f func()) { p.atEnd = f }

// stopActivity cancels all that the process would do by itself.
func (p *Process) stopActivity() {
	p.scope.Close()
	p.scope = loop.Scope{}
	p.scope.Open(p.k.v.Root())
}

func (p *Process) open() *Handle {
	h := &Handle{Process: p, fd: p.k.v.NewFD()}
	p.handles = append(p.handles, h)
	p.k.handles[h.fd] = h
	if h.unwatched = p.k.chance(p.k.Mix.WatchFails); h.unwatched {
		p.k.v.RefuseWatch(h.fd)
	}
	if p.Zombie {
		p.k.v.SetReady(h.fd, loop.Readable)
	}
	return h
}

// Known reports whether the loop has the result of the spawn that made the process.
func (p *Process) Known() bool { return !p.resultPending && p.atEnd == nil }

// finished reports whether the process has ended and superd does not need it any more.
func (p *Process) finished() bool {
	has := func(h *Handle) bool { return !h.closed }
	return p.reaped || p.Zombie && !slices.ContainsFunc(p.handles, has)
}

// Pid implements [host.Process].
func (h *Handle) Pid() int { return h.Process.Pid }

// FD implements [host.Process].
func (h *Handle) FD() int { return h.fd }

// Signal implements [host.Process].
func (h *Handle) Signal(sig syscall.Signal) error { return h.signal(sig, false) }

func (h *Handle) signal(sig syscall.Signal, group bool) error {
	p, k := h.Process, h.Process.k
	k.checkStop(p, sig, group)
	k.checkKill(p, sig)
	if sig == syscall.SIGHUP && k.mains[p.Run] == p {
		k.reloadSignals[p.Run] = k.v.Now()
	}
	if sig == syscall.SIGTERM && k.mains[p.Run] == p && !p.Zombie && k.OnStopSignal != nil {
		k.OnStopSignal(p)
	}
	switch {
	case h.closed:
		k.fail("%v for %s is sent by pidfd %d, which is closed", sig, p.Instance, h.fd)
	case p.reaped:
		return fmt.Errorf("signal: %w", pidfd.ErrGone)
	case p.Zombie || p.Dying:
	case deadly(sig) && p.Unkillable:
		p.Dying, p.DyingAt = true, k.v.Now()
		p.scope.After(time.Minute+k.upTo(10*time.Minute), func() { p.End(pidfd.Exit{Known: true, Signal: sig}) })
	case deadly(sig):
		p.Dying, p.DyingAt = true, k.v.Now()
		p.scope.After(k.upTo(5*time.Millisecond), func() { p.End(pidfd.Exit{Known: true, Signal: sig}) })
	case sig == syscall.SIGTERM && !p.IgnoresStop:
		delay := time.Duration(0)
		if k.chance(k.Mix.SlowStop) {
			delay = k.upTo(12 * time.Second)
		}
		p.scope.After(delay, func() { p.End(pidfd.Exit{Known: true, Signal: sig}) })
	// SIGABRT is from the watchdog
	case sig == syscall.SIGTERM || sig == syscall.SIGABRT:
		if p.ignored = sig; k.mayBeSpared(p.Instance) {
			p.endLate()
		}
	}
	return nil
}

// endLate lets a process end minutes after a signal that it ignored.
func (p *Process) endLate() {
	sig := p.ignored
	p.scope.After(p.k.upTo(10*time.Minute), func() { p.End(pidfd.Exit{Known: true, Signal: sig}) })
}

// deadly reports whether no process ignores the signal: SIGQUIT stands for any kill_signal.
func deadly(sig syscall.Signal) bool { return sig == syscall.SIGKILL || sig == syscall.SIGQUIT }

// SignalGroup implements [host.Process]: each process is alone in its group, except for successors.
func (h *Handle) SignalGroup(sig syscall.Signal) error {
	if h.Process.isSuccessor {
		return fmt.Errorf("signal: %w", pidfd.ErrGone)
	}
	if h.Process.Key == ExecuteArgument && h.Process.k.Defects.SparesExecuted {
		return nil
	}
	return h.signal(sig, true)
}

// Wait implements [host.Process].
func (h *Handle) Wait() (pidfd.Exit, bool, error) {
	switch p := h.Process; {
	case h.closed:
		p.k.fail("wait for %s uses pidfd %d, which is closed", p.Instance, h.fd)
	case p.Reparented:
		return pidfd.Exit{}, false, pidfd.ErrNotChild
	case !p.Zombie, p.Traced, h.unwatched && p.k.Defects.NoPolling:
		return pidfd.Exit{}, false, nil
	case !p.reaped:
		p.k.reap(p)
	}
	return h.Process.Exit, true, nil
}

// Ended implements [host.Process].
func (h *Handle) Ended() bool { return h.Process.Zombie || h.Process.reaped }

// ExitInfo implements [host.Process].
func (h *Handle) ExitInfo() (pidfd.Exit, bool, error) {
	switch p := h.Process; {
	case !p.reaped:
		return pidfd.Exit{}, false, nil
	case p.k.Defects.InventsExits:
		return pidfd.Exit{Known: true}, true, nil
	case !p.exitInfo:
		return pidfd.Exit{}, false, pidfd.ErrUnsupported
	}
	return h.Process.Exit, true, nil
}

// Close implements [host.Process].
func (h *Handle) Close() error {
	if h.closed {
		h.Process.k.fail("pidfd %d of %s is closed twice", h.fd, h.Process.Instance)
		return nil
	}
	h.closed = true
	delete(h.Process.k.handles, h.fd)
	h.Process.k.v.CloseFD(h.fd)
	return nil
}

func (k *Kernel) reap(p *Process) {
	if p.reaped {
		k.fail("%d (%s) is reaped twice", p.Pid, p.Instance)
		return
	}
	p.reaped = true
	k.reaped++
	k.byPid[p.Pid] = nil
	k.zombies = slices.DeleteFunc(k.zombies, func(z *Process) bool { return z == p })
}

// A ProcessCount counts the live processes of an instance: main processes, and others.
type ProcessCount struct{ Main, Others int }

// count adds by to the count of live processes.
func (k *Kernel) count(p *Process, by int) {
	c := k.CountOf(p.Instance)
	if p.Role == RoleMain {
		c.Main += by
	} else {
		c.Others += by
	}
}

// CountOf returns the count of an instance, always the same pointer.
func (k *Kernel) CountOf(instance string) *ProcessCount {
	c := k.counts[instance]
	if c == nil {
		c = &ProcessCount{}
		k.counts[instance] = c
	}
	return c
}

// CountLiving returns the numbers of live processes of an instance.
func (k *Kernel) CountLiving(instance string) (main, others int) {
	if c := k.counts[instance]; c != nil {
		return c.Main, c.Others
	}
	return 0, 0
}

func (p *Process) id() pidfd.Identity {
	return pidfd.Identity{Pid: p.Pid, Start: p.start, Inode: p.start}
}

// ReapForeign reaps a process that is not superd's child.
func (k *Kernel) ReapForeign(p *Process) {
	if p.reaped {
		return
	}
	k.reap(p)
	k.endedAt[p.Pid] = k.v.Now()
	for _, h := range p.handles {
		if !h.closed {
			k.v.SetReady(h.fd, loop.Readable|loop.Hangup)
		}
	}
	if k.Keeper && p.parent == nil && p.Role.Spawned() {
		e := host.StoredExit{Pid: p.Pid, Start: p.start, Exit: p.Exit}
		k.exits = append(k.exits, e)
		k.session.After(k.upTo(20*time.Millisecond), func() { k.ReportExit(e) })
	}
}
