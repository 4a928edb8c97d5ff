package procs

import (
	"errors"
	"fmt"
	"superd/config"
	"superd/logs"
	"superd/procs/fsm"
	"superd/procs/host"
)

// spawn begins a run.
func (in *instance) spawn() {
	if in.treeRecovered && in.tree.Empty() {
		in.renewTree("")
	}
	r := &run{in: in, program: in.program, config: in.sup.config.number, invocationID: in.sup.newInvocationID(), notifyState: &noNotifyState}
	r.scope.Open(&in.scope)
	in.run = r
	in.setLogOptions() // the previous run may have begun with other options
	in.collector.BeginRun(r.invocationID, awaitsLine(r.program))
	switch {
	case len(in.program.Invalid) > 0:
		mistakes := fsm.ReasonInvalid.With(in.program.Invalid.Error())
		r.scope.Post(func() { in.spawnFailed(r, mistakes, host.FaultFinal) })
	case in.hungWorkers > 0:
		// A cancelled worker has not returned: at most one worker at a time hangs in a file system
		// that does not respond
		r.delayedBegin = func() { in.begin(r) }
		r.startTimer = r.scope.After(r.program.StartTimeout, func() { in.spawnTimedOut(r) })
	default:
		in.begin(r)
	}
}

// begin starts the pre_start hooks or, without any, the main process.
func (in *instance) begin(r *run) {
	r.delayedBegin = nil
	if len(r.program.PreStart) == 0 {
		in.spawnMain(r)
		return
	}
	in.preStart(r).next()
}

// preStart returns the hookRun of the pre_start hooks, which then starts the main process.
func (in *instance) preStart(r *run) *hookRun {
	return in.newHooks(r, "pre_start", r.program.PreStart, func(err error) {
		switch {
		case errors.Is(err, errHookStopped) || in.mustEnd():
			in.apply(in.machine.SpawnCanceled(in.hasLeftovers(r), in.conditions()))
		case err != nil:
			in.spawnFailed(r, startFailure(fsm.ReasonHookFailed, err), faultIn(err))
		default:
			r.preStarted = true
			in.save()
			in.spawnMain(r)
		}
	})
}

// spawnMain spawns the main process.
func (in *instance) spawnMain(r *run) {
	r.startTimer.Stop()
	r.startTimer = r.scope.After(r.program.StartTimeout, func() { in.spawnTimedOut(r) })
	record := in.newStartRecord(r)
	spec := in.spawnSpec(r, r.program, record)
	spec.Process = &r.firstProcess
	in.addNotify(spec, r.program, record)
	if record.value.Notify != "" || record.value.Ready != "" {
		state := r.ownNotifyState()
		state.notifyFDName, state.readyFDName = record.value.Notify, record.value.Ready
	}
	in.releaseNotifyFDs(r)
	r.pending = in.sup.host.Spawn(spec, func(child host.Child, err error) {
		record.complete(func() { in.spawnResult(r, record, child, err) })
	})
}

// workerReturned is called when a cancelled worker returns. After the last one, it begins the run
// that waits for that.
func (in *instance) workerReturned() {
	in.hungWorkers--
	if r := in.run; in.hungWorkers == 0 && r != nil && r.delayedBegin != nil {
		r.startTimer.Stop()
		r.delayedBegin()
	}
}

// spawnSpec returns the specification of a process of the run. record is nil for a process that a
// successor need not know.
func (in *instance) spawnSpec(r *run, program *config.Program, record *startRecord) *host.SpawnSpec {
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
	spec.Own.Set("SUPERD_OWNER", in.sup.options.Paths.RuntimeDir)
	spec.Own.Set("SUPERD_REPLICA", in.replica())
	if record != nil {
		spec.LogIntent, spec.StoreFDs, spec.LogSpawned = record.logIntent, record.storeFDs, record.logSpawned
	}
	for _, which := range streamsOf(program) {
		if record != nil && in.collector.FD(which) < 0 {
			if in.fifoNames[which] == 0 {
				in.fifoNames[which] = fdNameOf(in.sup.fds.reserve(true))
			}
			record.value.FDNames[which] = in.fifoNames[which].String()
		}
		output := host.Outlet{FIFO: in.sup.fifoPath(in.name, which), ReadFD: in.collector.FD(which)}
		if program.Log.Format == config.LogDirect {
			output.Direct = func(uid uint32) (int, error) { return in.collector.OpenDirect(which, uid) }
		}
		spec.Outputs = append(spec.Outputs, output)
	}
	if program.LoggerOf != "" && record != nil && record.value.Hook == nil {
		spec.Input = &host.Outlet{FIFO: in.sup.fifoPath(in.name, input), ReadFD: in.inputFD()}
	}
	return spec
}

// stopStartTimer ends the start time-out.
func (r *run) stopStartTimer() {
	r.startTimer.Stop()
	r.startTimer = nil
}

// attach takes over the read ends of the FIFOs that were created for the start, in the order of the
// streams.
func (in *instance) attach(record *startRecord, child host.Child) {
	if child.InputFD > 0 {
		in.setInput(child.InputFD, in.sup.fds.storeFD(child.InputFD, true))
	}
	for which, fd := range child.ReadFDs {
		if fd < 0 {
			continue
		}
		if in.noOutput != "" {
			in.noOutput = ""
		}
		if name := record.value.FDNames[which]; name != "" && !record.stored {
			in.sup.fds.keeper.Store(name, fd)
		}
		if err := in.collector.Attach(logs.Stream(which), fd); err != nil {
			in.sup.log.Error("output not captured", "instance", in.name, "error", err)
		}
	}
}

// spawnResult handles the result of the spawn. It always comes, unless the spawn was cancelled.
func (in *instance) spawnResult(r *run, record *startRecord, child host.Child, err error) {
	r.pending = nil
	r.stopStartTimer()
	in.clearUnkillable()
	in.attach(record, child)
	if isKilled(err) && !r.timedOut {
		in.apply(in.machine.SpawnCanceled(in.hasLeftovers(r), in.conditions()))
		return
	}
	if err != nil {
		in.spawnFailed(r, startFailure(fsm.ReasonStartFailed, err), faultIn(err))
		return
	}
	r.oomKills, r.envSum = int32(in.tree.OOMKills()), child.EnvSum
	r.startedAt = record.startedAt()
	in.setFirstMain(r, child.Process, child.ID, in.sup.fds.storeProcess(child.Process))
	in.listenForNotify(r, child.NotifyFD, child.ReadyFD)
	in.sup.log.Info("program started", "instance", in.name, "pid", r.process.Pid())
	in.recordStart()
	in.spawnedMain(r)
}

func (in *instance) spawnFailed(r *run, reason fsm.Reason, fault host.Fault) {
	in.recordNoStart(r, reason)
	failure := fsm.StartFailure{At: in.sup.loop.Now(), Reason: reason, Fault: faultOf(fault), Leftovers: in.hasLeftovers(r)}
	in.apply(in.machine.SpawnFailed(failure, in.conditions(), in.sup.rng))
	in.logFailure("program not started", "error", reason.String())
}

// spawnTimedOut handles the end of the start time-out while the spawn has no result.
func (in *instance) spawnTimedOut(r *run) {
	limit := r.program.StartTimeout
	switch {
	case r.delayedBegin != nil:
		r.delayedBegin = nil
		text := fmt.Sprintf("an earlier start still hangs in %s, after another start_timeout %s; %s",
			in.hangsIn, limit, host.HangHint)
		in.spawnFailed(r, fsm.ReasonStartTimeout.With(text), host.FaultProgram)
		return
	case r.pending.Queued():
		// The machine is slow, not the program
		r.startTimer = r.scope.After(limit, func() { in.spawnTimedOut(r) })
		return
	}
	stage := r.pending.Stage()
	if in.cancelWorker(r) {
		in.spawnFailed(r, r.startTimeoutReason(stage), host.FaultProgram)
		return
	}
	r.timedOut = true
	in.awaitKilled(r)
}

// awaitKilled waits for the result of a spawn that could not be cancelled; its child, if it
// existed, was killed. After KillPause it cancels the spawn, or reports a child that still lives.
func (in *instance) awaitKilled(r *run) {
	r.startTimer.Stop()
	r.awaitsKill = true
	r.startTimer = r.scope.After(host.KillPause, func() {
		pending, stage := r.pending, r.pending.Stage()
		switch {
		case !in.cancelWorker(r):
			in.markUnkillable(in.sup.describeHungStart(pending))
		case r.timedOut:
			in.spawnFailed(r, r.startTimeoutReason(stage), host.FaultProgram)
		default:
			in.apply(in.machine.SpawnCanceled(in.hasLeftovers(r), in.conditions()))
		}
	})
}

// startTimeoutReason returns the reason of a start that hangs in a stage.
func (r *run) startTimeoutReason(stage string) fsm.Reason {
	return fsm.ReasonStartTimeout.With(
		fmt.Sprintf("%s: no answer within start_timeout %s; %s",
			stage, r.program.StartTimeout, host.HangHint))
}

// describeHungStart describes what a spawn that can't be cancelled waits for.
func (p *platform) describeHungStart(pending host.PendingSpawn) string {
	text := pending.Stage() + ": no answer; " + host.HangHint
	if pid := pending.Child(); pid != 0 {
		waits := p.host.WaitsIn(pid)
		text = fmt.Sprintf("%s: process %d survives SIGKILL: state %s; %s",
			pending.Stage(), pid, waits.Text, waits.Hint())
	}
	return text
}

// cancelSpawn performs the effect CancelSpawn, in a step of its own.
func (in *instance) cancelSpawn(r *run) {
	switch {
	case r != in.run || in.machine.State() != fsm.Spawning:
		return
	case !in.mustEnd():
		return // the start is wanted again
	case r.hook != nil:
		r.hook.stop() // when the hook has ended, so does the start
		return
	case r.delayedBegin != nil:
		r.delayedBegin = nil
		r.stopStartTimer()
	case r.pending != nil && !in.cancelWorker(r):
		in.awaitKilled(r)
		return
	}
	in.apply(in.machine.SpawnCanceled(in.hasLeftovers(r), in.conditions()))
}

// cancelWorker cancels the spawn of the main process if possible, and reports whether it did.
func (in *instance) cancelWorker(r *run) bool {
	if !in.cancelPending(r.pending, "") {
		return false
	}
	r.pending = nil
	r.stopStartTimer()
	return true
}

// cancelPending cancels a spawn if possible, and reports whether it did. hook is the prefix of its
// stage: empty for the main process. Until the cancelled worker returns, the instance spawns
// nothing else, so that workers that hang do not accumulate.
func (in *instance) cancelPending(pending host.PendingSpawn, hook string) bool {
	stage := hook + pending.Stage()
	if !pending.Cancel(in.workerReturned) {
		return false
	}
	in.hungWorkers++
	in.ownProblems().hangsIn = stage
	return true
}

// faultOf returns the fault as the machine has it.
func faultOf(fault host.Fault) fsm.Fault {
	switch fault {
	case host.FaultResource:
		return fsm.FaultResource
	case host.FaultFinal:
		return fsm.FaultFinal
	default:
		return fsm.FaultProgram
	}
}

// faultIn returns which fault the error of a start reports.
func faultIn(err error) host.Fault {
	if se, ok := errors.AsType[*host.SpawnError](err); ok {
		return se.Fault
	}
	return host.FaultProgram
}

// startFailure returns the reason of a start that failed with err. It is of that kind, except in a
// resource shortage.
func startFailure(kind fsm.ReasonKind, err error) fsm.Reason {
	if faultIn(err) == host.FaultResource {
		kind = fsm.ReasonShortage
	}
	return kind.With(err.Error())
}

// isKilled reports whether a start failed because superd killed its child.
func isKilled(err error) bool {
	se, ok := errors.AsType[*host.SpawnError](err)
	return ok && se.Killed
}
