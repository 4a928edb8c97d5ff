package procs

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
)

// An instance is one instance of a program: its machine, and what the machine's effects are done to.
type instance struct {
	sup     *Supervisor
	name    string
	program *config.Program
	scope   *loop.Scope // until the instance is removed
	machine *machine
	capture *logs.Capture
	run     *run // the present run; nil at rest and in back-off

	restartTimer *loop.Timer // pending RestartDue; nil without one
	cancelLines  func()      // ends the reports of new lines; nil while nobody watches
	sinceAt      time.Duration
	lastExit     *ExitStatus
	lastExitAt   time.Duration
	stuck        string // names the process that SIGKILL did not end
	hanging      int    // workers that still hang in a start that timed out
	waiters      []*waiter

	removed  bool            // goes away when it is at rest
	next     *config.Program // takes its place then, where the program was added again meanwhile
	nextWish *wish           // what the operator wants of next; nil: nothing in particular
}

// A run is the time from a spawn to the end of its process. Its scope owns the process, its watch and its timers.
type run struct {
	scope        *loop.Scope
	program      *config.Program // as it was when the run began: a reload doesn't change how it is stopped
	invocationID string
	pending      PendingSpawn // nil when the result is in
	process      Process      // nil before
	startTicks   uint64
	startedAt    time.Duration
	stopTimer    *loop.Timer // StopDue; nil before a stop
}

func (s *Supervisor) newInstance(name string, program *config.Program) *instance {
	in := &instance{
		sup:     s,
		name:    name,
		program: program,
		scope:   s.scope.Child(),
		machine: newMachine(program, s.rng),
		sinceAt: s.loop.Now(),
	}
	s.counts[Stopped]++
	in.capture = s.store.NewCapture(in.scope, name, s.logOptions(name, program))
	if s.options.OnCapture != nil {
		s.options.OnCapture(in.capture)
	}
	s.watchLines(in)
	return in
}

func (s *Supervisor) fifo(instance string) string {
	return filepath.Join(s.options.RuntimeDir, fifoDir, instance)
}

func (s *Supervisor) logOptions(instance string, p *config.Program) logs.Options {
	return logs.Options{Path: p.LogPath(s.options.LogDir, instance), MaxSize: p.Log.MaxSize, Keep: p.Log.Keep}
}

// do performs the effects of one step of the machine and tells who wants to know.
func (in *instance) do(step func() []Effect) {
	before := in.machine.state
	for _, effect := range step() {
		in.perform(effect)
	}
	after := in.machine.state
	in.sup.counts[before]--
	in.sup.counts[after]++
	if before.String() != after.String() || after == Spawning {
		in.sinceAt = in.sup.loop.Now()
	}
	if before != after {
		in.sup.log.Debug("state changed", "instance", in.name, "from", before.String(), "to", after.String(), "reason", in.machine.cause)
	}
	in.settleWaiters()
	in.sup.changed()
	if after.AtRest() {
		in.sup.atRest(in)
	}
}

func (in *instance) perform(effect Effect) {
	switch effect {
	case Spawn:
		in.spawn()
	case CallOff:
		// The answer is a step of its own, after this one.
		run := in.run
		run.scope.Post(func() { in.callOff(run) })
	case SignalStop:
		in.signalStop()
	case SignalKill:
		in.signalKill()
	case ArmStop:
		in.run.stopTimer = in.run.scope.After(in.run.program.StopTimeout, func() { in.do(in.machine.stopDue) })
	case ArmKill:
		in.run.scope.After(killPause, func() { in.do(in.machine.killDue) })
	case NameStuck:
		pid := in.run.process.Pid()
		in.stuck = fmt.Sprintf("process %d does not die: it waits in %s", pid, in.sup.system.WaitsIn(pid))
		in.sup.log.Error("process does not die", "instance", in.name, "pid", pid, "waits_in", in.sup.system.WaitsIn(pid))
		in.sup.stuck++
		in.sup.continueShutdown()
	case EndRun:
		in.endRun()
	case ArmRestart:
		in.restartTimer = in.scope.After(in.machine.delay, func() {
			in.restartTimer = nil
			in.do(in.machine.restartDue)
		})
	case Disarm:
		if in.restartTimer != nil {
			in.restartTimer.Stop()
			in.restartTimer = nil
		}
	}
}

// spawn begins a run.
func (in *instance) spawn() {
	s := in.sup
	r := &run{scope: in.scope.Child(), program: in.program, invocationID: s.newInvocationID()}
	in.run = r
	switch {
	case len(in.program.Invalid) > 0:
		r.scope.Post(func() { in.spawnFailed(r, in.program.Invalid, faultFinal) })
		return
	case in.hanging > 0:
		r.scope.Post(func() {
			in.spawnFailed(r, errors.New("the start before this one still hangs; is a file system not answering?"), faultProgram)
		})
		return
	}
	r.scope.After(in.program.StartTimeout, func() { in.spawnTimedOut(r) })
	r.pending = s.system.Spawn(&SpawnSpec{
		Name:        in.name,
		Program:     in.program,
		Environment: s.options.Environment,
		Own: map[string]string{
			"SUPERD_NAME":          in.program.Name,
			"SUPERD_INSTANCE":      in.name,
			"SUPERD_INVOCATION_ID": r.invocationID,
			"SUPERD_RUNTIME_DIR":   s.options.RuntimeDir,
		},
		FIFO:   s.fifo(in.name),
		ReadFD: in.capture.FD(),
	}, func(child Child, err error) { in.spawnResult(r, child, err) })
}

// spawnResult takes the worker's result. It always comes, unless the spawn was called off.
func (in *instance) spawnResult(r *run, child Child, err error) {
	r.pending = nil
	if child.ReadFD >= 0 {
		if aerr := in.capture.Attach(child.ReadFD); aerr != nil {
			in.sup.log.Error("output is not captured", "instance", in.name, "error", aerr)
		}
	}
	if err != nil {
		fault := faultProgram
		if se, ok := errors.AsType[*SpawnError](err); ok {
			fault = se.Fault
		}
		in.spawnFailed(r, err, fault)
		return
	}
	r.process, r.startTicks, r.startedAt = child.Process, child.StartTicks, in.sup.loop.Now()
	in.sup.byPid[r.process.Pid()] = in
	r.scope.Close() // with it the start time-out; the run goes on in a scope of its own
	r.scope = in.scope.Child()
	r.scope.Defer(func() { r.process.Close() })
	if _, err := r.scope.OnReadable(r.process.FD(), func() { in.reap(r) }); err != nil {
		// Without a watch the end would be noticed by the sweep alone: still right, only later.
		in.sup.log.Error("process is not watched", "instance", in.name, "pid", r.process.Pid(), "error", err)
	}
	in.sup.log.Info("program started", "instance", in.name, "pid", r.process.Pid())
	in.do(in.machine.spawned)
}

func (in *instance) spawnFailed(r *run, err error, fault spawnFault) {
	r.scope.Close()
	in.run = nil
	in.do(func() []Effect { return in.machine.spawnFailed(in.sup.loop.Now(), err.Error(), fault) })
	in.logFailure("program not started", "error", err)
}

// spawnTimedOut is a start that hangs before anything was started.
func (in *instance) spawnTimedOut(r *run) {
	stage := r.pending.Stage()
	if !in.callOffWorker(r) {
		return // it is at the fork: its result is about to come
	}
	in.spawnFailed(r, fmt.Errorf("%s: no answer within start_timeout %s; is its file system hanging?", stage, r.program.StartTimeout), faultProgram)
}

// callOff is what CallOff does, in a turn of its own.
func (in *instance) callOff(r *run) {
	if r != in.run || r.process != nil || in.machine.state != Spawning {
		return
	}
	if in.machine.wanted.up && !in.machine.again {
		return // wanted after all
	}
	if r.pending != nil && !in.callOffWorker(r) {
		return
	}
	r.scope.Close()
	in.run = nil
	in.do(in.machine.calledOff)
}

// callOffWorker reports whether the spawn could be called off. The worker is counted until it comes back, so that
// a start that hangs is not begun again and again.
func (in *instance) callOffWorker(r *run) bool {
	if !r.pending.CallOff(func() { in.hanging-- }) {
		return false
	}
	in.hanging++
	r.pending = nil
	return true
}

// reap takes the status of a process that has ended. Other members of its group are killed first, while the
// leader's zombie still holds the number of the group.
func (in *instance) reap(r *run) {
	if r.process == nil || in.run != r {
		return
	}
	if r.program.KillMode != config.KillProcess {
		if err := r.process.SignalGroup(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
			in.sup.log.Warn("process group not killed", "instance", in.name, "pid", r.process.Pid(), "error", err)
		}
	}
	exit, ended, err := r.process.Wait()
	if err != nil {
		in.sup.log.Error("exit status not read", "instance", in.name, "pid", r.process.Pid(), "error", err)
		exit, ended = pidfd.Exit{}, true
	}
	if !ended {
		return
	}
	delete(in.sup.byPid, r.process.Pid())
	now := in.sup.loop.Now()
	pid, ran, before := r.process.Pid(), now-r.startedAt, in.machine.state
	in.lastExit = &ExitStatus{Known: exit.Known, Code: exit.Code}
	if exit.Signal != 0 {
		in.lastExit.Signal = unix.SignalName(exit.Signal)
	}
	in.lastExitAt = now
	in.capture.EndRun()
	in.do(func() []Effect { return in.machine.exited(now, exit, ran) })
	attrs := []any{"pid", pid, "exit", exit.String(), "ran", roundDuration(ran)}
	if before == Stopping || before == Killing {
		in.sup.log.Info("program stopped", append([]any{"instance", in.name}, attrs...)...)
		return
	}
	in.logFailure("program exited", attrs...)
}

// logFailure logs the end of a run with what comes next.
func (in *instance) logFailure(message string, attrs ...any) {
	attrs = append([]any{"instance", in.name}, attrs...)
	switch in.machine.state {
	case Backoff:
		in.sup.log.Warn(message, append(attrs, "restart_in", roundDuration(in.machine.delay))...)
	case Failed:
		in.sup.log.Error(message, append(attrs, "reason", in.machine.cause)...)
	default:
		in.sup.log.Info(message, attrs...)
	}
}

func (in *instance) endRun() {
	in.run.scope.Close()
	in.run = nil
	if in.stuck != "" {
		in.stuck = ""
		in.sup.stuck--
	}
}

// signalStop sends the stop signal to the process group, then SIGCONT, so that a stopped process handles it.
func (in *instance) signalStop() {
	in.send(in.run.program.StopSignal)
	in.send(unix.SIGCONT)
}

func (in *instance) signalKill() {
	in.run.stopTimer.Stop() // somebody may have been in a hurry
	in.sup.log.Warn("stop time-out, killing", "instance", in.name, "pid", in.run.process.Pid(), "stop_timeout", in.run.program.StopTimeout)
	if in.run.program.KillMode == config.KillProcess {
		if err := in.run.process.Signal(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
			in.sup.log.Error("process not killed", "instance", in.name, "pid", in.run.process.Pid(), "error", err)
		}
		return
	}
	in.send(unix.SIGKILL)
}

func (in *instance) send(sig syscall.Signal) {
	if err := in.run.process.SignalGroup(sig); err != nil && !errors.Is(err, pidfd.ErrGone) {
		in.sup.log.Error("signal not sent", "instance", in.name, "pid", in.run.process.Pid(), "signal", unix.SignalName(sig), "error", err)
	}
}

// reason tells why the state is what it is.
func (in *instance) reason() string {
	if in.stuck != "" {
		return in.stuck
	}
	if p := in.run; p != nil && p.pending != nil {
		return in.machine.cause + ": " + p.pending.Stage()
	}
	return in.machine.cause
}
