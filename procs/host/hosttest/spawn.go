package hosttest

import (
	"slices"
	"syscall"
	"time"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// A PendingSpawn is a spawn under way.
type PendingSpawn struct {
	Committed   bool          // it is too late to cancel it
	CommittedAt time.Duration // since when it is
	Stalled     bool          // it is committed and hangs before its fork
	Hung        *Process      // child that hangs before its exec; nil: none

	k        *Kernel
	hangs    bool   // it hangs before it is committed
	unwanted bool   // it was cancelled when it was too late
	release  func() // ends the use of its sockets
	timer    *loop.Timer
}

// Stage implements [host.PendingSpawn].
func (s *PendingSpawn) Stage() string { return "open executable /sim" }

// Queued implements [host.PendingSpawn].
func (s *PendingSpawn) Queued() bool { return s.hangs && s.k.QueuesHung }

// Child implements [host.PendingSpawn].
func (s *PendingSpawn) Child() int {
	if s.Hung == nil || s.Hung.reaped {
		return 0
	}
	return s.Hung.Pid
}

// Cancel implements [host.PendingSpawn].
func (s *PendingSpawn) Cancel(returned func()) bool {
	switch {
	case s.Committed:
		s.unwanted = s.Stalled && !s.k.Defects.NoKillBeforeExec
		if s.Hung != nil && !s.k.Defects.NoKillBeforeExec {
			h := s.Hung.open()
			h.Signal(syscall.SIGKILL)
			h.Close()
		}
		return false
	case s.hangs && !s.k.QueuesHung:
		s.release()
		s.k.session.After(s.k.upTo(time.Hour), returned)
	default:
		s.timer.Stop()
		s.release()
		s.k.session.Post(returned)
	}
	return true
}

// Spawn implements [host.Host].
func (k *Kernel) Spawn(spec *host.SpawnSpec, done func(host.Child, error)) host.PendingSpawn {
	if k.OnSpawn != nil {
		k.OnSpawn(spec)
	}
	release := k.useSockets(spec)
	s := &PendingSpawn{k: k, hangs: k.chance(k.Mix.SpawnHangs), release: release}
	report := done
	done = func(child host.Child, err error) {
		release()
		report(child, err)
	}
	if s.hangs {
		k.logf("spawn of %s hangs", spec.Name)
		return s
	}
	var fault *host.SpawnError
	run, _ := spec.Own.Get("SUPERD_INVOCATION_ID")
	switch {
	case !k.chance(k.Mix.SpawnFails):
	case k.chance(k.Mix.Shortage):
		fault = &host.SpawnError{Stage: "execute", Err: syscall.EAGAIN, Fault: host.FaultResource}
	default:
		fault = &host.SpawnError{Stage: "open executable", Err: syscall.ENOENT, Fault: host.FaultProgram}
	}
	role, log := RoleOf(spec.Program), k.commandLog(spec.Program, run)
	if role == RoleMain {
		k.definitions[run], k.requestedAt[run] = spec.Program, k.v.Now()
	}
	if log != nil {
		log.Begun++
	}
	// Drawn for each process, so that histories stay the same
	fails := fault == nil && spec.Program.RemovesDirectories() && k.chance(k.Mix.DirectoryFails)
	if fails && spec.BeginsRun {
		fault = &host.SpawnError{Stage: "make runtime directory", Err: syscall.EROFS, Fault: host.FaultProgram}
	}
	commit := func() {
		s.Committed, s.CommittedAt = true, k.v.Now()
		if err := k.logIntent(spec); err != nil && fault == nil {
			fault = &host.SpawnError{Stage: "record the start", Err: err, Fault: host.FaultResource}
		}
	}
	delay := k.upTo(k.Mix.SlowSpawn)
	if role == RoleMain && spec.Program.Scheduled() && k.chance(k.Mix.StartLoggedEarly) {
		commit()
		delay = 0
	}
	s.timer = k.session.After(delay, func() {
		if !s.Committed {
			commit()
		}
		if fault != nil {
			k.logf("spawn of %s fails: %v", spec.Name, fault)
			log.ended(false, k.v.Now())
			k.session.Post(func() {
				if role != RolePostStop && !role.OwnTree() && fault.Fault == host.FaultResource {
					k.shortages[run] = true
				}
				done(host.Child{NotifyFD: -1, ReadyFD: -1}, fault)
			})
			return
		}
		if k.chance(k.Mix.ForkHangs) {
			k.stall(s, spec, func() { k.fork(s, spec, run, role, done) }, done)
			return
		}
		k.fork(s, spec, run, role, done)
	})
	return s
}

// stall lets a committed spawn hang before its fork, for minutes. Then it goes on, or fails if it
// was cancelled.
func (k *Kernel) stall(s *PendingSpawn, spec *host.SpawnSpec, fork func(), done func(host.Child, error)) {
	k.logf("spawn of %s hangs before its fork", spec.Name)
	s.Stalled = true
	k.session.After(k.upTo(10*time.Minute), func() {
		if s.Stalled = false; !s.unwanted {
			fork()
			return
		}
		done(host.Child{NotifyFD: -1, ReadyFD: -1}, errKilled)
	})
}

// errKilled is the result of a spawn whose child was killed before its exec.
var errKilled = &host.SpawnError{Stage: "execute", Err: syscall.ETIMEDOUT, Killed: true}

// RoleOf returns the role of a process that is spawned with the definition.
func RoleOf(p *config.Program) Role {
	switch p.Command[0] {
	case PreStartCommand:
		return RolePreStart
	case PostStopCommand:
		return RolePostStop
	case ProbeCommand:
		return RoleProbe
	case BesideCommand:
		return RoleBeside
	}
	return RoleMain
}

// fork does what a worker does after the point at which a spawn can't be cancelled.
func (k *Kernel) fork(s *PendingSpawn, spec *host.SpawnSpec, run string, role Role, done func(host.Child, error)) {
	if k.Defects.ReapWaitsForForks && k.pendingSweep != nil {
		k.session.After(10*time.Millisecond, func() { k.fork(s, spec, run, role, done) })
		return
	}
	k.forks++
	if k.StoresFDs && spec.StoreFDs != nil {
		notifyFD, readyFD := k.openNotifyFDs(run, spec.NotifySocket != "", spec.ReadyFD != 0)
		spec.StoreFDs(notifyFD, readyFD, nil)
		k.CloseFD(notifyFD)
		k.CloseFD(readyFD)
	}
	k.session.After(k.upTo(k.Mix.ForkTime), func() {
		hangs := k.chance(k.Mix.ExecHangs)
		p := k.NewProcess(spec.Tree.(*Tree).instance, run, role)
		p.resultPending = true
		if p.log = k.commandLog(spec.Program, run); p.log != nil {
			p.Key = spec.Program.Command[1]
		}
		if role == RoleMain {
			k.mainsStarted[spec.Name]++
		}
		if !hangs {
			p.execute(spec)
			k.session.After(k.upTo(k.Mix.ForkTime), func() { k.executed(p, spec, done) })
			return
		}
		k.logf("%d of %s hangs before its exec", p.Pid, spec.Name)
		p.stopActivity()
		s.Hung = p
		p.atEnd = func() { // its worker reaps it
			s.Hung = nil
			k.session.After(k.upTo(time.Millisecond), func() {
				k.reap(p)
				done(host.Child{NotifyFD: -1, ReadyFD: -1}, errKilled)
				k.resultTaken(p)
			})
		}
		p.scope.After(10*time.Minute, func() {
			if s.Hung == nil || p.Dying {
				return
			}
			s.Hung, p.atEnd = nil, nil
			p.execute(spec)
			k.executed(p, spec, done)
		})
	})
}

// execute starts the activity of the program.
func (p *Process) execute(spec *host.SpawnSpec) {
	p.k.makeTmp(spec, p.Run)
	if p.Role == RoleBeside && slices.Contains(spec.Program.Command, StopArgument) {
		p.k.stopMain(p.Run)
	}
	if p.Role != RoleMain {
		return
	}
	p.Watchdog = spec.Program.Watchdog
	p.endScheduledRun(spec.Program)
	p.endConnection(spec.Program)
	p.notifies = spec.NotifySocket != ""
	delete(p.k.launchers, p.Instance)
	if spec.Program.Type == config.TypeForking {
		p.launch(spec.Program)
		return
	}
	p.becomeReady()
	p.scheduleHandover()
}

// stopMain ends the main process of a run, unless it ignores stops.
func (k *Kernel) stopMain(run string) {
	if main := k.mains[run]; main != nil && !main.IgnoresStop {
		main.scope.After(k.upTo(time.Second), func() { main.End(pidfd.Exit{Known: true}) })
	}
}

// executed does what a worker does when the child runs the program.
func (k *Kernel) executed(p *Process, spec *host.SpawnSpec, done func(host.Child, error)) {
	if !k.Defects.NoStartRecords && spec.LogSpawned != nil {
		spec.LogSpawned(p.id(), k.v.Now())
	}
	late := time.Millisecond
	switch {
	case k.Mix.NoResult:
		late = 10 * time.Minute
	case k.chance(0.1):
		late = max(k.Mix.LateResult, 200*time.Millisecond)
	}
	k.session.After(k.upTo(late), func() {
		p.Began = k.v.Now()
		if p.Role == RoleMain {
			k.mains[p.Run] = p
		}
		notifyFD, readyFD := k.openNotifyFDs(p.Run, spec.NotifySocket != "", spec.ReadyFD != 0)
		child := host.Child{Process: p.open(), ID: p.id(), NotifyFD: notifyFD, ReadyFD: readyFD}
		if p.Role == RoleMain {
			child.SandboxWarnings = k.drawSandboxLacks(spec, p.Run)
		}
		done(child, nil)
		k.resultTaken(p)
	})
}

// resultTaken records that the loop has the result of a spawn. It resumes a reaping that stopped at
// the child.
func (k *Kernel) resultTaken(p *Process) {
	p.resultPending = false
	k.forks--
	if sweep := k.pendingSweep; sweep != nil && (!k.Defects.ReapWaitsForForks || k.forks == 0) {
		k.ReapOrphans(sweep)
	}
}

func (k *Kernel) logIntent(spec *host.SpawnSpec) error {
	if k.Defects.NoStartRecords || spec.LogIntent == nil {
		return nil
	}
	return spec.LogIntent(uint64(k.spawned))
}

// The commands by which the fake knows what a spawned process is. Any other one is a main process.
const (
	PreStartCommand = "/hook"  // of a pre_start hook
	PostStopCommand = "/after" // of a post_stop hook
	ProbeCommand    = "/probe" // of an exec check
	// Of a command beside a main process, such as reload_command. With StopArgument it stops that
	BesideCommand = "/beside"
	StopArgument  = "stop"
)
