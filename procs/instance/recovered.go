package instance

import (
	"slices"

	"superd/logs"
	"superd/pidfd"
	"superd/procs/counters"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/snapshot"
)

// A Recovered is what is known about an instance before it is resumed.
type Recovered struct {
	In             *Instance
	Saved          snapshot.Merged
	Recovered      *host.RecoveredProcess
	RecordedBefore eventlog.Recorded
	Leftovers      []host.Leftover // its processes of unknown runs
	Incomplete     bool            // processes may live that the journal does not have
	ProcessMissing bool            // no process was found for its start record
	OutputGap      bool            // no process had the read end of one of its FIFOs for some time
	notifyResumed  bool            // notifications of its main process are handled
	FDRenamed      bool            // a stored descriptor has another name than in the record
}

// ClaimNotifyFDs claims the notify socket and the readiness pipe of the main process.
func (a *Recovered) ClaimNotifyFDs() {
	r, in, recovered := a.Saved.Run, a.In, a.Recovered
	if r == nil || !in.Machine.State().Lives() && a.mainStart() == nil {
		return // there is no main process
	}
	p := a.Saved.RunDefinition(in.Program)
	if recovered.NotifySocket = in.Env.Paths.NotifySocket(in.Name, p); recovered.NotifySocket != "" {
		recovered.NotifyFD = in.Env.FDs.Claim(r.Notify)
	}
	if p.Ready != nil && p.Ready.FD != 0 && (in.Machine.State() == fsm.Starting || in.Machine.State() == fsm.Spawning) {
		recovered.ReadyNumber, recovered.ReadyFD = p.Ready.FD, in.Env.FDs.Claim(r.Ready)
	}
}

// RestoreOutput restores the counters of dropped output, and attaches the read ends of the FIFOs,
// which are reopened, to the collector.
func (a *Recovered) RestoreOutput() {
	in, recovered, log := a.In, a.Recovered, a.In.Env.Log
	_, fdNames := a.Saved.FIFOs()
	if a.Saved.Run != nil {
		program := a.Saved.RunDefinition(in.Program)
		var unknownStart []logs.Stream
		if r := a.Saved.Run; r.ReadyAt == 0 && awaitsLine(program) {
			for which, from := range [...]string{logs.Stdout: r.PrintsFrom, logs.Stderr: r.StderrFrom} {
				if from == "" {
					unknownStart = append(unknownStart, logs.Stream(which))
				}
			}
		}
		in.Output.Collector.ResumeRun(a.Saved.Run.ID, unknownStart...)
	}
	if d := a.Saved.Dropped; d != nil {
		in.Output.Collector.RestoreDrops(logs.Drops(*d))
	}
	for _, o := range recovered.Outputs {
		if o.Err != nil {
			in.ownProblems().noOutput = o.Err.Error()
			if recovered.Found != nil {
				log.Error("output not captured", "instance", in.Name, "error", o.Err)
			}
		}
		if o.ReadFD < 0 {
			continue
		}
		name := fdNames[o.Stream]
		if o.Gap {
			name, a.FDRenamed = in.Env.FDs.StoreFD(o.ReadFD, true), true
		}
		in.Output.Reattach(o.Stream, o.ReadFD, name)
	}
	if !a.OutputGap && a.Saved.Drain != "" {
		in.Output.Drain(a.Saved.Drain)
	}
}

// RecordOutputLoss records output that may be lost, and reports whether any may be. That is so if
// a process ended, or the output of an ended run was not written yet, while nothing had the read
// end of its pipe open.
func (a *Recovered) RecordOutputLoss() bool {
	if !a.OutputGap {
		return false
	}
	var runs []string
	if (a.Saved.Process() != nil || a.Saved.Start != nil) && a.Recovered.Ended {
		runs = append(runs, a.Saved.Run.ID)
		a.In.ownProblems().exitNote = fsm.Reason{Kind: fsm.ReasonOutputLost}
	}
	if a.Saved.Drain != "" {
		runs = append(runs, a.Saved.Drain)
	}
	for _, run := range runs {
		a.In.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Output, Run: run},
			fsm.Reason{Kind: fsm.ReasonOutputLost}))
	}
	return len(runs) > 0
}

// Resume resumes an instance in its recorded state.
func (a *Recovered) Resume() {
	in := a.In
	if a.Saved.Probes != "" { // a check may have been running
		in.execChecks(a.Saved.Probes).CleanUp(func() {})
	}
	switch {
	case (a.ProcessMissing || a.Saved.Quarantined || a.unrecorded()) && len(a.Leftovers) > 0, a.Saved.Quarantined && !in.Tree.Empty():
		in.QuarantineWithScan(a.Leftovers)
	case a.Saved.Quarantined && in.Machine.Desired().Up && !in.Membership.Leaves():
		in.Apply(in.Machine.WantUp(in.Machine.Desired().By, false, in.Conditions()))
	case a.Saved.Run != nil:
		a.resumeRun()
	case a.Saved.Due != nil:
		armRestart(in, *a.Saved.Due-in.Env.Loop.Now())
	case in.Machine.State() == fsm.Backoff, in.Machine.Retries():
		// No supervisor writes such a record
		armRestart(in, 0)
	}
	if !a.notifyResumed {
		a.releaseNotifyFDs()
	}
}

func (a *Recovered) resumeRun() {
	in, v := a.In, a.Saved.Run
	r := restoreRun(in, a.Saved.Config, v)
	r.recordedBefore = a.RecordedBefore
	switch in.Machine.State() {
	case fsm.Spawning:
		a.resumeSpawning(r)
	case fsm.Starting, fsm.Running, fsm.StopPending, fsm.Stopping, fsm.Killing:
		if a.Saved.MainExited {
			a.resumeUnrecordedExit(r)
			return
		}
		a.resumeMain(r, v.Main)
		a.resumeStop(r)
		a.resumeReadiness(r)
	case fsm.TearingDown:
		a.resumeTeardown(r)
	}
}

// process returns the adopted process, alive or not, its identity and the name of its pidfd in the
// descriptor store.
func (a *Recovered) process(saved *snapshot.Process) (p host.Process, id pidfd.Identity, storedName string) {
	env := a.In.Env
	id = saved.Identity()
	process := env.Reaper.Adopt(a.Recovered.Found, id)
	switch {
	case a.Recovered.Found == nil:
		env.FDs.Release(saved.FDName)
		return process, id, ""
	case env.FDs.Has(saved.FDName):
		return process, id, saved.FDName
	}
	a.FDRenamed = true
	return process, id, env.FDs.StoreProcess(process)
}

func (a *Recovered) resumeMain(r *run, saved *snapshot.Process) {
	process, id, storedName := a.process(saved)
	r.main.setFirst(process, id, storedName)
	a.resumeNotify(r)
}

// resumeNotify resumes the handling of a main process's notifications.
func (a *Recovered) resumeNotify(r *run) {
	a.notifyResumed = true
	in, recovered, v := a.In, a.Recovered, a.Saved.Run
	restore := func(fd int, name string) string {
		if fd >= 0 && !in.Env.FDs.Has(name) {
			a.FDRenamed = true
			return in.Env.FDs.StoreFD(fd, false)
		}
		return name
	}
	r.restoreNotify(v, restore(recovered.NotifyFD, v.Notify), restore(recovered.ReadyFD, v.Ready))
	r.releaseNotifyFDs()
	r.listenForNotify(recovered.NotifyFD, recovered.ReadyFD)
	r.restoreAnnouncements(v)
}

// releaseNotifyFDs closes and releases the notify socket and the readiness pipe if there is no main
// process.
func (a *Recovered) releaseNotifyFDs() {
	env, recovered := a.In.Env, a.Recovered
	env.Host.CloseFD(recovered.NotifyFD)
	env.Host.CloseFD(recovered.ReadyFD)
	if v := a.Saved.Run; v != nil {
		env.FDs.Release(v.Notify)
		env.FDs.Release(v.Ready)
	}
}

// resumeStop resumes the stop of a main process, with the same deadline.
func (a *Recovered) resumeStop(r *run) {
	in := a.In
	switch in.Machine.State() {
	case fsm.Stopping:
		left := r.stop.deadline - in.Env.Loop.Now()
		if r.stop.deadline == 0 { // recorded when stop_command began, before its time-out
			left = r.program.StopTimeout
		}
		r.stop.arm(left)
		switch {
		case r.beside.StopState() != snapshot.StopCommandRuns:
		case len(r.program.StopCommand) > 0:
			r.stop.runCommand() // again: it was ended
		default: // the definition has it no longer
			r.stop.commandOver()
		}
		if in.IsLogger() && r.isLast() {
			endInput(in)
		}
	case fsm.Killing:
		if a.Recovered.Found != nil {
			r.stop.kill()
		}
		r.stop.armKill()
	}
}

// resumeReadiness continues the wait of a recovered run for its readiness, with the rest of its
// time, or the monitoring of a ready one.
func (a *Recovered) resumeReadiness(r *run) {
	v := a.Saved.Run
	switch a.In.Machine.State() {
	case fsm.Starting:
		if v.Beside != nil && v.Beside.PostStart > 0 {
			r.beside.PostStart(v.Beside.PostStart - 1)
			return
		}
		r.awaitReady(a.Saved.Run.StartDeadline)
		r.readiness.AllowOneCheck()
	case fsm.Running:
		r.startMonitoring()
	}
	if v.Beside != nil && v.Beside.Reload != nil {
		r.beside.ResumeReload(v.Beside.Reload)
	}
}

func (a *Recovered) resumeSpawning(r *run) {
	in, v, m, start := a.In, a.Saved.Run, &a.In.Machine, a.mainStart()
	if in.Membership.Leaves() && m.Desired().Up { // nothing of a retired instance is started
		m.SetDesired(false, fsm.By(fsm.ActorRemoval))
	}
	switch {
	case v.Hook != nil && (v.Hook.Process != nil || a.Saved.Start != nil):
		a.resumeHook(r.spawn.preStart(), v.Hook)
		if in.MustEnd() || held(in) {
			r.hook.stop()
		}
	case start != nil && start.Process != nil:
		a.spawned(r, start.Process)
	case start != nil && in.IsOneShot():
		// It may have run and ended
		a.spawned(r, &snapshot.Process{})
	case start != nil && r.hasLeftovers():
		in.Apply(m.Interrupted(true, in.Conditions()))
	case in.MustEnd(), m.StartBlocked(in.Conditions()):
		// Something may have changed without a record: a conflicting instance may live, or a
		// requirement may be lost.
		in.Apply(m.SpawnCanceled(r.hasLeftovers(), in.Conditions()))
	case len(in.Program.Invalid) > 0:
		r.spawn.failed(fsm.ReasonInvalid.With(in.Program.Invalid.Error()), host.FaultFinal)
	case r.spawn.preStarted:
		if start != nil { // a process may have run with this id
			r.removeSandbox()
			r.invocationID = in.Env.NewInvocationID()
		}
		r.spawn.startMain()
	case v.Hook != nil:
		r.spawn.preStart().from(v.Hook.At).next()
	default:
		r.spawn.begin()
	}
}

// spawned resumes a main process of which only the start record is known.
func (a *Recovered) spawned(r *run, saved *snapshot.Process) {
	in := a.In
	if r.main.startedAt = a.Saved.Start.At; r.main.startedAt == 0 {
		r.main.startedAt = in.Env.Loop.Now()
	}
	if saved.Pid == 0 {
		a.Recovered.Found = nil
	}
	a.resumeMain(r, saved)
	if saved.Pid != 0 {
		r.main.recordStart()
	}
	r.spawnedMain()
	if r.readiness != nil {
		r.readiness.AllowOneCheck()
		in.Save()
	}
}

// resumeHook resumes a hook. If it has ended and nothing has its exit status, that is unknown.
func (a *Recovered) resumeHook(h *hookRun, saved *snapshot.Hook) {
	h.restore(saved)
	h.scope = h.run.scope.Child()
	p := a.Saved.Process()
	if p == nil {
		p, a.Recovered.Found = &snapshot.Process{}, nil
	}
	now := h.in.Env.Loop.Now()
	if h.due == 0 {
		h.due = now + h.timeout
	}
	process, id, storedName := a.process(p)
	h.watch(process, id, storedName)
	switch {
	case a.Recovered.Found == nil:
	case h.stopped:
		h.timer = h.scope.After(max(h.due-now, 0), h.kill)
	default:
		h.timer = h.scope.After(max(h.due-now, 0), h.timedOut)
	}
}

func (a *Recovered) resumeTeardown(r *run) {
	v := a.Saved.Run
	switch {
	case v.Hook == nil:
		r.killLeftovers(r.stop.teardownDeadline)
	case v.Hook.Process == nil && a.Saved.Start == nil:
		r.postStop().from(v.Hook.At).next()
	default:
		a.resumeHook(r.postStop(), v.Hook)
	}
}

// resumeUnrecordedExit resumes the post_stop hook of a run whose main process has ended without a
// record.
func (a *Recovered) resumeUnrecordedExit(r *run) {
	in, m := a.In, &a.In.Machine
	now := in.Env.Loop.Now()
	in.ownProblems().LastExit = &ExitStatus{EndedAt: now}
	in.Counts.Exit(counters.Unknown, 0)
	if r.main.startedAt == 0 {
		r.main.startedAt = now
	}
	end := fsm.RunEnd{At: now, Ran: now - r.main.startedAt, Stable: r.stable(now), Leftovers: true}
	m.Exited(end, in.Conditions(), in.Env.RNG)
	in.Env.Owner.Counted(in)
	a.resumeHook(r.postStop(), a.Saved.Run.Hook)
	in.Save()
}

// mainStart returns the start record of the main process; nil if there is none, or if the record of
// the instance has the result of that start.
func (a *Recovered) mainStart() *snapshot.Start {
	if start := a.Saved.Start; start != nil && start.Hook == nil {
		return start
	}
	return nil
}

// unrecorded reports whether processes that the journal does not have may belong to the instance.
func (a *Recovered) unrecorded() bool {
	if !a.Incomplete || a.Recovered.Found != nil {
		return false
	}
	// If stops spare processes, a process that leads no session was spared.
	return a.In.Program.KillMode.KillsTree() ||
		slices.ContainsFunc(a.Leftovers, func(leftover host.Leftover) bool { return leftover.Leads })
}
