package instance

import (
	"errors"
	"fmt"

	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
)

// beginRun begins a run.
func beginRun(in *Instance) {
	if in.Marks.TreeRecovered && in.Tree.Empty() {
		in.renewTree("")
	}
	r := newRun(in, in.Program, in.Env.NewInvocationID())
	r.config = in.Env.Config.Number()
	in.run = r
	r.in.Env.shared.directoryUsers.Claim(&r.scope, removedDirectories(r))
	in.Output.SetOptions() // the previous run may have begun with other options
	in.Output.Collector.BeginRun(r.invocationID, awaitsLine(r.program))
	switch {
	case len(in.Program.Invalid) > 0:
		mistakes := fsm.ReasonInvalid.With(in.Program.Invalid.Error())
		r.scope.Post(func() { r.spawn.failed(mistakes, host.FaultFinal) })
	case in.hungWorkers > 0:
		// A cancelled worker has not returned: at most one worker at a time hangs in a file system
		// that does not respond
		r.spawn.delayedBegin = r.spawn.begin
		r.spawn.timer = r.scope.After(r.program.StartTimeout, r.spawn.onTimeout)
	default:
		r.spawn.begin()
	}
}

// begin starts the pre_start hooks or, without any, the main process.
func (a *spawnAttempt) begin() {
	a.delayedBegin = nil
	if len(a.run.program.PreStart) == 0 {
		a.startMain()
		return
	}
	a.preStart().next()
}

// preStart returns the hookRun of the pre_start hooks, which then starts the main process.
func (a *spawnAttempt) preStart() *hookRun {
	r, in := a.run, a.run.in
	return newHooks(r, "pre_start", r.program.PreStart, func(err error) {
		switch {
		case errors.Is(err, errHookStopped) || in.MustEnd():
			in.Apply(in.Machine.SpawnCanceled(r.hasLeftovers(), in.Conditions()))
		case err != nil:
			a.failed(startFailure(fsm.ReasonHookFailed, err), host.FaultIn(err))
		default:
			a.preStarted = true
			in.Save()
			a.startMain()
		}
	})
}

// startMain spawns the main process.
func (a *spawnAttempt) startMain() {
	r, in := a.run, a.run.in
	a.timer.Stop()
	passed, err := in.Env.Sockets.PassTo(in.Name, r.program.Sockets)
	if err != nil {
		lost := fsm.ReasonStartFailed.With(err.Error())
		r.scope.Post(func() { a.failed(lost, host.FaultResource) })
		return
	}
	a.timer = r.scope.After(r.program.StartTimeout, a.onTimeout)
	record := r.newStartRecord(nil)
	spec := r.spawnSpec(r.program, record)
	spec.Process = &r.main.first
	r.addNotify(spec, record)
	passed.Give(spec)
	if record.value.Notify != "" || record.value.Ready != "" {
		state := r.ownNotifyState()
		state.notifyFDName, state.readyFDName = record.value.Notify, record.value.Ready
	}
	r.releaseNotifyFDs()
	a.pending = in.Env.Host.Spawn(spec, func(child host.Child, err error) {
		record.complete(func() { a.result(record, child, err) })
	})
}

// stopTimer ends the start time-out.
func (a *spawnAttempt) stopTimer() {
	a.timer.Stop()
	a.timer = nil
}

// result handles the result of the spawn. It always comes, unless the spawn was cancelled.
func (a *spawnAttempt) result(record *startRecord, child host.Child, err error) {
	r, in := a.run, a.run.in
	a.pending = nil
	a.stopTimer()
	in.clearUnkillable()
	attachOutput(in, record, child)
	if isKilled(err) && !a.timedOut {
		in.Apply(in.Machine.SpawnCanceled(r.hasLeftovers(), in.Conditions()))
		return
	}
	if err != nil {
		a.failed(startFailure(fsm.ReasonStartFailed, err), host.FaultIn(err))
		return
	}
	r.main.oomKills, a.envSum = int32(in.Tree.OOMKills()), child.EnvSum
	r.warnOfSandbox(child.SandboxWarnings)
	r.main.startedAt = record.startedAt()
	r.main.setFirst(child.Process, child.ID, in.Env.FDs.StoreProcess(child.Process))
	r.listenForNotify(child.NotifyFD, child.ReadyFD)
	in.Env.Log.Info("program started", "instance", in.Name, "pid", r.main.process.Pid())
	r.main.recordStart()
	r.spawnedMain()
}

// warnOfSandbox records what of the sandbox could not be enforced.
func (r *run) warnOfSandbox(warnings []string) {
	if len(warnings) == 0 {
		return
	}
	r.in.ownProblems().sandbox = warnings
	for _, warning := range warnings {
		r.in.Env.Log.Warn("sandbox not enforced", "instance", r.in.Name, "error", warning)
	}
}

func (a *spawnAttempt) failed(reason fsm.Reason, fault host.Fault) {
	r := a.run
	in := r.in
	r.recordNoStart(reason)
	failure := fsm.StartFailure{At: in.Env.Loop.Now(), Reason: reason, Fault: faultOf(fault), Leftovers: r.hasLeftovers()}
	in.Apply(in.Machine.SpawnFailed(failure, in.Conditions(), in.Env.RNG))
	r.logEnd("program not started", "error", reason.String())
}

// recordStart records the start of the main process, and counts it.
func (m *mainProcess) recordStart() {
	r := m.run
	why := r.in.Machine.StartReason()
	if r.in.problems == &noProblems && why.Kind == fsm.ReasonStarted {
		r.in.problems = &startedOnce
	} else {
		r.in.ownProblems().Counts.Starts.Add(why.Kind)
	}
	if r.recordedBefore.Start {
		return
	}
	r.in.Record(eventlog.Event{
		Kind: eventlog.Start, Pid: m.process.Pid(),
		Reason: why.OfStart(), ReasonKind: why.Kind.String(),
	})
}

// recordNoStart records a start that failed, with the output of its hooks.
func (r *run) recordNoStart(reason fsm.Reason) {
	r.in.ownProblems().Counts.NotStarted++
	r.in.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.NoStart}, reason))
	if r.hadProcess {
		recordTail(r)
	}
}

// onTimeout handles the end of the start time-out while the spawn has no result.
func (a *spawnAttempt) onTimeout() {
	r := a.run
	in := r.in
	limit := r.program.StartTimeout
	switch {
	case a.delayedBegin != nil:
		a.delayedBegin = nil
		text := fmt.Sprintf("an earlier start still hangs in %s, after another start_timeout %s; %s",
			in.hangsIn, limit, host.HangHint)
		a.failed(fsm.ReasonStartTimeout.With(text), host.FaultProgram)
		return
	case a.pending.Queued():
		// The machine is slow, not the program
		a.timer = r.scope.After(limit, a.onTimeout)
		return
	}
	stage := a.pending.Stage()
	if a.cancelWorker() {
		a.failed(a.timeoutReason(stage), host.FaultProgram)
		return
	}
	a.timedOut = true
	a.awaitKilled()
}

// awaitKilled waits for the result of a spawn that could not be cancelled; its child, if it
// existed, was killed. After KillPause it cancels the spawn, or reports a child that still lives.
func (a *spawnAttempt) awaitKilled() {
	r := a.run
	in := r.in
	a.timer.Stop()
	a.awaitsKill = true
	a.timer = r.scope.After(host.KillPause, func() {
		pending, stage := a.pending, a.pending.Stage()
		switch {
		case !a.cancelWorker():
			in.markUnkillable(host.DescribeHung(in.Env.Host, pending))
		case a.timedOut:
			a.failed(a.timeoutReason(stage), host.FaultProgram)
		default:
			in.Apply(in.Machine.SpawnCanceled(r.hasLeftovers(), in.Conditions()))
		}
	})
}

// timeoutReason returns the reason of a start that hangs in a stage.
func (a *spawnAttempt) timeoutReason(stage string) fsm.Reason {
	return fsm.ReasonStartTimeout.With(
		fmt.Sprintf("%s: no answer within start_timeout %s; %s",
			stage, a.run.program.StartTimeout, host.HangHint))
}

// cancel performs the effect CancelSpawn, in a step of its own.
func (a *spawnAttempt) cancel() {
	r := a.run
	in := r.in
	switch {
	case r != in.run || in.Machine.State() != fsm.Spawning:
		return
	case !in.MustEnd():
		return // the start is wanted again
	case r.hook != nil:
		r.hook.stop() // when the hook has ended, so does the start
		return
	case a.delayedBegin != nil:
		a.delayedBegin = nil
		a.stopTimer()
	case a.pending != nil && !a.cancelWorker():
		a.awaitKilled()
		return
	}
	in.Apply(in.Machine.SpawnCanceled(r.hasLeftovers(), in.Conditions()))
}

// cancelWorker cancels the spawn of the main process if possible, and reports whether it did.
func (a *spawnAttempt) cancelWorker() bool {
	if !a.run.cancelPending(a.pending, "") {
		return false
	}
	a.pending = nil
	a.stopTimer()
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

// startFailure returns the reason of a start that failed with err. It is of that kind, except in a
// resource shortage.
func startFailure(kind fsm.ReasonKind, err error) fsm.Reason {
	if host.FaultIn(err) == host.FaultResource {
		kind = fsm.ReasonShortage
	}
	return kind.With(err.Error())
}
