package procs

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

// A simProcess is one process.
type simProcess struct {
	k           *simKernel
	instance    string
	run         string // invocation ID
	role        simRole
	pid         int
	start       uint64
	zombie      bool
	reaped      bool
	exit        pidfd.Exit
	dying       bool // it got SIGKILL
	dyingAt     time.Duration
	endedAt     time.Duration // when it became a zombie
	ignoresStop bool
	unkillable  bool
	reparented  bool          // whether it is not superd's child any more
	exitInfo    bool          // whether the kernel reports its exit status after the reaping
	notifies    bool          // whether it has a notify socket
	mainAt      time.Duration // when it became the main process in place of another
	parent      *simProcess   // live parent of a successor
	isSuccessor bool          // whether it is a successor, which leads no group
	children    []*simProcess // its successors
	// Whether superd spawned it and the loop does not have the result yet
	resultPending bool
	atEnd         func() // called at its end; may be nil
	scope         *loop.Scope
	*simService
	handles []*simHandle
}

type simRole uint8

const (
	roleMain simRole = iota
	roleHook
	roleAfterHook
	roleEscaped   // a descendant that has left its group
	roleOrphan    // an unknown child of superd
	roleProbe     // of an exec check
	roleSuccessor // of a main process that hands over to it
)

// child reports whether superd spawned it.
func (r simRole) child() bool { return r <= roleAfterHook || r == roleProbe }

// A simHandle is a pidfd: the process as superd sees it.
type simHandle struct {
	p      *simProcess
	fd     int
	closed bool
}

// registerSpawned creates a process with the lowest free pid, so that pids are soon reused.
func (k *simKernel) registerSpawned(instance, run string, role simRole) *simProcess {
	pid := 2
	for k.byPid[pid] != nil {
		pid++
	}
	if role.child() && role != roleProbe {
		for _, other := range k.byPid {
			twice := role == roleMain && other.role == roleMain
			if !other.zombie && other.role == roleMain && role == roleMain && config.ProgramOf(other.instance) == config.ProgramOf(instance) && numbered(other.instance) != numbered(instance) {
				k.fail("%s is started as %d while %d of %s is alive", instance, pid, other.pid, other.instance)
			}
			if other.instance == instance && !other.zombie && (twice || other.run != run && !k.spares(instance)) {
				k.fail("%s is started as %d while its process %d is alive", instance, pid, other.pid)
			}
		}
	}
	k.spawned++
	p := &simProcess{
		k: k, instance: instance, run: run, role: role, pid: pid, start: uint64(k.spawned),
		ignoresStop: k.chance(k.mix.ignoresStop), unkillable: k.chance(k.mix.unkillable),
		scope: k.v.Root().Child(), simService: &simService{}, exitInfo: k.chance(k.mix.exitInfo),
	}
	k.byPid[pid], k.byStart[p.start] = p, p
	k.count(p, 1)
	k.logf("%s starts as %d (role %d, deaf %v, immortal %v)", instance, pid, role, p.ignoresStop, p.unkillable)
	switch role {
	case roleProbe:
		if !k.chance(k.mix.checkHangs) {
			exit := pidfd.Exit{Known: true}
			if k.checkResult(strings.TrimSuffix(instance, host.ProbeSuffix)) != nil {
				exit.Code = 1
			}
			p.scope.After(k.upTo(50*time.Millisecond), func() { p.end(exit) })
		}
	case roleHook, roleAfterHook:
		if !k.chance(k.mix.hookHangs) {
			exit := pidfd.Exit{Known: true}
			if k.chance(k.mix.hookFails) {
				exit.Code = 1
			}
			p.scope.After(k.upTo(max(k.mix.hookTime, 50*time.Millisecond)), func() { p.end(exit) })
		}
	case roleMain, roleSuccessor:
		if k.chance(k.mix.crash) {
			exit := pidfd.Exit{Known: true, Code: k.rng.IntN(3)}
			if k.chance(0.3) {
				exit = pidfd.Exit{Known: true, Signal: syscall.SIGSEGV}
			}
			p.scope.After(time.Duration(k.rng.ExpFloat64()*float64(k.mix.lifetime)), func() { p.end(exit) })
		}
	}
	if role != roleOrphan && k.chance(k.mix.forks) {
		p.scope.After(k.upTo(100*time.Millisecond), func() { k.registerSpawned(instance, run, roleEscaped).reparented = p.reparented })
	}
	return p
}

// end makes p a zombie. An escaped process has lost its parent and is superd's child by then.
func (p *simProcess) end(exit pidfd.Exit) {
	k := p.k
	if p.zombie {
		return
	}
	k.logf("%s (%d) ends: %v", p.instance, p.pid, exit)
	p.zombie, p.exit, p.endedAt, k.endedAt[p.pid] = true, exit, k.v.Now(), k.v.Now()
	k.count(p, -1)
	p.scope.Close()
	p.orphanChildren()
	if p.atEnd != nil {
		p.atEnd()
	}
	if p.reparented {
		late := 10 * time.Millisecond
		if k.chance(k.mix.slowReap) {
			late = 3 * time.Second
		}
		k.v.Root().After(k.upTo(late), func() { k.reapForeign(p) })
	} else {
		k.zombies = append(k.zombies, p)
	}
	for _, h := range p.handles {
		if !h.closed {
			k.v.SetReady(h.fd, loop.Readable)
		}
	}
	if p.role == roleHook || p.role == roleAfterHook {
		k.hookEnds++
	}
	if p.reparented {
		return
	}
	if p.role != roleOrphan && k.chance(k.mix.orphans) {
		k.registerSpawned("", "", roleOrphan).end(pidfd.Exit{Known: true})
	}
	k.v.Root().After(k.upTo(10*time.Millisecond), k.sigchld)
}

// stopActivity cancels all that the process would do by itself.
func (p *simProcess) stopActivity() {
	p.scope.Close()
	p.scope = p.k.v.Root().Child()
}

func (p *simProcess) open() *simHandle {
	h := &simHandle{p: p, fd: p.k.v.NewFD()}
	p.handles = append(p.handles, h)
	if p.k.chance(p.k.mix.watchFails) {
		p.k.v.RefuseWatch(h.fd)
	}
	if p.zombie {
		p.k.v.SetReady(h.fd, loop.Readable)
	}
	return h
}

// finished reports whether the process has ended and superd does not need it any more.
func (p *simProcess) finished() bool {
	has := func(h *simHandle) bool { return !h.closed }
	return p.reaped || p.zombie && !slices.ContainsFunc(p.handles, has)
}

func (h *simHandle) Pid() int { return h.p.pid }
func (h *simHandle) FD() int  { return h.fd }

// Signal implements [host.Process].
func (h *simHandle) Signal(sig syscall.Signal) error { return h.signal(sig, false) }

func (h *simHandle) signal(sig syscall.Signal, group bool) error {
	p, k := h.p, h.p.k
	k.checkStop(p, sig, group)
	switch {
	case h.closed:
		k.fail("%v for %s is sent by pidfd %d, which is closed", sig, p.instance, h.fd)
	case p.reaped:
		return fmt.Errorf("signal: %w", pidfd.ErrGone)
	case p.zombie || p.dying:
	case sig == syscall.SIGKILL && p.unkillable:
		p.dying, p.dyingAt = true, k.v.Now()
		p.scope.After(time.Minute+k.upTo(10*time.Minute), func() { p.end(pidfd.Exit{Known: true, Signal: sig}) })
	case sig == syscall.SIGKILL:
		p.dying, p.dyingAt = true, k.v.Now()
		p.scope.After(k.upTo(5*time.Millisecond), func() { p.end(pidfd.Exit{Known: true, Signal: sig}) })
	case sig == syscall.SIGTERM && !p.ignoresStop:
		delay := time.Duration(0)
		if k.chance(k.mix.slowStop) {
			delay = k.upTo(12 * time.Second)
		}
		p.scope.After(delay, func() { p.end(pidfd.Exit{Known: true, Signal: sig}) })
	}
	return nil
}

// SignalGroup implements [host.Process]: each process is alone in its group, except for successors.
func (h *simHandle) SignalGroup(sig syscall.Signal) error {
	if h.p.isSuccessor {
		return fmt.Errorf("signal: %w", pidfd.ErrGone)
	}
	return h.signal(sig, true)
}

// Wait implements [host.Process].
func (h *simHandle) Wait() (pidfd.Exit, bool, error) {
	switch p := h.p; {
	case h.closed:
		p.k.fail("wait for %s uses pidfd %d, which is closed", p.instance, h.fd)
	case p.reparented:
		return pidfd.Exit{}, false, pidfd.ErrNotChild
	case !p.zombie:
		return pidfd.Exit{}, false, nil
	case !p.reaped:
		p.k.reap(p)
	}
	return h.p.exit, true, nil
}

// Ended implements [host.Process].
func (h *simHandle) Ended() bool { return h.p.zombie || h.p.reaped }

// ExitInfo implements [host.Process].
func (h *simHandle) ExitInfo() (pidfd.Exit, bool, error) {
	switch p := h.p; {
	case !p.reaped:
		return pidfd.Exit{}, false, nil
	case p.k.inventsExits:
		return pidfd.Exit{Known: true}, true, nil
	case !p.exitInfo:
		return pidfd.Exit{}, false, pidfd.ErrUnsupported
	}
	return h.p.exit, true, nil
}

// Close implements [host.Process].
func (h *simHandle) Close() error {
	if h.closed {
		h.p.k.fail("pidfd %d of %s is closed twice", h.fd, h.p.instance)
		return nil
	}
	h.closed = true
	h.p.k.v.CloseFD(h.fd)
	return nil
}

func (k *simKernel) reap(p *simProcess) {
	if p.reaped {
		k.fail("%d (%s) is reaped twice", p.pid, p.instance)
		return
	}
	p.reaped = true
	k.reaped++
	delete(k.byPid, p.pid)
	k.zombies = slices.DeleteFunc(k.zombies, func(z *simProcess) bool { return z == p })
}

// A processCount counts the live processes of an instance.
type processCount struct{ main, others int }

// count adds by to the count of live processes.
func (k *simKernel) count(p *simProcess, by int) {
	c := k.countOf(p.instance)
	if p.role == roleMain {
		c.main += by
	} else {
		c.others += by
	}
}

// countOf returns the count of an instance, always the same pointer.
func (k *simKernel) countOf(instance string) *processCount {
	c := k.counts[instance]
	if c == nil {
		c = &processCount{}
		k.counts[instance] = c
	}
	return c
}

// countLiving returns the numbers of live processes of an instance.
func (k *simKernel) countLiving(instance string) (main, others int) {
	if c := k.counts[instance]; c != nil {
		return c.main, c.others
	}
	return 0, 0
}

func (p *simProcess) id() pidfd.Identity {
	return pidfd.Identity{Pid: p.pid, Start: p.start, Inode: p.start}
}

// reapForeign reaps a process that is not superd's child.
func (k *simKernel) reapForeign(p *simProcess) {
	if p.reaped {
		return
	}
	k.reap(p)
	k.endedAt[p.pid] = k.v.Now()
	for _, h := range p.handles {
		if !h.closed {
			k.v.SetReady(h.fd, loop.Readable|loop.Hangup)
		}
	}
	if k.keeper && p.parent == nil && p.role.child() {
		e := host.StoredExit{Pid: p.pid, Start: p.start, Exit: p.exit}
		k.exits = append(k.exits, e)
		k.session.After(k.upTo(20*time.Millisecond), func() { k.reportExit(e) })
	}
}
