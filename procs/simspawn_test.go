package procs

import (
	"syscall"
	"time"

	"superd/loop"
)

// simSpawn is a spawn under way.
type simSpawn struct {
	k           *simKernel
	committed   bool
	committedAt time.Duration
	hangs       bool
	timer       *loop.Timer
}

func (s *simSpawn) Stage() string { return "open executable /sim" }
func (s *simSpawn) Queued() bool  { return s.hangs && s.k.queued }

func (s *simSpawn) CallOff(returned func()) bool {
	switch {
	case s.committed:
		return false
	case s.hangs && !s.k.queued:
		s.k.session.After(s.k.upTo(time.Hour), returned)
	default:
		s.timer.Stop()
		s.k.session.Post(returned)
	}
	return true
}

// Spawn implements [System].
func (k *simKernel) Spawn(spec *SpawnSpec, done func(Child, error)) PendingSpawn {
	k.starts(spec)
	s := &simSpawn{k: k, hangs: k.chance(k.mix.spawnHangs)}
	if s.hangs {
		k.note("spawn of %s hangs", spec.Name)
		return s
	}
	var fault *SpawnError
	run, _ := spec.Own.Get("SUPERD_INVOCATION_ID")
	switch {
	case !k.chance(k.mix.spawnFails):
	case k.chance(k.mix.shortage):
		fault = &SpawnError{Stage: "execute", Err: syscall.EAGAIN, Fault: faultResource}
	default:
		fault = &SpawnError{Stage: "open executable", Err: syscall.ENOENT, Fault: faultProgram}
	}
	role := roleMain
	switch spec.Program.Command[0] {
	default:
		k.tables[run] = spec.Program
	case simHook:
		role = roleHook
	case simAfterHook:
		role = roleAfterHook
	case simProbe:
		role = roleProbe
	}
	s.timer = k.session.After(k.upTo(k.mix.slowSpawn), func() {
		s.committed, s.committedAt = true, k.v.Now()
		if err := k.expect(spec); err != nil && fault == nil {
			fault = &SpawnError{Stage: "write down the start", Err: err, Fault: faultResource}
		}
		if fault != nil {
			k.note("spawn of %s fails: %v", spec.Name, fault)
			k.session.Post(func() {
				if role != roleAfterHook && role != roleProbe && fault.Fault == faultResource {
					k.shortages[run] = true
				}
				done(Child{NotifyFD: -1, ReadyFD: -1}, fault)
			})
			return
		}
		k.forks++
		k.session.After(k.upTo(k.mix.forkTime), func() { k.fork(spec, run, role, done) })
	})
	return s
}

// fork is what a worker does when a start can't be called off any more.
func (k *simKernel) fork(spec *SpawnSpec, run string, role simRole, done func(Child, error)) {
	p := k.born(spec.Tree.(*simTree).instance, run, role)
	if role == roleMain {
		p.watchdog = spec.Program.Watchdog
		k.bornMains[spec.Name]++
		p.work(spec.Program)
		p.notifies = spec.NotifySocket != ""
		p.grow()
		p.beget()
	}
	k.session.After(k.upTo(k.mix.forkTime), func() {
		if !k.unwritten && spec.Happened != nil {
			spec.Happened(p.id(), k.v.Now())
		}
		late := time.Millisecond
		switch {
		case k.chance(k.mix.execHangs):
			late = 10 * time.Minute
		case k.chance(0.1):
			late = max(k.mix.lateResult, 200*time.Millisecond)
		}
		k.session.After(k.upTo(late), func() {
			p.began = k.v.Now()
			if role == roleMain {
				k.mains[run] = p
			}
			notifyFD, readyFD := k.openTold(run, spec.NotifySocket != "", spec.ReadyFD != 0)
			done(Child{Process: p.open(), ID: p.id(), NotifyFD: notifyFD, ReadyFD: readyFD}, nil)
			k.forks--
			if k.forks == 0 && k.sweep != nil {
				k.Sweep(k.sweep)
			}
		})
	})
}

func (k *simKernel) expect(spec *SpawnSpec) error {
	if k.unwritten || spec.Expect == nil {
		return nil
	}
	return spec.Expect(uint64(k.spawned))
}

// The commands of the hooks before and after a run.
const (
	simHook      = "/hook"
	simAfterHook = "/after"
	simProbe     = "/probe"
)
