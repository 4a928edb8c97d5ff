package procs

import (
	"syscall"
	"time"

	"superd/loop"
	"superd/procs/host"
)

// A simSpawn is a spawn under way.
type simSpawn struct {
	k           *simKernel
	committed   bool
	committedAt time.Duration
	hangs       bool
	hung        *simProcess // child that hangs before its exec; nil: none
	timer       *loop.Timer
}

func (s *simSpawn) Stage() string { return "open executable /sim" }
func (s *simSpawn) Queued() bool  { return s.hangs && s.k.queued }

// Child implements [host.PendingSpawn].
func (s *simSpawn) Child() int {
	if s.hung == nil || s.hung.reaped {
		return 0
	}
	return s.hung.pid
}

// Cancel implements [host.PendingSpawn].
func (s *simSpawn) Cancel(returned func()) bool {
	switch {
	case s.committed:
		if s.hung != nil && !s.k.noKillBeforeExec {
			h := s.hung.open()
			h.Signal(syscall.SIGKILL)
			h.Close()
		}
		return false
	case s.hangs && !s.k.queued:
		s.k.session.After(s.k.upTo(time.Hour), returned)
	default:
		s.timer.Stop()
		s.k.session.Post(returned)
	}
	return true
}

// Spawn implements [host.Host].
func (k *simKernel) Spawn(spec *host.SpawnSpec, done func(host.Child, error)) host.PendingSpawn {
	k.onSpawn(spec)
	s := &simSpawn{k: k, hangs: k.chance(k.mix.spawnHangs)}
	if s.hangs {
		k.logf("spawn of %s hangs", spec.Name)
		return s
	}
	var fault *host.SpawnError
	run, _ := spec.Own.Get("SUPERD_INVOCATION_ID")
	switch {
	case !k.chance(k.mix.spawnFails):
	case k.chance(k.mix.shortage):
		fault = &host.SpawnError{Stage: "execute", Err: syscall.EAGAIN, Fault: host.FaultResource}
	default:
		fault = &host.SpawnError{Stage: "open executable", Err: syscall.ENOENT, Fault: host.FaultProgram}
	}
	role := roleMain
	switch spec.Program.Command[0] {
	default:
		k.definitions[run] = spec.Program
	case simHook:
		role = roleHook
	case simAfterHook:
		role = roleAfterHook
	case simProbe:
		role = roleProbe
	}
	commit := func() {
		s.committed, s.committedAt = true, k.v.Now()
		if err := k.logIntent(spec); err != nil && fault == nil {
			fault = &host.SpawnError{Stage: "record the start", Err: err, Fault: host.FaultResource}
		}
	}
	delay := k.upTo(k.mix.slowSpawn)
	if role == roleMain && spec.Program.Scheduled() && k.chance(k.mix.startLoggedEarly) {
		commit()
		delay = 0
	}
	s.timer = k.session.After(delay, func() {
		if !s.committed {
			commit()
		}
		if fault != nil {
			k.logf("spawn of %s fails: %v", spec.Name, fault)
			k.session.Post(func() {
				if role != roleAfterHook && role != roleProbe && fault.Fault == host.FaultResource {
					k.shortages[run] = true
				}
				done(host.Child{NotifyFD: -1, ReadyFD: -1}, fault)
			})
			return
		}
		k.fork(s, spec, run, role, done)
	})
	return s
}

// fork does what a worker does after the point at which a spawn can't be cancelled.
func (k *simKernel) fork(s *simSpawn, spec *host.SpawnSpec, run string, role simRole, done func(host.Child, error)) {
	if k.reapWaitsForForks && k.pendingSweep != nil {
		k.session.After(10*time.Millisecond, func() { k.fork(s, spec, run, role, done) })
		return
	}
	k.forks++
	k.session.After(k.upTo(k.mix.forkTime), func() {
		hangs := k.chance(k.mix.execHangs)
		p := k.registerSpawned(spec.Tree.(*simTree).instance, run, role)
		p.resultPending = true
		if role == roleMain {
			k.mainsStarted[spec.Name]++
		}
		if !hangs {
			p.execute(spec)
			k.session.After(k.upTo(k.mix.forkTime), func() { k.executed(p, spec, done) })
			return
		}
		k.logf("%d of %s hangs before its exec", p.pid, spec.Name)
		p.stopActivity()
		s.hung = p
		p.atEnd = func() { // its worker reaps it
			s.hung = nil
			k.session.After(k.upTo(time.Millisecond), func() {
				k.reap(p)
				done(host.Child{NotifyFD: -1, ReadyFD: -1}, &host.SpawnError{Stage: "execute", Err: syscall.ETIMEDOUT, Killed: true})
				k.resultTaken(p)
			})
		}
		p.scope.After(10*time.Minute, func() {
			if s.hung == nil || p.dying {
				return
			}
			s.hung, p.atEnd = nil, nil
			p.execute(spec)
			k.executed(p, spec, done)
		})
	})
}

// execute starts the activity of the program.
func (p *simProcess) execute(spec *host.SpawnSpec) {
	if p.role != roleMain {
		return
	}
	p.watchdog = spec.Program.Watchdog
	p.endScheduledRun(spec.Program)
	p.notifies = spec.NotifySocket != ""
	p.becomeReady()
	p.scheduleHandover()
}

// executed does what a worker does when the child runs the program.
func (k *simKernel) executed(p *simProcess, spec *host.SpawnSpec, done func(host.Child, error)) {
	if !k.noStartRecords && spec.LogSpawned != nil {
		spec.LogSpawned(p.id(), k.v.Now())
	}
	late := time.Millisecond
	switch {
	case k.mix.noResult:
		late = 10 * time.Minute
	case k.chance(0.1):
		late = max(k.mix.lateResult, 200*time.Millisecond)
	}
	k.session.After(k.upTo(late), func() {
		p.began = k.v.Now()
		if p.role == roleMain {
			k.mains[p.run] = p
		}
		notifyFD, readyFD := k.openNotifyFDs(p.run, spec.NotifySocket != "", spec.ReadyFD != 0)
		done(host.Child{Process: p.open(), ID: p.id(), NotifyFD: notifyFD, ReadyFD: readyFD}, nil)
		k.resultTaken(p)
	})
}

// resultTaken records that the loop has the result of a spawn. It resumes a reaping that stopped at
// the child.
func (k *simKernel) resultTaken(p *simProcess) {
	p.resultPending = false
	k.forks--
	if sweep := k.pendingSweep; sweep != nil && (!k.reapWaitsForForks || k.forks == 0) {
		k.ReapOrphans(sweep)
	}
}

func (k *simKernel) logIntent(spec *host.SpawnSpec) error {
	if k.noStartRecords || spec.LogIntent == nil {
		return nil
	}
	return spec.LogIntent(uint64(k.spawned))
}

// Commands of the hooks before and after a run, and of checks.
const (
	simHook      = "/hook"
	simAfterHook = "/after"
	simProbe     = "/probe"
)
