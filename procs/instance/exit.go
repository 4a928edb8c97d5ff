package instance

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/words"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/snapshot"
)

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
	if !ended || in.run != r {
		return
	}
	m.scope.Close()
	if r.listener != nil {
		r.listener = nil
	}
	now := in.Env.Loop.Now()
	in.Env.Reaper.Acknowledge(m.id)
	pid, ran, stable, before := m.process.Pid(), now-m.startedAt, r.stable(now), in.Machine.State()
	if pid == 0 {
		ran, stable = 0, 0 // only the start record is known
	}
	m.process = nil
	if m.group == 0 {
		m.group = int32(pid)
	}
	in.clearUnkillable()
	in.LastExit = &ExitStatus{Known: exit.Known, Code: exit.Code, EndedAt: now}
	if exit.Signal != 0 {
		in.LastExit.Signal, in.LastExit.SignalNumber = SignalName(exit.Signal), int(exit.Signal)
	}
	m.recordExit(pid, exit, ran)
	if drained := in.Output.Collector.EndRun(); !drained || in.Output.awaitsDrain {
		in.Output.drain(r.invocationID)
	} else if in.Output.onRunEnd != nil {
		in.Output.onRunEnd()
	}
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
	if note.Kind == fsm.ReasonNone && in.exitNote.Kind != fsm.ReasonNone {
		note, in.exitNote = in.exitNote, fsm.Reason{}
	}
	m.exitedEarly = exit.Success() && ran < earlyExitTime && !in.IsOneShot() && (before == fsm.Running || before == fsm.Starting)
	in.Apply(in.Machine.Exited(fsm.RunEnd{
		At: now, Exit: exitOf(exit), Ran: ran, Stable: stable, Note: note, Leftovers: r.hasLeftovers(),
	}, in.Conditions(), in.Env.RNG))
	// There is no teardown, which would find the leftover processes
	if m.exitedEarly && r.program.KillMode == config.KillProcess {
		in.checkBackground()
	}
	attrs := []any{"pid", pid, "exit", exit.String(), "ran", words.Round(ran)}
	if before == fsm.Stopping || before == fsm.Killing {
		in.Env.Log.Info("program stopped", append([]any{"instance", in.Name}, attrs...)...)
		return
	}
	in.logFailure("program exited", attrs...)
}

// snapshot returns the snapshot of the exit status; nil for nil.
func (e *ExitStatus) snapshot() *snapshot.Exit {
	if e == nil {
		return nil
	}
	return &snapshot.Exit{Known: e.Known, Code: e.Code, Signal: e.SignalNumber, At: e.EndedAt}
}

// restoreExit returns the exit status of a snapshot; nil for nil.
func restoreExit(v *snapshot.Exit) *ExitStatus {
	if v == nil {
		return nil
	}
	e := &ExitStatus{Known: v.Known, Code: v.Code, SignalNumber: v.Signal, EndedAt: v.At}
	if v.Signal != 0 {
		e.Signal = SignalName(syscall.Signal(v.Signal))
	}
	return e
}

// exitOf returns the exit of a main process as the machine has it.
func exitOf(e pidfd.Exit) fsm.Exit {
	return fsm.Exit{Known: e.Known, Code: e.Code, Signal: int(e.Signal), Text: e.String()}
}

// earlyExitTime bounds the run time of a main process that counts as gone into the background if it
// exits with success.
const earlyExitTime = 2 * time.Second

// checkBackground checks whether the program has gone into the background.
func (in *Instance) checkBackground() {
	exit, ending := in.LastExit, in.Machine.ExitReason().Kind
	in.Tree.Look(func(found []host.Member) {
		for _, m := range found {
			m.Process.Close()
		}
		if len(found) > 0 && in.LastExit == exit && in.Machine.ExitReason().Kind == ending {
			in.wentToBackground()
		}
	})
}

// wentToBackground records that the program has gone into the background.
func (in *Instance) wentToBackground() {
	in.Machine.WentToBackground()
	in.Save()
	in.Node.Publish()
	in.Env.Owner.Changed()
}

// drain records that output of a run may still be in the pipe: it would be lost if superd and the
// keeper were killed now.
func (o *output) drain(run string) {
	o.drainingRun = run
	if !o.awaitsDrain {
		o.awaitDrained()
	}
}

// awaitDrained waits until the output of the last run that ended is in the log. If another run ends
// before that, it then waits for the output of that run.
func (o *output) awaitDrained() {
	run := o.drainingRun
	o.awaitsDrain = true
	o.Collector.Drained(func() {
		o.awaitsDrain = false
		if o.drainingRun != run {
			o.awaitDrained()
			return
		}
		o.drainingRun = ""
		o.in.Save()
		if o.onRunEnd != nil {
			o.onRunEnd()
		}
	})
}

// logFailure logs the end of a run and what follows it.
func (in *Instance) logFailure(message string, attrs ...any) {
	attrs = append([]any{"instance", in.Name}, attrs...)
	switch m := &in.Machine; {
	case m.State() == fsm.Backoff:
		in.Env.Log.Warn(message, append(attrs, "restart_in", words.Round(m.Delay()))...)
	case m.Outcome() == fsm.RunEndedRetry:
		in.Env.Log.Warn(message, attrs...)
	case m.Outcome() == fsm.RunEndedFinal || m.Outcome() == fsm.RunEndedStartLimit:
		in.Env.Log.Error(message, append(attrs, "reason", m.StateReason().String())...)
	default:
		in.Env.Log.Info(message, attrs...)
	}
}

func (in *Instance) endRun() {
	in.run.scope.Close()
	in.run = nil
	in.clearUnkillable()
}
