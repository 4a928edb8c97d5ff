package procs

import (
	"errors"
	"strings"
	"time"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/notify"
	"superd/procs/probe"
)

// A simSocket is how a run notifies superd: its notify socket and its readiness pipe.
type simSocket struct {
	run          string
	messages     []notify.Message // unread messages
	newline      bool             // whether the pipe has a newline
	readMessages func()           // lets superd read the messages; nil without a listener
	readPipe     func()           // lets superd read the pipe; nil without a reader
	// Whether messages were lost with superd, as the socket was not stored
	lost bool
	// Largest number of messages that superd had to read before a decision about the run
	maxAwaited int
}

// maxDelay bounds the delay of a decision that waits for messages: each may have to wait until its
// effects are in the journal.
func (s *simSocket) maxDelay() time.Duration { return simMaxDelay * time.Duration(1+s.maxAwaited) }

// A simListener listens on a socket.
type simListener struct {
	k           *simKernel
	socket      *simSocket
	scope       *loop.Scope
	h           notify.Handler
	savePending bool // the effects of the first message are not in the journal yet
	waits       []simWait
}

// A simWait waits for the messages that were in the socket when it began.
type simWait struct {
	remaining int
	f         func()
}

// simMaxDelay bounds how late something may happen in the simulation.
const simMaxDelay = 5 * time.Second

// socketOf returns the socket and pipe of a run.
func (k *simKernel) socketOf(run string) *simSocket {
	s := k.sockets[run]
	if s == nil {
		s = &simSocket{run: run}
		k.sockets[run] = s
	}
	return s
}

// openNotifyFDs opens descriptors for the socket and the pipe of a run.
func (k *simKernel) openNotifyFDs(run string, notify, ready bool) (notifyFD, readyFD int) {
	notifyFD, readyFD = -1, -1
	if notify {
		notifyFD = k.v.NewFD()
		k.notifyFDs[notifyFD] = k.socketOf(run)
	}
	if ready {
		readyFD = k.v.NewFD()
		k.notifyFDs[readyFD] = k.socketOf(run)
	}
	return notifyFD, readyFD
}

// Listen implements [host.Host].
func (k *simKernel) Listen(scope *loop.Scope, fd int, h notify.Handler) (host.Listener, error) {
	l := &simListener{k: k, socket: k.notifyFDs[fd], scope: scope, h: h}
	scope.Defer(func() {
		l.socket.readMessages = nil
		k.CloseFD(fd)
	})
	l.socket.readMessages = func() { scope.Post(l.read) }
	l.socket.readMessages()
	return l, nil
}

// WhenTaken implements [host.Listener].
func (l *simListener) WhenTaken(f func()) {
	there := len(l.socket.messages)
	l.socket.maxAwaited = max(l.socket.maxAwaited, there)
	l.waits = append(l.waits, simWait{there, f})
	l.read()
}

func (l *simListener) read() {
	for len(l.socket.messages) > 0 && !l.savePending && !l.scope.Closed() {
		m := l.socket.messages[0]
		if m.MainPID != 0 {
			l.k.mainAnnounced(l.socket.run, m.MainPID)
			if l.k.ignoresMainPID {
				m.MainPID = 0
			}
		}
		if !l.h.Message(notify.Sender{}, m) || l.k.dropsUnsaved {
			l.drop()
			continue
		}
		l.savePending = true
		l.h.WhenRecorded(func() {
			if !l.scope.Closed() {
				l.savePending = false
				l.drop()
				l.read()
			}
		})
	}
	l.callWaits()
}

// drop removes the first message from the socket.
func (l *simListener) drop() {
	l.socket.messages = l.socket.messages[1:]
	for i := range l.waits {
		l.waits[i].remaining--
	}
	l.callWaits()
}

// callWaits calls the waits whose messages are read.
func (l *simListener) callWaits() {
	for len(l.waits) > 0 && l.waits[0].remaining <= 0 && !l.scope.Closed() {
		first := l.waits[0]
		l.waits = l.waits[1:]
		first.f()
	}
}

// AwaitNewline implements [host.Host].
func (k *simKernel) AwaitNewline(scope *loop.Scope, fd int, done func(error)) error {
	socket, own := k.notifyFDs[fd], scope.Child()
	own.Defer(func() {
		socket.readPipe = nil
		k.CloseFD(fd)
	})
	look := func() {
		if socket.newline {
			own.Close()
			done(nil)
		}
	}
	socket.readPipe = func() { own.Post(look) }
	socket.readPipe()
	return nil
}

// BoundsMaxRSS implements [host.Host]. The simulated superd has 1 MiB.
func (k *simKernel) BoundsMaxRSS(child int64) bool { return child <= 1<<20 }

// RemoveNames implements [host.Host].
func (k *simKernel) RemoveNames([]string) {}

// RemoveOtherNames implements [host.Host].
func (k *simKernel) RemoveOtherNames(dirs, keep []string) {}

func (k *simKernel) CloseFD(fd int) {
	if fd >= 0 {
		delete(k.notifyFDs, fd)
		k.v.CloseFD(fd)
	}
}

// Nowhere implements [host.Host].
func (k *simKernel) Nowhere() (int, error) { return -1, nil }

// Open implements [host.Host].
func (k *simKernel) Open(tree host.Tree, pid int) (host.Process, pidfd.Identity, error) {
	p := k.byPid[pid]
	if p == nil || !tree.Has(pid) && !k.anyMain {
		return nil, pidfd.Identity{}, pidfd.ErrGone
	}
	return p.open(), p.id(), nil
}

// A simChecker checks the program whose name is the address.
type simChecker struct {
	k        *simKernel
	instance string
}

// CheckTCP implements [host.Host].
func (k *simKernel) CheckTCP(address string) probe.Checker { return &simChecker{k, address} }

// CheckHTTP implements [host.Host].
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
	k.session.After(k.upTo(100*time.Millisecond), func() { answer(k.checkResult(c.instance)) })
	return func() bool { answer(errors.New("stopped")); return true }
}

// sleep suspends the machine: checks under way lose their connections.
func (k *simKernel) sleep() {
	for _, key := range sortedKeys(k.checking) {
		k.checking[key](errors.New("connection timed out"))
	}
}

var errSimRefused = errors.New("connection refused")

// checkResult returns the result of a check of an instance, or of a program whose replicas share
// one address.
func (k *simKernel) checkResult(name string) error {
	for _, p := range k.byPid {
		if (p.instance == name || strings.HasPrefix(p.instance, name+"@")) && p.serves() && !p.zombie && p.readyAt != 0 && !p.unhealthy && !p.busy {
			return nil
		}
	}
	return errSimRefused
}

// becomeReady makes a main process ready after a random time, and unhealthy later, by the mix.
func (p *simProcess) becomeReady() {
	k := p.k
	if p.readyAt != 0 || k.chance(k.mix.neverReady) {
		return
	}
	p.scope.After(k.upTo(k.mix.slowReady), func() {
		if p.readyAt != 0 { // another process of the service was faster
			return
		}
		p.readyAt = k.v.Now()
		k.logf("%s (%d) is ready", p.instance, p.pid)
		s := k.socketOf(p.run)
		if s.newline = true; s.readPipe != nil {
			s.readPipe()
		}
		p.notify(notify.Message{Ready: true, HasStatus: true, Status: "up"})
		if k.chance(k.mix.unhealthy) {
			p.scope.After(k.upTo(5*time.Minute), func() {
				k.logf("%s (%d) becomes unhealthy", p.instance, p.pid)
				p.unhealthy, p.unhealthySince = true, k.v.Now()
				if k.chance(0.5) {
					p.scope.After(k.upTo(5*time.Minute), func() { p.unhealthy = false })
				}
			})
		}
		if k.chance(k.mix.reloads) {
			p.scope.After(k.upTo(30*time.Second), func() {
				p.reload()
			})
		}
		p.ping()
	})
}

// reload makes the process reload its configuration, if it has a notify socket and superd listens.
func (p *simProcess) reload() {
	k := p.k
	p.notify(notify.Message{Reloading: true})
	if s := k.socketOf(p.run); s.readMessages != nil && k.isRunning(p.instance) {
		p.busy, p.busyAt = true, k.v.Now()
	}
	over := func() { p.busy = false }
	if k.chance(0.7) {
		p.scope.After(k.upTo(10*time.Second), func() {
			over()
			p.notify(notify.Message{Ready: true})
		})
		return
	}
	p.scope.After(10*time.Minute, over)
}

// ping sends watchdog pings while the process is healthy.
func (p *simProcess) ping() {
	if p.watchdog == 0 || p.readyAt == 0 {
		return
	}
	if !p.unhealthy {
		p.pingedAt = p.k.v.Now()
		p.notify(notify.Message{Watchdog: true})
	}
	p.scope.After(p.watchdog/2, p.ping)
}

func (p *simProcess) notify(m notify.Message) {
	s := p.k.socketOf(p.run)
	s.messages = append(s.messages, m)
	if s.readMessages != nil {
		s.readMessages()
	}
}

// drawChecks draws readiness, health checks and watchdog of the program.
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
		if h.kernel.mix.reloads > 0 { // several may fail during a reload of the program
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

// checkReady checks that a run is ready if and only if its main process is, and that it is ended as
// not ready, unhealthy or hanging only with good reason.
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
	switch in.machine.State() {
	case fsm.Running:
		// A reload may have changed the kind of readiness after the instance was ready. Numbered
		// instances share one address.
		if ready := r.program.Ready; ready != nil && p.readyAt == 0 && (reportsReadiness(ready) || !numbered(in.name)) && h.reloadedAt < p.began {
			h.fail("%s is running, and its process was never ready", in.name)
		}
	case fsm.Starting:
		if late := now - max(p.began, h.sup.startedAt, h.reloadedAt); late > r.program.StartTimeout+h.kernel.socketOf(p.run).maxDelay() {
			h.fail("%s is starting for %v, start time-out %v", in.name, late, r.program.StartTimeout)
		}
	}
	if in.machine.State() == fsm.Running && model.state == fsm.Running {
		h.checkUnhealthy(in, r, p, model)
	}
	if in.machine.FailureReason().Kind != fsm.ReasonNone && !model.runFailed {
		model.runFailed = true
		h.checkFailureReason(in, r, p)
	}
}

// reportsReadiness reports whether a program itself reports its readiness; otherwise superd checks
// it.
func reportsReadiness(ready *config.Ready) bool { return ready.Notify || ready.FD != 0 }

// checkUnhealthy checks that superd ends an unhealthy process as soon as its checks or its watchdog
// can tell.
func (h *history) checkUnhealthy(in *instance, r *run, p *simProcess, model *model) {
	if !p.unhealthy || r.reloadTimer != nil || r.ownStopTimer != nil || p.readyAt == 0 {
		return
	}
	unhealthyFor := h.v.Now() - max(p.unhealthySince, h.sup.startedAt, h.reloadedAt, r.reloadedAt, model.stateAt)
	if health := r.program.Health; health != nil && health.Action == config.HealthRestart && !h.commandMayFail(in) && !strings.Contains(in.name, "@") {
		// One check may just have passed. Each may be a tenth of the interval late and take
		// its time-out.
		if most := time.Duration(health.Failures+1)*(health.Interval*11/10+health.Timeout) + simMaxDelay; unhealthyFor > most {
			h.fail("%s is unhealthy for %v and is not ended, limit %d failures", in.name, unhealthyFor, health.Failures)
		}
	}
	if p.watchdog > 0 && unhealthyFor > p.watchdog+h.kernel.socketOf(p.run).maxDelay() {
		h.fail("%s hangs for %v and is not ended, watchdog %v", in.name, unhealthyFor, p.watchdog)
	}
}

// checkFailureReason checks that the reason for which superd ends a run is true.
func (h *history) checkFailureReason(in *instance, r *run, p *simProcess) {
	now, failureReason := h.v.Now(), in.machine.FailureReason()
	switch failureReason.Kind {
	case fsm.ReasonStartTimeout:
		ready, socket := r.program.Ready, h.kernel.socketOf(p.run)
		if ready != nil && reportsReadiness(ready) && p.readyAt != 0 && now-p.readyAt > socket.maxDelay()+2*ready.Interval && !socket.lost {
			h.fail("%s was ended as not ready, and is ready for %v", in.name, now-p.readyAt)
		}
		if now-p.began < r.program.StartTimeout-simMaxDelay {
			h.fail("%s was ended as not ready after only %v", in.name, now-p.began)
		}
	case fsm.ReasonUnhealthy:
		command := r.program.Health == nil || r.program.Health.Exec != nil
		if p.unhealthySince == 0 && p.readyAt != 0 && now-p.readyAt > 5*time.Minute && !p.busy && !h.checksMayHang && !(command && h.commandMayFail(in)) {
			h.fail("%s was ended as unhealthy, and never was: %s", in.name, failureReason)
		}
		lost := h.kernel.socketOf(p.run).lost
		if health := r.program.Health; health != nil && health.TCP != "" && !h.checksMayHang && p.unhealthySince == 0 && p.readyAt != 0 && !lost {
			// Checks begun before it was ready, or during its reload, have a result
			// by now.
			resultsDue := now > p.readyAt+health.Timeout+simMaxDelay
			if resultsDue && p.busy && now < p.busyAt+r.program.StartTimeout-simMaxDelay {
				h.fail("%s was ended as unhealthy during its reload", in.name)
			}
			if resultsDue && !p.busy {
				h.fail("%s was ended as unhealthy, and is healthy: %s", in.name, failureReason)
			}
		}
	case fsm.ReasonWatchdogTimeout:
		// Unsaved messages delay the time-out: a ping after the deadline is too late
		age := now - p.pingedAt
		if p.unhealthySince == 0 && age < p.watchdog && age > h.kernel.socketOf(p.run).maxDelay() {
			h.fail("%s was ended by its watchdog, pinged %v ago", in.name, age)
		}
	default:
		h.fail("%s ended: %s", in.name, failureReason)
	}
}

// commandMayFail reports whether exec checks of the instance may fail though it is healthy: in a
// resource shortage, or because an unkillable child of one delays the next.
func (h *history) commandMayFail(in *instance) bool {
	for _, p := range h.kernel.byPid {
		if p.instance == in.name+host.ProbeSuffix && p.unkillable {
			return true
		}
	}
	return h.commandsMayFail
}

// affectsCommands reports whether the faults can let exec checks fail.
func (m faultMix) affectsCommands() bool {
	return m.spawnFails > 0 || m.execHangs > 0 || m.spawnHangs > 0 || m.lateResult > 0 || m.slowSpawn > 0 || m.unkillable > 0 || m.watchFails > 0 || m.forkTime > 0
}
