package instance

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/signame"
	"superd/internal/words"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/counters"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance/paths"
)

// setFirst sets the first main process of the run. storedName is the name of its pidfd in the
// descriptor store.
func (m *mainProcess) setFirst(process host.Process, id pidfd.Identity, storedName string) {
	r := m.run
	r.hadProcess = true
	m.scope.Open(&r.scope)
	m.set(process, id, storedName)
}

// set sets the main process, whose exit ends the run.
func (m *mainProcess) set(process host.Process, id pidfd.Identity, storedName string) {
	m.process, m.id, m.fdName = process, id, host.FDNameOf(storedName)
	m.pidfdScope.Open(&m.scope)
	m.pidfdScope.Adopt(&m.releaseLink, m)
	m.drain = drainNotStarted
	m.count++
	number := m.count
	m.watch = &m.firstWatch
	if number > 1 {
		m.watch = new(loop.Watch) // the loop may still use the watch of the process before
	}
	watching, _ := m.run.in.Env.Reaper.WatchExit(&m.pidfdScope, m.watch, process, func() {
		if m.count == number && m.process != nil {
			m.reap(m.process)
		}
	})
	if !watching {
		m.watch = nil
	}
}

// Release closes the main process and releases its stored pidfd. It is called when pidfdScope
// closes.
func (m *mainProcess) Release() {
	loop.Unlink(&m.releaseLink)
	m.process.Close()
	m.run.in.Env.FDs.ReleaseProcess(m.fdName.String())
}

// reap handles the exit of the main process.
func (m *mainProcess) reap(process host.Process) {
	r := m.run
	in := r.in
	if m.watch != nil && m.drain == drainNotStarted && in.Env.Owner.Phase().Requesting {
		return // later: the other programs get their stop signals first
	}
	if m.watch == nil && m.process == process && !process.Ended() {
		return // a periodic check of an unwatched process
	}
	if m.process != process || !m.drainNotify(process) {
		return
	}
	exit, ended := in.Env.Reaper.WaitStatus(process)
	if !ended || in.run != r || m.searchesMain(exit) {
		return
	}
	m.scope.Close()
	r.listener = nil
	now := in.Env.Loop.Now()
	pid, ran, stable, before := m.process.Pid(), now-m.startedAt, r.stable(now), in.Machine.State()
	if pid == 0 {
		ran, stable = 0, 0 // only the start record is known
	}
	m.process = nil
	if m.group == 0 {
		m.group = int32(pid)
	}
	in.clearUnkillable()
	in.ownProblems().LastExit = &ExitStatus{Known: exit.Known, Code: exit.Code, EndedAt: now}
	if exit.Signal != 0 {
		in.LastExit.Signal, in.LastExit.SignalNumber = signame.Name(exit.Signal), int(exit.Signal)
	}
	m.recordExit(pid, exit, ran)
	stopping := before == fsm.Stopping || before == fsm.Killing
	in.Counts.Exit(counters.ResultOf(exitOf(exit), r.program.SuccessExitCodes, stopping), exit.UserTime+exit.SystemTime)
	in.Output.EndRun(r.invocationID)
	note := fsm.Reason{}
	if kills := in.Tree.OOMKills(); kills > int(m.oomKills) {
		note = fsm.ReasonOutOfMemory.With("out of memory: the kernel killed one of its processes")
		if exit.Signal == unix.SIGKILL {
			note.Detail = "out of memory: the kernel killed it"
		}
		if limit := r.program.Limits.Memory; limit != nil {
			note = note.And(fmt.Sprintf(" (its limit is %d bytes)", *limit))
		}
	}
	if in.exitNote.Kind != fsm.ReasonNone {
		if note.Kind == fsm.ReasonNone {
			note = in.exitNote
		}
		in.exitNote = fsm.Reason{} // it is not about the next run
	}
	r.beside.MainEnded()
	m.exitedEarly = exit.Success() && ran < earlyExitTime && !in.IsOneShot() && r.program.Type != config.TypeForking && (before == fsm.Running || before == fsm.Starting)
	in.Apply(in.Machine.Exited(fsm.RunEnd{
		At: now, Exit: exitOf(exit), Ran: ran, Stable: stable, Note: note, Leftovers: r.hasLeftovers(),
		Command: r.beside.StopState() != "",
	}, in.Conditions(), in.Env.RNG))
	// There is no teardown, which would find the leftover processes
	if m.exitedEarly && r.program.KillMode == config.KillProcess {
		checkBackground(in)
	}
	attrs := []any{"pid", pid, "exit", exit.String(), "ran", words.Round(ran)}
	if stopping {
		in.Env.Log.Info("program stopped", append([]any{"instance", in.Name}, attrs...)...)
		return
	}
	r.logEnd("program exited", attrs...)
}

// recordExit records the end of the main process, before the machine steps.
func (m *mainProcess) recordExit(pid int, exit pidfd.Exit, ran time.Duration) {
	r := m.run
	in := r.in
	if !in.Env.Records.HasEvents() {
		return
	}
	e := eventlog.WithReason(eventlog.Event{
		Kind: eventlog.Exit, Pid: pid, Exit: &eventlog.ExitStatus{Known: exit.Known},
		Started: in.Env.WallAt(m.startedAt), Duration: new(ran.Seconds()),
	}, exitOf(exit).Reason())
	switch {
	case !exit.Known:
	case exit.Signal != 0:
		e.Exit.Signal = new(signame.Name(exit.Signal))
	default:
		e.Exit.Code = &exit.Code
	}
	if exit.Known {
		e.CPU = new((exit.UserTime + exit.SystemTime).Seconds())
		e.MaxRSS, e.RSSBound = exit.MaxRSSBytes, in.Env.Host.BoundsMaxRSS(exit.MaxRSSBytes)
	}
	if !r.recordedBefore.Exit {
		in.Record(e)
	}
	success := exitOf(exit).Success(r.program.SuccessExitCodes)
	switch m := &in.Machine; {
	case m.State() == fsm.Starting, (m.State() == fsm.Running || m.State() == fsm.StopPending) && !success,
		m.FailureReason().Kind != fsm.ReasonNone:
		recordTail(r)
	}
}

// logEnd logs the end of a run, or of its start, and what follows it.
func (r *run) logEnd(message string, attrs ...any) {
	in := r.in
	attrs = append([]any{"instance", in.Name}, attrs...)
	switch m := &in.Machine; {
	case m.State() == fsm.Backoff:
		in.Env.Log.Warn(message, append(attrs, "restart_in", words.Round(m.Delay()))...)
	case m.Outcome() == fsm.RunEndedRetry:
		in.Env.Log.Warn(message, attrs...)
	case m.Outcome() == fsm.RunEndedFinal || m.Outcome() == fsm.RunEndedStartLimit:
		if reason := m.StateReason().String(); !slices.Contains(attrs, any(reason)) {
			attrs = append(attrs, "reason", reason)
		}
		in.Env.Log.Error(message, attrs...)
	default:
		in.Env.Log.Info(message, attrs...)
	}
}

// NotifyDrainLimit bounds how long the exit of a main process is delayed while earlier
// notifications can't be read.
const NotifyDrainLimit = 2 * time.Second

// drainNotify reports whether all notifications sent before the exit of the main process
// are read: one of them may name another main process. If not, reap is called later.
func (m *mainProcess) drainNotify(process host.Process) bool {
	r := m.run
	in := r.in
	if m.drain != drainNotStarted {
		return m.drain == drainDone
	}
	m.drain = drainStarted
	synchronous := true
	var limit *loop.Timer
	finish := func() {
		if m.process != process || m.drain == drainDone {
			return
		}
		m.drain = drainDone
		if synchronous {
			return
		}
		limit.Stop()
		m.reap(process)
		in.Env.Reaper.Schedule() // the reaping of orphans may have stopped at this zombie
		if m.process == process {
			// A tracer still has it
			m.pidfdScope.Every(host.UnwatchedPause, func() { m.reap(process) })
		}
	}
	r.whenNotifyDrained(finish)
	if synchronous = false; m.drain == drainStarted && m.process == process {
		m.watch.Stop() // it would call reap in each turn
		limit = m.scope.After(NotifyDrainLimit, finish)
	}
	return m.drain == drainDone && m.process == process
}

// end ends the run.
func (r *run) end() {
	r.beside.Leave(fsm.Stopped)
	r.beside.DropStopCommand()
	r.scope.Close()
	r.in.run = nil
	r.in.clearUnkillable()
	r.removeSandbox()
	r.in.Output.AfterRun()
}

// removeSandbox removes what is left of the run's sandbox.
func (r *run) removeSandbox() {
	if box := r.program.Sandbox; box != nil && box.PrivateTmp {
		r.in.Env.Host.RemoveTmp(paths.PrivateTmp(r.in.Name, r.invocationID))
	}
	if len(r.in.sandbox) > 0 {
		r.in.ownProblems().sandbox = nil
	}
}

// earlyExitTime bounds the run time of a main process that counts as gone into the background if it
// exits with success.
const earlyExitTime = 2 * time.Second

// checkBackground checks whether the program has gone into the background.
func checkBackground(in *Instance) {
	exit, ending := in.LastExit, in.Machine.ExitReason().Kind
	in.Tree.Look(func(found []host.Member) {
		for _, m := range found {
			m.Process.Close()
		}
		if len(found) > 0 && in.LastExit == exit && in.Machine.ExitReason().Kind == ending {
			wentToBackground(in)
		}
	})
}

// wentToBackground records that the program has gone into the background.
func wentToBackground(in *Instance) {
	in.Machine.WentToBackground()
	in.Save()
	in.Node.Publish()
	in.Env.Owner.Changed()
}
