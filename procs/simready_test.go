package procs

import (
	"errors"
	"strings"
	"time"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/notify"
	"superd/procs/probe"
)

// A simSocket is what a run tells superd by: its notify socket, and the pipe for its readiness.
type simSocket struct {
	run      string
	messages []notify.Message // not taken out yet
	newline  bool             // was written to the pipe
	heard    func()           // has superd look at the messages; nil while nobody listens
	written  func()           // has it look at the pipe; nil while nobody does
	lost     bool             // something of it was lost with superd, since nobody kept it
}

// A simListener hears a socket.
type simListener struct {
	k      *simKernel
	socket *simSocket
	scope  *loop.Scope
	h      notify.Handler
	held   bool
	waits  []func() // until all is taken
}

// simWaits is how much longer than it should something may take in the simulation.
const simWaits = 5 * time.Second

// socketOf returns what the run tells superd by.
func (k *simKernel) socketOf(run string) *simSocket {
	s := k.sockets[run]
	if s == nil {
		s = &simSocket{run: run}
		k.sockets[run] = s
	}
	return s
}

// openTold gives superd descriptors of what the run tells it by.
func (k *simKernel) openTold(run string, notify, ready bool) (notifyFD, readyFD int) {
	notifyFD, readyFD = -1, -1
	if notify {
		notifyFD = k.v.NewFD()
		k.told[notifyFD] = k.socketOf(run)
	}
	if ready {
		readyFD = k.v.NewFD()
		k.told[readyFD] = k.socketOf(run)
	}
	return notifyFD, readyFD
}

// Listen implements [System].
func (k *simKernel) Listen(scope *loop.Scope, fd int, h notify.Handler) (Listener, error) {
	l := &simListener{k: k, socket: k.told[fd], scope: scope, h: h}
	scope.Defer(func() {
		l.socket.heard = nil
		k.CloseFD(fd)
	})
	l.socket.heard = func() { scope.Post(l.take) }
	l.socket.heard()
	return l, nil
}

// WhenTaken implements [Listener].
func (l *simListener) WhenTaken(f func()) {
	l.waits = append(l.waits, f)
	l.take()
}

func (l *simListener) take() {
	for len(l.socket.messages) > 0 && !l.held && !l.scope.Closed() {
		m := l.socket.messages[0]
		if m.MainPID != 0 {
			l.k.announced(l.socket.run, m.MainPID)
			if l.k.unheeding {
				m.MainPID = 0
			}
		}
		if !l.h.Message(notify.Sender{}, m) || l.k.unheld {
			l.socket.messages = l.socket.messages[1:]
			continue
		}
		l.held = true
		l.h.Settled(func() {
			if !l.scope.Closed() {
				l.held = false
				l.socket.messages = l.socket.messages[1:]
				l.take()
			}
		})
	}
	for len(l.waits) > 0 && !l.held && !l.scope.Closed() {
		first := l.waits[0]
		l.waits = l.waits[1:]
		first()
	}
}

// AwaitNewline implements [System].
func (k *simKernel) AwaitNewline(scope *loop.Scope, fd int, done func(error)) error {
	socket, own := k.told[fd], scope.Child()
	own.Defer(func() {
		socket.written = nil
		k.CloseFD(fd)
	})
	look := func() {
		if socket.newline {
			own.Close()
			done(nil)
		}
	}
	socket.written = func() { own.Post(look) }
	socket.written()
	return nil
}

// CloseFD implements [System].
func (k *simKernel) RemoveFIFOs([]string) {}

func (k *simKernel) CloseFD(fd int) {
	if fd >= 0 {
		delete(k.told, fd)
		k.v.CloseFD(fd)
	}
}

// Nowhere implements [System].
func (k *simKernel) Nowhere() (int, error) { return -1, nil }

// Open implements [System].
func (k *simKernel) Open(tree Tree, pid int) (Process, pidfd.Identity, error) {
	p := k.byPid[pid]
	if p == nil || !tree.Has(pid) && !k.unasked {
		return nil, pidfd.Identity{}, pidfd.ErrGone
	}
	return p.open(), p.id(), nil
}

// A simChecker asks the program whose name is the address.
type simChecker struct {
	k        *simKernel
	instance string
}

// CheckTCP implements [System].
func (k *simKernel) CheckTCP(address string) probe.Checker { return &simChecker{k, address} }

// CheckHTTP implements [System].
func (k *simKernel) CheckHTTP(address string) (probe.Checker, error) { return k.CheckTCP(address), nil }

// Check implements [probe.Checker].
func (c *simChecker) Check(done func(error)) (stop func() (begun bool)) {
	k := c.k
	k.checks++
	key := k.checks
	answer := func(err error) {
		if k.checking[key] != nil {
			delete(k.checking, key)
			k.session.Post(func() { done(err) })
		}
	}
	k.checking[key] = answer
	if k.chance(k.mix.checkHangs) {
		return func() bool { answer(errors.New("stopped")); return true }
	}
	k.session.After(k.upTo(100*time.Millisecond), func() { answer(k.answer(c.instance)) })
	return func() bool { answer(errors.New("stopped")); return true }
}

// sleep is the machine's: the connections of checks under way are lost.
func (k *simKernel) sleep() {
	for _, key := range sortedKeys(k.checking) {
		k.checking[key](errors.New("connection timed out"))
	}
}

var errSimRefused = errors.New("connection refused")

// answer is what a check finds of an instance, or of a program, whose replicas share what they answer on.
func (k *simKernel) answer(name string) error {
	for _, p := range k.byPid {
		if (p.instance == name || strings.HasPrefix(p.instance, name+"@")) && p.serves() && !p.zombie && p.wellAt != 0 && !p.sick && !p.busy {
			return nil
		}
	}
	return errSimRefused
}

// grow has a main process become ready, and fall ill, if it does.
func (p *simProcess) grow() {
	k := p.k
	if p.wellAt != 0 || k.chance(k.mix.neverReady) {
		return
	}
	p.alive.After(k.upTo(k.mix.slowReady), func() {
		if p.wellAt != 0 { // another one was faster
			return
		}
		p.wellAt = k.v.Now()
		k.note("%s (%d) is ready", p.instance, p.pid)
		s := k.socketOf(p.run)
		if s.newline = true; s.written != nil {
			s.written()
		}
		p.tell(notify.Message{Ready: true, HasStatus: true, Status: "up"})
		if k.chance(k.mix.sick) {
			p.alive.After(k.upTo(5*time.Minute), func() {
				k.note("%s (%d) falls ill", p.instance, p.pid)
				p.sick, p.sickAt = true, k.v.Now()
				if k.chance(0.5) {
					p.alive.After(k.upTo(5*time.Minute), func() { p.sick = false })
				}
			})
		}
		if k.chance(k.mix.reloads) {
			p.alive.After(k.upTo(30*time.Second), func() {
				p.reload()
			})
		}
		p.ping()
	})
}

// reload has the process read its configuration, if it can tell superd and superd listens.
func (p *simProcess) reload() {
	k := p.k
	p.tell(notify.Message{Reloading: true})
	if s := k.socketOf(p.run); s.heard != nil && k.runs(p.instance) {
		p.busy, p.busyAt = true, k.v.Now()
	}
	over := func() { p.busy, p.calmAt = false, k.v.Now() }
	if k.chance(0.7) {
		p.alive.After(k.upTo(10*time.Second), func() {
			over()
			p.tell(notify.Message{Ready: true})
		})
		return
	}
	p.alive.After(10*time.Minute, over)
}

// ping feeds the watchdog until the process is ill.
func (p *simProcess) ping() {
	if p.watchdog == 0 || p.wellAt == 0 {
		return
	}
	if !p.sick {
		p.fedAt = p.k.v.Now()
		p.tell(notify.Message{Watchdog: true})
	}
	p.alive.After(p.watchdog/2, p.ping)
}

func (p *simProcess) tell(m notify.Message) {
	s := p.k.socketOf(p.run)
	s.messages = append(s.messages, m)
	if s.heard != nil {
		s.heard()
	}
}

// drawChecks draws how the program tells that it is ready, and how it is looked after.
func (h *history) drawChecks(p *config.Program) {
	command := []string{simProbe}
	if p.Type != config.TypeOneshot && h.kernel.chance(0.4) {
		ready := &config.Ready{Interval: time.Second, Timeout: 2 * time.Second}
		switch h.rng.IntN(4) {
		case 0:
			ready.Notify = true
		case 1:
			ready.FD = 3
		case 2:
			ready.TCP = p.Name
		case 3:
			ready.Exec = command
		}
		p.Ready = ready
	}
	if h.kernel.chance(0.3) {
		p.Health = &config.Health{Interval: time.Minute, Timeout: 2 * time.Second, Failures: 1 + h.rng.IntN(3), Action: config.HealthRestart}
		if h.kernel.mix.reloads > 0 { // several may fail while it reads its configuration
			p.Health.Interval = 10 * time.Second
		}
		if h.kernel.chance(0.2) {
			p.Health.Action = config.HealthNone
		}
		if h.kernel.chance(0.5) {
			p.Health.Exec = command
		} else {
			p.Health.TCP = p.Name
		}
	}
	if h.kernel.chance(0.2) {
		p.Watchdog = time.Minute
	}
}

// checkReady holds that a run is ready when its main process is, and ends for its readiness or its health only if those lack.
func (h *history) checkReady(in *instance, model *model) {
	r, now := in.run, h.v.Now()
	if r == nil || r.process == nil {
		return
	}
	p := simProcessOf(r.process)
	if p == nil || p.role != roleMain || p.run != r.invocationID {
		p = h.kernel.mains[r.invocationID]
	}
	if p == nil {
		return
	}
	switch in.machine.state {
	case Running:
		// A reload may have told another kind of readiness to who was ready by then. Numbered ones share what they are asked on.
		if ready := r.program.Ready; ready != nil && p.wellAt == 0 && (told(ready) || !numbered(in.name)) && h.reloadedAt < p.began {
			h.fail("%s is running, and its process was never ready", in.name)
		}
	case Starting:
		if late := now - max(p.began, h.sup.startedAt, h.reloadedAt); late > r.program.StartTimeout+simWaits {
			h.fail("%s is starting for %v, start time-out %v", in.name, late, r.program.StartTimeout)
		}
	}
	if in.machine.state == Running && model.state == Running {
		h.checkIll(in, r, p, model)
	}
	if in.machine.blame != "" && !model.condemned {
		model.condemned = true
		h.checkBlame(in, r, p)
	}
}

// told reports whether a program tells itself that it is ready; else it is asked.
func told(ready *config.Ready) bool { return ready.Notify || ready.FD != 0 }

// checkIll holds that who is ill is not left running for longer than his checks, or his watchdog, take to notice.
func (h *history) checkIll(in *instance, r *run, p *simProcess, model *model) {
	if !p.sick || r.reloading != nil || r.leaving != nil || p.wellAt == 0 {
		return
	}
	ill := h.v.Now() - max(p.sickAt, h.sup.startedAt, h.reloadedAt, r.reloadedAt, model.stateAt)
	if health := r.program.Health; health != nil && health.Action == config.HealthRestart && !h.faulty(in) && !strings.Contains(in.name, "@") {
		// One check may have passed just before, and each may be late by a tenth and last until its time-out.
		if most := time.Duration(health.Failures+1)*(health.Interval*11/10+health.Timeout) + simWaits; ill > most {
			h.fail("%s is ill for %v and runs on, unhealthy after %d failures", in.name, ill, health.Failures)
		}
	}
	if p.watchdog > 0 && ill > p.watchdog+simWaits {
		h.fail("%s is ill for %v and runs on, watchdog %v", in.name, ill, p.watchdog)
	}
}

// checkBlame holds that superd has a reason for ending a run.
func (h *history) checkBlame(in *instance, r *run, p *simProcess) {
	now, blame := h.v.Now(), in.machine.blame
	switch {
	case strings.HasPrefix(blame, "not ready"):
		ready := r.program.Ready
		if ready != nil && told(ready) && p.wellAt != 0 && now-p.wellAt > simWaits+2*ready.Interval && !h.kernel.socketOf(p.run).lost {
			h.fail("%s ended since it was not ready; it is, for %v", in.name, now-p.wellAt)
		}
		if now-p.began < r.program.StartTimeout-simWaits {
			h.fail("%s ended since it was not ready after %v only", in.name, now-p.began)
		}
	case strings.HasPrefix(blame, "unhealthy"):
		command := r.program.Health == nil || r.program.Health.Exec != nil
		if p.sickAt == 0 && p.wellAt != 0 && now-p.wellAt > 5*time.Minute && !p.busy && !h.hangs && !(command && h.faulty(in)) {
			h.fail("%s ended as unhealthy, and was never ill: %s", in.name, blame)
		}
		lost := h.kernel.socketOf(p.run).lost
		if health := r.program.Health; health != nil && health.TCP != "" && !h.hangs && p.sickAt == 0 && p.wellAt != 0 && !lost {
			// What began before it was well, or while it read its configuration, has an answer by now.
			settled := now > p.wellAt+health.Timeout+simWaits
			if settled && p.busy && now < p.busyAt+r.program.StartTimeout-simWaits {
				h.fail("%s ended as unhealthy while it reads its configuration", in.name)
			}
			if settled && !p.busy {
				h.fail("%s ended as unhealthy, and answers: %s", in.name, blame)
			}
		}
	case strings.HasPrefix(blame, "watchdog"):
		if p.sickAt == 0 && now-p.fedAt < p.watchdog {
			h.fail("%s ended by its watchdog, and was fed %v ago", in.name, now-p.fedAt)
		}
	default:
		h.fail("%s ended: %s", in.name, blame)
	}
}

// faulty reports whether the instance's commands may fail for reasons of their own: they are short of something, or what one has brought forth
// doesn't die, and until it does no other is begun.
func (h *history) faulty(in *instance) bool {
	for _, p := range h.kernel.byPid {
		if p.instance == in.name+probeSuffix && p.immortal {
			return true
		}
	}
	return h.faults
}

// hitsCommands reports whether commands may fail for reasons of their own.
func (m faultMix) hitsCommands() bool {
	return m.spawnFails > 0 || m.execHangs > 0 || m.spawnHangs > 0 || m.lateResult > 0 || m.slowSpawn > 0 || m.immortal > 0 || m.watchFails > 0 || m.forkTime > 0
}
