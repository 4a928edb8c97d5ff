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
)

// killPause is how long a process may take to end after SIGKILL before it is named as stuck.
const killPause = 2 * time.Second

// A run is the time from the first pre_start hook to the moment when nothing is left of the main process and the hooks.
// Its scope owns what it needs meanwhile.
type run struct {
	in           *instance
	scope        loop.Scope
	program      *config.Program // as it was when the run began: a reload doesn't change how it is stopped
	config       uint64          // number of the configuration that has this
	invocationID string
	hook         *hookRun // under way; nil without one

	begin      func()        // waits for a worker of the run before, which has not come back; else nil
	pending    PendingSpawn  // of the main process; nil when its result is in
	startLimit *loop.Timer   // the start time-out; nil when the start is over
	process    Process       // the main process; nil before it is there
	first      pidfd.Process // what it is, if it is the one that was started
	life       loop.Scope    // of the main process: its timers, and what it tells
	main       loop.Scope    // its descriptor; within life, opened again when another process becomes the main one
	held       loop.Link     // by which main owns the run: its process, and what the keeper has of that
	mainWatch  *loop.Watch   // of its end; nil where that is not watched
	firstWatch loop.Watch    // that of the first one
	group      int32         // number of its process group, when it has ended
	id         pidfd.Identity
	kept       keptName // the name under which the keeper has its pidfd
	startedAt  time.Duration
	readyAt    time.Duration // 0 before it is ready
	readiness  *readiness    // nil unless it is awaited

	startDeadline time.Duration // when the start time-out ends; 0 unless its readiness is awaited

	*telling                 // never nil
	monitor     *monitor     // nil unless it is ready and looked after
	savedHealth *savedHealth // what an earlier superd has known of its health; else nil

	envSum       uint64        // [config.EnvSum] of the env file that it was started with; 0: none
	mains        int32         // main processes that it has had
	oomKills     int32         // of the tree when the run began
	stopDeadline time.Duration // when the stop time-out ends; 0 before a stop
	stopLimit    time.Duration // how far the program can put that off
	stopTimer    *loop.Timer   // StopDue; nil before a stop
	killTimer    *loop.Timer   // KillDue; nil before SIGKILL
	clearBy      time.Duration // when what is left of it gets SIGKILL; 0 before the main process is gone
	clearing     *clearing     // nil before the main process is gone

	told        eventlog.Told // what an earlier superd has recorded of it, and perhaps not written into the journal
	touched     bool          // a process was started: there may be something to clear
	preStarted  bool          // its pre_start hooks are over
	postStopped bool          // so are its post_stop hooks
	lastWords   lastWords     // what the main process has told before its end
}

// lastWords is how far superd is with what was told before the end of a main process.
type lastWords uint8

const (
	wordsNotAwaited lastWords = iota
	wordsAwaited
	wordsHeard
)

// spawn begins a run.
func (in *instance) spawn() {
	if in.inherited && in.tree.Empty() {
		in.renewTree("")
	}
	r := &run{in: in, program: in.program, config: in.sup.configNumber, invocationID: in.sup.newInvocationID(), telling: &tellsNothing}
	r.scope.Open(&in.scope)
	in.run = r
	in.setLogOptions() // the run before may have been begun with others
	in.capture.BeginRun(r.invocationID, awaitsLine(r.program))
	fail := func(err error, fault spawnFault) {
		r.scope.Post(func() { in.spawnFailed(r, err, fault) })
	}
	switch {
	case len(in.program.Invalid) > 0:
		fail(in.program.Invalid, faultFinal)
	case in.hanging > 0:
		// A worker that was called off has not come back: a file system that does not answer gets no second one.
		r.begin = func() { in.begin(r) }
		r.startLimit = r.scope.After(r.program.StartTimeout, func() { in.spawnTimedOut(r) })
	default:
		in.begin(r)
	}
}

// begin does the work of a start.
func (in *instance) begin(r *run) {
	r.begin = nil
	if len(r.program.PreStart) == 0 {
		in.spawnMain(r)
		return
	}
	in.preStart(r).next()
}

// preStart returns the run of the pre_start hooks, which the main process follows.
func (in *instance) preStart(r *run) *hookRun {
	return in.newHooks(r, "pre_start", r.program.PreStart, func(err error) {
		switch {
		case errors.Is(err, errHookStopped) || in.machine.unwanted():
			in.do(func() []Effect { return in.machine.calledOff(in.left(r)) })
		case err != nil:
			in.spawnFailed(r, err, faultIn(err))
		default:
			r.preStarted = true
			in.save()
			in.spawnMain(r)
		}
	})
}

// faultIn tells how a start that failed with err counts.
func faultIn(err error) spawnFault {
	if se, ok := errors.AsType[*SpawnError](err); ok {
		return se.Fault
	}
	return faultProgram
}

// spawnMain has a worker start the main process.
func (in *instance) spawnMain(r *run) {
	r.startLimit.Stop()
	r.startLimit = r.scope.After(r.program.StartTimeout, func() { in.spawnTimedOut(r) })
	b := in.newBirth(r)
	spec := in.spec(r, r.program, b)
	spec.Process = &r.first
	in.tell(spec, r.program, b)
	if b.value.Notify != "" || b.value.Ready != "" {
		t := r.tells()
		t.notifyKept, t.readyKept = b.value.Notify, b.value.Ready
	}
	in.letGoOfTold(r)
	r.pending = in.sup.system.Spawn(spec, func(child Child, err error) {
		b.settle(func() { in.spawnResult(r, b, child, err) })
	})
}

// letGoOfTold has the keeper let go at the end of the run of what the program tells superd by.
func (in *instance) letGoOfTold(r *run) {
	for _, kept := range []string{r.notifyKept, r.readyKept} {
		if kept != "" {
			r.scope.Defer(func() { in.sup.letGo(kept) })
		}
	}
}

// workerBack is a worker that was called off and has come back.
func (in *instance) workerBack() {
	in.hanging--
	if r := in.run; in.hanging == 0 && r != nil && r.begin != nil {
		r.startLimit.Stop()
		r.begin()
	}
}

// spec says how to start a process of the run. b is nil for one that the next superd need not know of.
func (in *instance) spec(r *run, program *config.Program, b *birth) *SpawnSpec {
	spec := &SpawnSpec{
		Name:        in.name,
		Tree:        in.tree,
		Program:     program,
		Environment: in.sup.environment,
		Own:         make(config.Variables, 0, 6),
	}
	spec.Own.Set("SUPERD_INSTANCE", in.name)
	spec.Own.Set("SUPERD_INVOCATION_ID", r.invocationID)
	spec.Own.Set("SUPERD_NAME", program.Name)
	spec.Own.Set("SUPERD_OWNER", in.sup.options.RuntimeDir)
	if b != nil {
		spec.Expect, spec.Made, spec.Happened = b.expect, b.made, b.happened
	}
	for _, which := range streamsOf(program) {
		if b != nil && in.capture.FD(which) < 0 {
			if in.kept[which] == 0 {
				in.kept[which] = keptNameOf(in.sup.reserve(true))
			}
			b.value.Kept[which] = in.kept[which].String()
		}
		output := Outlet{FIFO: in.sup.fifo(in.name, which), ReadFD: in.capture.FD(which)}
		if program.Log.Format == config.LogDirect {
			output.Direct = func(uid uint32) (int, error) { return in.capture.OpenDirect(which, uid) }
		}
		spec.Outputs = append(spec.Outputs, output)
	}
	if program.LoggerOf != "" && b != nil && b.value.Hook == nil {
		spec.Input = &Outlet{FIFO: in.sup.fifo(in.name, input), ReadFD: in.inputFD()}
	}
	return spec
}

// endStartLimit ends the start time-out.
func (r *run) endStartLimit() {
	r.startLimit.Stop()
	r.startLimit = nil
}

// attach takes over the read ends of FIFOs that a worker has made for the birth, in the order of the streams.
func (in *instance) attach(b *birth, child Child) {
	if child.InputFD > 0 {
		in.takeInput(child.InputFD, in.sup.keep(child.InputFD, true))
	}
	for which, fd := range child.ReadFDs {
		if fd < 0 {
			continue
		}
		if in.noOutput != "" {
			in.noOutput = ""
		}
		if name := b.value.Kept[which]; name != "" && !b.kept {
			in.sup.keeper.Store(name, fd)
		}
		if err := in.capture.Attach(logs.Stream(which), fd); err != nil {
			in.sup.log.Error("output is not captured", "instance", in.name, "error", err)
		}
	}
}

// spawnResult takes the worker's result. It always comes, unless the spawn was called off.
func (in *instance) spawnResult(r *run, b *birth, child Child, err error) {
	r.pending = nil
	r.endStartLimit()
	in.unstick()
	in.attach(b, child)
	if err != nil {
		in.spawnFailed(r, err, faultIn(err))
		return
	}
	r.oomKills, r.envSum = int32(in.tree.OOMKills()), child.EnvSum
	r.startedAt = in.sup.loop.Now()
	in.watchMain(r, child.Process, child.ID, in.sup.keepProcess(child.Process))
	in.hear(r, child.NotifyFD, child.ReadyFD)
	in.sup.log.Info("program started", "instance", in.name, "pid", r.process.Pid())
	in.recordStart()
	in.spawnedMain(r)
}

// watchMain makes process the main process of the run. kept is the name under which the keeper has its pidfd.
func (in *instance) watchMain(r *run, process Process, id pidfd.Identity, kept string) {
	r.touched = true
	r.life.Open(&r.scope)
	in.ownMain(r, process, id, kept)
}

// ownMain has the end of process be that of the main process.
func (in *instance) ownMain(r *run, process Process, id pidfd.Identity, kept string) {
	r.process, r.id, r.kept = process, id, keptNameOf(kept)
	r.main.Open(&r.life)
	r.main.Adopt(&r.held, r)
	r.lastWords = wordsNotAwaited
	r.mains++
	number := r.mains
	r.mainWatch = &r.firstWatch
	if number > 1 {
		r.mainWatch = new(loop.Watch) // the loop may not be through with that of the process before
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

// Release gives up the main process when its scope is closed.
func (r *run) Release() {
	loop.Leave(&r.held)
	r.process.Close()
	r.in.sup.letGoOfProcess(r.kept.String())
}

// hear takes the ends of what the program tells superd by; -1: none.
func (in *instance) hear(r *run, notify, ready int) {
	if notify >= 0 {
		in.listen(r, notify)
	}
	if ready >= 0 {
		r.tells().readyFD = ready
		r.life.Defer(func() {
			if r.readyFD >= 0 { // nobody has waited for it
				in.sup.system.CloseFD(r.readyFD)
			}
		})
	}
}

// own watches a child of superd until scope is closed, when the keeper lets go of what it has of it under the name kept. reap is called when it has ended, in each turn; where superd is
// short of something it is called again and again, and watched is false.
func (s *Supervisor) own(scope *loop.Scope, process Process, kept string, reap func()) (watched bool) {
	scope.Defer(func() {
		process.Close()
		s.letGoOfProcess(kept)
	})
	_, watched = s.watchEnd(scope, new(loop.Watch), process, reap)
	return watched
}

// watchEnd has reap called when a child of superd has ended, until scope is closed: in each turn until watch is stopped. Where superd is short of something it is called again and
// again, and watched is false. Where reap is not called in each turn, watching is.
func (s *Supervisor) watchEnd(scope *loop.Scope, watch *loop.Watch, process Process, reap func()) (watching, watched bool) {
	pid := process.Pid()
	a, isAdopted := process.(*adopted)
	if isAdopted && !a.isChild() {
		a.reap = reap // a child of superd's may have its pid before that is known to have ended
		s.heirs[pid] = a
		scope.Defer(func() {
			if s.heirs[pid] == a {
				delete(s.heirs, pid)
			}
		})
	} else {
		s.byPid[pid] = reap
	}
	var err error
	if isAdopted {
		err = a.watch(scope, reap)
	} else {
		err = watch.OnReadable(scope, process.FD(), reap)
		watching = err == nil
	}
	if err != nil {
		// The sweep may be held up, by a fork that hangs.
		scope.Every(unwatchedPause, reap)
		s.log.Error("process is not watched", "pid", pid, "error", err)
	}
	return watching, err == nil
}

// wait takes the status of a child that has ended, once.
func (s *Supervisor) wait(process Process) (exit pidfd.Exit, ended bool) {
	exit, ended, err := process.Wait()
	if err != nil {
		s.log.Error("exit status not read", "pid", process.Pid(), "error", err)
		exit, ended = pidfd.Exit{}, true
	}
	if a, ok := process.(*adopted); ended && (!ok || a.reap == nil) {
		delete(s.byPid, process.Pid())
	}
	return exit, ended
}

// left reports whether there is something to clear before the run is over.
func (in *instance) left(r *run) bool {
	return in.probing() || r.touched && (len(r.program.PostStop) > 0 || r.program.KillMode != config.KillProcess && !in.tree.Empty())
}

func (in *instance) spawnFailed(r *run, err error, fault spawnFault) {
	in.recordNoStart(r, err)
	in.do(func() []Effect { return in.machine.spawnFailed(in.sup.loop.Now(), err.Error(), fault, in.left(r)) })
	in.logFailure("program not started", "error", err)
}

const hangHint = "is its file system hanging?"

// spawnTimedOut is a start that takes too long.
func (in *instance) spawnTimedOut(r *run) {
	limit := r.program.StartTimeout
	switch {
	case r.begin != nil:
		r.begin = nil
		in.spawnFailed(r, fmt.Errorf("the start before this one still hangs in %s, after another start_timeout %s; %s", in.hangsIn, limit, hangHint), faultProgram)
		return
	case r.pending.Queued():
		r.startLimit = r.scope.After(limit, func() { in.spawnTimedOut(r) }) // the machine is slow, not the program
		return
	}
	stage := r.pending.Stage()
	if in.callOffWorker(r) {
		in.spawnFailed(r, fmt.Errorf("%s: no answer within start_timeout %s; %s", stage, limit, hangHint), faultProgram)
		return
	}
	// It is past the point of return: the kernel itself hangs in the exec.
	in.stick(fmt.Sprintf("%s: no answer within start_timeout %s; %s", stage, limit, hangHint))
}

// callOff is what CallOff does, in a turn of its own.
func (in *instance) callOff(r *run) {
	switch {
	case r != in.run || in.machine.state != Spawning:
		return
	case !in.machine.unwanted():
		return // wanted after all
	case r.hook != nil:
		r.hook.stop() // its end ends the start
		return
	case r.begin != nil:
		r.begin = nil
		r.endStartLimit()
	case r.pending != nil && !in.callOffWorker(r):
		return
	}
	in.do(func() []Effect { return in.machine.calledOff(in.left(r)) })
}

// callOffWorker reports whether the spawn could be called off.
func (in *instance) callOffWorker(r *run) bool {
	if !in.callOffPending(r.pending, "") {
		return false
	}
	r.pending = nil
	r.endStartLimit()
	return true
}

// callOffPending reports whether a spawn, of a hook if that is not empty, could be called off. The worker is counted until
// it comes back, so that a start that hangs is not begun again and again.
func (in *instance) callOffPending(pending PendingSpawn, hook string) bool {
	stage := hook + pending.Stage()
	if !pending.CallOff(in.workerBack) {
		return false
	}
	in.hanging++
	in.remark().hangsIn = stage
	return true
}

// reap takes the status of the main process when it has ended.
func (in *instance) reap(r *run, process Process) {
	if r.mainWatch != nil && r.lastWords == wordsNotAwaited && in.sup.telling() {
		return // not yet: others are to get their signals first
	}
	if r.process != process || !in.hearLastWords(r, process) {
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
		ran, stable = 0, 0 // nothing is known of it but that it was to be started
	}
	r.process = nil
	if r.group == 0 {
		r.group = int32(pid)
	}
	in.unstick()
	in.lastExit = &ExitStatus{Known: exit.Known, Code: exit.Code, at: now}
	if exit.Signal != 0 {
		in.lastExit.Signal, in.lastExit.signal = signalName(exit.Signal), int(exit.Signal)
	}
	in.recordExit(r, pid, exit, ran)
	if drained := in.capture.EndRun(); !drained || in.drainsUntil != "" {
		in.drain(r.invocationID)
	} else if in.runShown != nil {
		in.runShown()
	}
	note := ""
	if kills := in.tree.OOMKills(); kills > int(r.oomKills) {
		note = "out of memory: the kernel killed a process of it"
		if exit.Signal == unix.SIGKILL {
			note = "out of memory: the kernel killed it"
		}
		if limit := r.program.Limits.Memory; limit != nil {
			note += fmt.Sprintf(" (its limit is %d bytes)", *limit)
		}
	}
	if note == "" && in.note != "" {
		note, in.note = in.note, ""
	}
	in.do(func() []Effect { return in.machine.exited(now, exit, ran, stable, note, in.left(r)) })
	attrs := []any{"pid", pid, "exit", exit.String(), "ran", roundDuration(ran)}
	if before == Stopping || before == Killing {
		in.sup.log.Info("program stopped", append([]any{"instance", in.name}, attrs...)...)
		return
	}
	in.logFailure("program exited", attrs...)
}

// drain remembers that the output of a run may still be in the pipe: were superd and its keeper killed now, it would be lost.
func (in *instance) drain(run string) {
	in.draining = run
	if in.drainsUntil == "" {
		in.awaitDrained()
	}
}

// awaitDrained waits until what the run that has ended last has written is in the log. While that can't be written any number of others may
// end: then it waits again.
func (in *instance) awaitDrained() {
	run := in.draining
	in.drainsUntil = run
	in.capture.Drained(func() {
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
	case m.verdict == EndRetry:
		in.sup.log.Warn(message, attrs...)
	case m.verdict == EndFinal || m.verdict == EndGaveUp:
		in.sup.log.Error(message, append(attrs, "reason", m.cause)...)
	default:
		in.sup.log.Info(message, attrs...)
	}
}

func (in *instance) endRun() {
	in.run.scope.Close()
	in.run = nil
	in.unstick()
}
