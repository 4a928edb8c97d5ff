package procs

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/host"
)

// A run lasts from the first pre_start hook until nothing is left of the main process and the
// hooks. Its scope owns its resources.
type run struct {
	in    *instance
	scope loop.Scope
	// Definition that the run follows; a reload replaces it where that needs no restart
	program      *config.Program
	config       uint64 // number of the configuration that has program
	invocationID string
	hook         *hookRun // hooks under way; nil without them

	// Starts the run once a hung worker of an earlier run returns; else nil
	begin      func()
	pending    host.PendingSpawn // spawn of the main process; nil once its result is known
	startLimit *loop.Timer       // the start time-out; nil when the start is over
	process    host.Process      // the main process; nil before it exists
	first      pidfd.Process     // storage of process, if that is the one that was started
	life       loop.Scope        // of the main process: its timers, and its notifications
	// Descriptor of the main process; within life, reopened when the main process changes
	main loop.Scope
	// Link by which closing main releases the process and its stored descriptor
	held loop.Link
	// For the end of the main process; nil where its descriptor is not watched
	mainWatch  *loop.Watch
	firstWatch loop.Watch // storage of mainWatch for the first main process
	group      int32      // process group of the first main process once that is gone
	id         pidfd.Identity
	fdName     fdName        // name of its pidfd in the descriptor store
	startedAt  time.Duration // just before the fork of the main process
	readyAt    time.Duration // 0 before it is ready
	readiness  *readiness    // nil unless readiness is awaited

	startDeadline time.Duration // end of the start time-out; 0 unless readiness is awaited

	*notifyState              // never nil
	monitor      *monitor     // nil unless the run is ready and monitored
	savedHealth  *savedHealth // health as an earlier superd knew it; else nil

	envSum       uint64        // [document.EnvSum] of the env file of the start; 0: none
	mains        int32         // number of main processes so far
	oomKills     int32         // OOM kills in the tree when the run began
	stopDeadline time.Duration // end of the stop time-out; 0 before a stop
	stopLimit    time.Duration // latest time to which the program can extend the stop
	stopTimer    *loop.Timer   // StopTimeout; nil before a stop
	killTimer    *loop.Timer   // KillTimeout; nil before SIGKILL
	// When leftover processes get SIGKILL; 0 while the main process lives
	teardownDeadline time.Duration
	teardown         *teardown // nil while the main process lives

	told        eventlog.Told // recorded by an earlier superd, and perhaps not in the journal
	touched     bool          // a process was started: a teardown may be needed
	preStarted  bool          // the pre_start hooks are over
	postStopped bool          // the post_stop hooks are over
	timedOut    bool          // the start time-out ended before the result of the start
	// startLimit bounds the wait for a child that was killed, not the start
	awaitsKill  bool
	brief       bool        // the main process exited with success within briefTime
	notifyDrain notifyDrain // progress of reading what the main process sent before its end
}

// notifyDrain is the progress of reading the notifications that a main process sent before its end.
type notifyDrain uint8

const (
	drainNotStarted notifyDrain = iota
	drainStarted
	drainDone
)

// spawn begins a run.
func (in *instance) spawn() {
	if in.treeRecovered && in.tree.Empty() {
		in.renewTree("")
	}
	r := &run{in: in, program: in.program, config: in.sup.configNumber, invocationID: in.sup.newInvocationID(), notifyState: &noNotifyState}
	r.scope.Open(&in.scope)
	in.run = r
	in.setLogOptions() // the run before may have begun with others
	in.collector.BeginRun(r.invocationID, awaitsLine(r.program))
	switch {
	case len(in.program.Invalid) > 0:
		mistakes := Reason{ReasonInvalid, in.program.Invalid.Error()}
		r.scope.Post(func() { in.spawnFailed(r, mistakes, host.FaultFinal) })
	case in.hanging > 0:
		// A cancelled worker has not returned: a file system that does not answer gets no second
		// one.
		r.begin = func() { in.begin(r) }
		r.startLimit = r.scope.After(r.program.StartTimeout, func() { in.spawnTimedOut(r) })
	default:
		in.begin(r)
	}
}

// begin starts the pre_start hooks, or the main process without them.
func (in *instance) begin(r *run) {
	r.begin = nil
	if len(r.program.PreStart) == 0 {
		in.spawnMain(r)
		return
	}
	in.preStart(r).next()
}

// preStart returns the run of the pre_start hooks, after which the main process starts.
func (in *instance) preStart(r *run) *hookRun {
	return in.newHooks(r, "pre_start", r.program.PreStart, func(err error) {
		switch {
		case errors.Is(err, errHookStopped) || in.machine.mustEnd():
			in.do(func() []Effect { return in.machine.spawnCanceled(in.hasLeftovers(r)) })
		case err != nil:
			in.spawnFailed(r, startFailure(ReasonHookFailed, err), faultIn(err))
		default:
			r.preStarted = true
			in.save()
			in.spawnMain(r)
		}
	})
}

// faultIn returns how a start that failed with err counts.
func faultIn(err error) host.Fault {
	if se, ok := errors.AsType[*host.SpawnError](err); ok {
		return se.Fault
	}
	return host.FaultProgram
}

// startFailure returns the reason of a start that failed with err. It has the given kind, except in
// a resource shortage.
func startFailure(kind ReasonKind, err error) Reason {
	if faultIn(err) == host.FaultResource {
		kind = ReasonShortage
	}
	return Reason{kind, err.Error()}
}

// spawnMain has a worker start the main process.
func (in *instance) spawnMain(r *run) {
	r.startLimit.Stop()
	r.startLimit = r.scope.After(r.program.StartTimeout, func() { in.spawnTimedOut(r) })
	b := in.newStartRecord(r)
	spec := in.spec(r, r.program, b)
	spec.Process = &r.first
	in.addNotify(spec, r.program, b)
	if b.value.Notify != "" || b.value.Ready != "" {
		t := r.ownNotifyState()
		t.notifyFDName, t.readyFDName = b.value.Notify, b.value.Ready
	}
	in.releaseNotifyFDs(r)
	r.pending = in.sup.host.Spawn(spec, func(child host.Child, err error) {
		b.complete(func() { in.spawnResult(r, b, child, err) })
	})
}

// releaseNotifyFDs has the stored descriptors of the program's notifications released at the end of
// the run.
func (in *instance) releaseNotifyFDs(r *run) {
	for _, kept := range []string{r.notifyFDName, r.readyFDName} {
		if kept != "" {
			r.scope.Defer(func() { in.sup.releaseFD(kept) })
		}
	}
}

// workerBack handles the return of a cancelled worker, and begins a run that waited for the last
// one.
func (in *instance) workerBack() {
	in.hanging--
	if r := in.run; in.hanging == 0 && r != nil && r.begin != nil {
		r.startLimit.Stop()
		r.begin()
	}
}

// spec returns how to start a process of the run. b is nil for a process that the successor need
// not know.
func (in *instance) spec(r *run, program *config.Program, b *startRecord) *host.SpawnSpec {
	spec := &host.SpawnSpec{
		Name:        in.name,
		Tree:        in.tree,
		Program:     program,
		Environment: in.sup.environment,
		Own:         make(config.Variables, 0, 7),
	}
	spec.Own.Set("SUPERD_INSTANCE", in.name)
	spec.Own.Set("SUPERD_INVOCATION_ID", r.invocationID)
	spec.Own.Set("SUPERD_NAME", program.Name)
	spec.Own.Set("SUPERD_OWNER", in.sup.options.RuntimeDir)
	spec.Own.Set("SUPERD_REPLICA", in.replica())
	if b != nil {
		spec.LogIntent, spec.StoreFDs, spec.LogSpawned = b.logIntent, b.storeFDs, b.logSpawned
	}
	for _, which := range streamsOf(program) {
		if b != nil && in.collector.FD(which) < 0 {
			if in.fifoNames[which] == 0 {
				in.fifoNames[which] = fdNameOf(in.sup.reserve(true))
			}
			b.value.FDNames[which] = in.fifoNames[which].String()
		}
		output := host.Outlet{FIFO: in.sup.fifo(in.name, which), ReadFD: in.collector.FD(which)}
		if program.Log.Format == config.LogDirect {
			output.Direct = func(uid uint32) (int, error) { return in.collector.OpenDirect(which, uid) }
		}
		spec.Outputs = append(spec.Outputs, output)
	}
	if program.LoggerOf != "" && b != nil && b.value.Hook == nil {
		spec.Input = &host.Outlet{FIFO: in.sup.fifo(in.name, input), ReadFD: in.inputFD()}
	}
	return spec
}

// endStartLimit ends the start time-out.
func (r *run) endStartLimit() {
	r.startLimit.Stop()
	r.startLimit = nil
}

// attach takes over the read ends of the FIFOs that a worker made for the start, in the order of
// the streams.
func (in *instance) attach(b *startRecord, child host.Child) {
	if child.InputFD > 0 {
		in.takeInput(child.InputFD, in.sup.storeFD(child.InputFD, true))
	}
	for which, fd := range child.ReadFDs {
		if fd < 0 {
			continue
		}
		if in.noOutput != "" {
			in.noOutput = ""
		}
		if name := b.value.FDNames[which]; name != "" && !b.stored {
			in.sup.keeper.Store(name, fd)
		}
		if err := in.collector.Attach(logs.Stream(which), fd); err != nil {
			in.sup.log.Error("output not captured", "instance", in.name, "error", err)
		}
	}
}

// spawnResult takes the worker's result. It always comes, unless the spawn was cancelled.
func (in *instance) spawnResult(r *run, b *startRecord, child host.Child, err error) {
	r.pending = nil
	r.endStartLimit()
	in.clearUnkillable()
	in.attach(b, child)
	if isKilled(err) && !r.timedOut {
		in.do(func() []Effect { return in.machine.spawnCanceled(in.hasLeftovers(r)) })
		return
	}
	if err != nil {
		in.spawnFailed(r, startFailure(ReasonStartFailed, err), faultIn(err))
		return
	}
	r.oomKills, r.envSum = int32(in.tree.OOMKills()), child.EnvSum
	r.startedAt = b.startedAt()
	in.watchMain(r, child.Process, child.ID, in.sup.storeProcess(child.Process))
	in.listenForNotify(r, child.NotifyFD, child.ReadyFD)
	in.sup.log.Info("program started", "instance", in.name, "pid", r.process.Pid())
	in.recordStart()
	in.spawnedMain(r)
}

// watchMain makes process the first main process of the run. kept is the name of its pidfd in the
// descriptor store.
func (in *instance) watchMain(r *run, process host.Process, id pidfd.Identity, kept string) {
	r.touched = true
	r.life.Open(&r.scope)
	in.ownMain(r, process, id, kept)
}

// ownMain makes process the main process: its end is the end of the run's main process.
func (in *instance) ownMain(r *run, process host.Process, id pidfd.Identity, kept string) {
	r.process, r.id, r.fdName = process, id, fdNameOf(kept)
	r.main.Open(&r.life)
	r.main.Adopt(&r.held, r)
	r.notifyDrain = drainNotStarted
	r.mains++
	number := r.mains
	r.mainWatch = &r.firstWatch
	if number > 1 {
		r.mainWatch = new(loop.Watch) // the loop may still use the watch of the process before
	}
	watching, _ := in.sup.watchEnd(&r.main, r.mainWatch, process, func() {
		if r.mains == number && r.process != nil {
			r.in.reap(r, r.process)
		}
	})
	if !watching {
		r.mainWatch = nil
	}
}

// Release closes the main process and releases its stored pidfd when the scope that owns it closes.
func (r *run) Release() {
	loop.Unlink(&r.held)
	r.process.Close()
	r.in.sup.releaseProcess(r.fdName.String())
}

// listenForNotify takes over the ends on which the program notifies superd; -1: none.
func (in *instance) listenForNotify(r *run, notify, ready int) {
	if notify >= 0 {
		in.listen(r, notify)
	}
	if ready >= 0 {
		r.ownNotifyState().readyFD = ready
		r.life.Defer(func() {
			if r.readyFD >= 0 { // readiness was never awaited on it
				in.sup.host.CloseFD(r.readyFD)
			}
		})
	}
}

// own watches a child of superd until scope is closed; then it closes process and releases its
// stored pidfd, named kept. reap is called in each turn after the child has ended. In a resource
// shortage, watched is false and reap is called periodically instead.
func (s *Supervisor) own(scope *loop.Scope, process host.Process, kept string, reap func()) (watched bool) {
	scope.Defer(func() {
		process.Close()
		s.releaseProcess(kept)
	})
	_, watched = s.watchEnd(scope, new(loop.Watch), process, reap)
	return watched
}

// watchEnd calls reap when a child of superd has ended, in each turn, until scope is closed or
// watch is stopped. watched is false in a resource shortage: reap is then called periodically.
// watching is true where reap is called in each turn.
func (s *Supervisor) watchEnd(scope *loop.Scope, watch *loop.Watch, process host.Process, reap func()) (watching, watched bool) {
	pid := process.Pid()
	a, isAdopted := process.(*adoptedProcess)
	if isAdopted && !a.isChild() {
		// A child of superd may get its pid before that process is known to have ended
		a.reap = reap
		s.adoptedByPid[pid] = a
		scope.Defer(func() {
			if s.adoptedByPid[pid] == a {
				delete(s.adoptedByPid, pid)
			}
		})
	} else {
		s.byPid[pid] = owner{process, reap}
	}
	var err error
	if isAdopted {
		err = a.watch(scope, reap)
	} else {
		err = watch.OnReadable(scope, process.FD(), reap)
		watching = err == nil
	}
	if err != nil {
		// The sweep of exited children may be delayed, by a fork that hangs.
		scope.Every(unwatchedPause, reap)
		s.notWatched(pid, err)
	}
	return watching, err == nil
}

// notWatched logs that the end of a process shows only in periodic checks. It is silent where
// pidfd_open is refused (EPERM of epoll): that holds for each process that is not superd's child,
// and is logged at the start.
func (s *Supervisor) notWatched(pid int, err error) {
	if !errors.Is(err, unix.EPERM) {
		s.log.Error("process not watched", "pid", pid, "error", err)
	}
}

// wait takes the status of a child that has ended, once.
func (s *Supervisor) wait(process host.Process) (exit pidfd.Exit, ended bool) {
	exit, ended, err := process.Wait()
	if err != nil {
		s.log.Error("exit status not read", "pid", process.Pid(), "error", err)
		exit, ended = pidfd.Exit{}, true
	}
	if a, ok := process.(*adoptedProcess); ended && (!ok || a.reap == nil) {
		s.forgetChild(process)
	}
	return exit, ended
}

// An owner is a child and the function that reaps it.
type owner struct {
	process host.Process
	reap    func()
}

// forgetChild removes the process from the children to reap. A newer child with the same pid stays.
func (s *Supervisor) forgetChild(process host.Process) {
	pid := process.Pid()
	if s.byPid[pid].process == process {
		delete(s.byPid, pid)
	}
}

// hasLeftovers reports whether a teardown is needed before the run is over.
func (in *instance) hasLeftovers(r *run) bool {
	return in.probing() || r.touched && (len(r.program.PostStop) > 0 || r.program.KillMode != config.KillProcess && !in.tree.Empty())
}

func (in *instance) spawnFailed(r *run, reason Reason, fault host.Fault) {
	in.recordNoStart(r, reason)
	in.do(func() []Effect {
		return in.machine.spawnFailed(in.sup.loop.Now(), reason, fault, in.hasLeftovers(r))
	})
	in.logFailure("program not started", "error", reason.String())
}

// spawnTimedOut handles the end of the start time-out before the result of the start.
func (in *instance) spawnTimedOut(r *run) {
	limit := r.program.StartTimeout
	switch {
	case r.begin != nil:
		r.begin = nil
		text := fmt.Sprintf("an earlier start still hangs in %s, after another start_timeout %s; %s",
			in.hangsIn, limit, host.HangHint)
		in.spawnFailed(r, Reason{ReasonStartTimeout, text}, host.FaultProgram)
		return
	case r.pending.Queued():
		// The machine is slow, not the program
		r.startLimit = r.scope.After(limit, func() { in.spawnTimedOut(r) })
		return
	}
	stage := r.pending.Stage()
	if in.cancelWorker(r) {
		in.spawnFailed(r, r.startTooLong(stage), host.FaultProgram)
		return
	}
	r.timedOut = true
	in.awaitKilled(r)
}

// awaitKilled waits for the result of a start that could not be cancelled; its child, if one
// existed, was killed. After KillPause it cancels what is left of the start, or reports a child
// that still lives.
func (in *instance) awaitKilled(r *run) {
	r.startLimit.Stop()
	r.awaitsKill = true
	r.startLimit = r.scope.After(host.KillPause, func() {
		pending, stage := r.pending, r.pending.Stage()
		switch {
		case !in.cancelWorker(r):
			in.markUnkillable(in.sup.hungStart(pending))
		case r.timedOut:
			in.spawnFailed(r, r.startTooLong(stage), host.FaultProgram)
		default:
			in.do(func() []Effect { return in.machine.spawnCanceled(in.hasLeftovers(r)) })
		}
	})
}

// startTooLong returns the reason of a start that hangs in a stage.
func (r *run) startTooLong(stage string) Reason {
	return Reason{ReasonStartTimeout,
		fmt.Sprintf("%s: no answer within start_timeout %s; %s",
			stage, r.program.StartTimeout, host.HangHint)}
}

// hungStart describes what a start that can't be cancelled waits for.
func (s *Supervisor) hungStart(pending host.PendingSpawn) string {
	text := pending.Stage() + ": no answer; " + host.HangHint
	if pid := pending.Child(); pid != 0 {
		waits := s.host.WaitsIn(pid)
		text = fmt.Sprintf("%s: process %d survives SIGKILL: state %s; %s",
			pending.Stage(), pid, waits.Text, waits.Hint())
	}
	return text
}

// cancelSpawn performs CancelSpawn, in a turn of its own.
func (in *instance) cancelSpawn(r *run) {
	switch {
	case r != in.run || in.machine.state != Spawning:
		return
	case !in.machine.mustEnd():
		return // it is wanted again
	case r.hook != nil:
		r.hook.stop() // its end ends the start
		return
	case r.begin != nil:
		r.begin = nil
		r.endStartLimit()
	case r.pending != nil && !in.cancelWorker(r):
		in.awaitKilled(r)
		return
	}
	in.do(func() []Effect { return in.machine.spawnCanceled(in.hasLeftovers(r)) })
}

// cancelWorker cancels the spawn of the main process if that is possible, and reports whether it
// was.
func (in *instance) cancelWorker(r *run) bool {
	if !in.cancelPending(r.pending, "") {
		return false
	}
	r.pending = nil
	r.endStartLimit()
	return true
}

// cancelPending cancels a spawn if that is possible, and reports whether it was. hook is the prefix
// of its stage: empty for the main process. The worker is counted until it returns, so that a start
// that hangs is not repeated again and again.
func (in *instance) cancelPending(pending host.PendingSpawn, hook string) bool {
	stage := hook + pending.Stage()
	if !pending.Cancel(in.workerBack) {
		return false
	}
	in.hanging++
	in.ownProblems().hangsIn = stage
	return true
}

// reap takes the status of the main process when it has ended.
func (in *instance) reap(r *run, process host.Process) {
	if r.mainWatch != nil && r.notifyDrain == drainNotStarted && in.sup.telling() {
		return // not yet: other processes get their signals first
	}
	if r.mainWatch == nil && r.process == process && !process.Ended() {
		return // it has not ended: it is checked periodically
	}
	if r.process != process || !in.drainNotifyBeforeReap(r, process) {
		return
	}
	exit, ended := in.sup.wait(process)
	if !ended || in.run != r {
		return
	}
	r.life.Close()
	if r.listener != nil {
		r.listener = nil
	}
	now := in.sup.loop.Now()
	in.sup.saveExit(r.id)
	pid, ran, stable, before := r.process.Pid(), now-r.startedAt, r.stable(now), in.machine.state
	if pid == 0 {
		ran, stable = 0, 0 // a start was recorded, and nothing more is known
	}
	r.process = nil
	if r.group == 0 {
		r.group = int32(pid)
	}
	in.clearUnkillable()
	in.lastExit = &ExitStatus{Known: exit.Known, Code: exit.Code, at: now}
	if exit.Signal != 0 {
		in.lastExit.Signal, in.lastExit.signal = signalName(exit.Signal), int(exit.Signal)
	}
	in.recordExit(r, pid, exit, ran)
	if drained := in.collector.EndRun(); !drained || in.drainsUntil != "" {
		in.drain(r.invocationID)
	} else if in.runShown != nil {
		in.runShown()
	}
	note := Reason{}
	if kills := in.tree.OOMKills(); kills > int(r.oomKills) {
		note = Reason{ReasonOutOfMemory, "out of memory: the kernel killed one of its processes"}
		if exit.Signal == unix.SIGKILL {
			note.Detail = "out of memory: the kernel killed it"
		}
		if limit := r.program.Limits.Memory; limit != nil {
			note = note.and(fmt.Sprintf(" (its limit is %d bytes)", *limit))
		}
	}
	if note.Kind == ReasonNone && in.exitNote.Kind != ReasonNone {
		note, in.exitNote = in.exitNote, Reason{}
	}
	r.brief = exit.Success() && ran < briefTime && !in.isOneShot() && (before == Running || before == Starting)
	in.do(func() []Effect { return in.machine.exited(now, exit, ran, stable, note, in.hasLeftovers(r)) })
	// No other code inspects its leftover processes
	if r.brief && r.program.KillMode == config.KillProcess {
		in.lookForBackground()
	}
	attrs := []any{"pid", pid, "exit", exit.String(), "ran", roundDuration(ran)}
	if before == Stopping || before == Killing {
		in.sup.log.Info("program stopped", append([]any{"instance", in.name}, attrs...)...)
		return
	}
	in.logFailure("program exited", attrs...)
}

// briefTime is the longest run time of a main process whose program may have gone into the
// background.
const briefTime = 2 * time.Second

// lookForBackground finds out whether the program has gone into the background.
func (in *instance) lookForBackground() {
	exit, ending := in.lastExit, in.machine.exitReason.Kind
	in.tree.Look(func(found []host.Member) {
		for _, m := range found {
			m.Process.Close()
		}
		if len(found) > 0 && in.lastExit == exit && in.machine.exitReason.Kind == ending {
			in.wentToBackground()
		}
	})
}

// wentToBackground records that the program has gone into the background.
func (in *instance) wentToBackground() {
	in.machine.wentToBackground()
	in.save()
	in.publish()
	in.sup.changed()
}

// drain records that output of a run may still be in the pipe. It would be lost if superd and its
// keeper were killed now.
func (in *instance) drain(run string) {
	in.draining = run
	if in.drainsUntil == "" {
		in.awaitDrained()
	}
}

// awaitDrained waits until the output of the run that ended last is in the log. If another run ends
// before that, it waits again, for that one.
func (in *instance) awaitDrained() {
	run := in.draining
	in.drainsUntil = run
	in.collector.Drained(func() {
		in.drainsUntil = ""
		if in.draining != run {
			in.awaitDrained()
			return
		}
		in.draining = ""
		in.save()
		if in.runShown != nil {
			in.runShown()
		}
	})
}

// logFailure logs the end of a run with what comes next.
func (in *instance) logFailure(message string, attrs ...any) {
	attrs = append([]any{"instance", in.name}, attrs...)
	switch m := &in.machine; {
	case m.state == Backoff:
		in.sup.log.Warn(message, append(attrs, "restart_in", roundDuration(m.delay))...)
	case m.outcome == RunEndedRetry:
		in.sup.log.Warn(message, attrs...)
	case m.outcome == RunEndedFinal || m.outcome == RunEndedStartLimit:
		in.sup.log.Error(message, append(attrs, "reason", m.stateReason.String())...)
	default:
		in.sup.log.Info(message, attrs...)
	}
}

func (in *instance) endRun() {
	in.run.scope.Close()
	in.run = nil
	in.clearUnkillable()
}

// isKilled reports whether a start failed because superd killed its child.
func isKilled(err error) bool {
	se, ok := errors.AsType[*host.SpawnError](err)
	return ok && se.Killed
}
