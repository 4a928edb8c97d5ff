package procs

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
func (in *instance) reap(r *run, process host.Process) {
	if r.mainWatch != nil && r.notifyDrain == drainNotStarted && in.sup.shutdown.requestingStops() {
		return // later: the other programs get their stop signals first
	}
	if r.mainWatch == nil && r.process == process && !process.Ended() {
		return // a periodic check of an unwatched process
	}
	if r.process != process || !in.drainNotifyBeforeReap(r, process) {
		return
	}
	exit, ended := in.sup.reaper.waitStatus(process)
	if !ended || in.run != r {
		return
	}
	r.mainScope.Close()
	if r.listener != nil {
		r.listener = nil
	}
	now := in.sup.loop.Now()
	in.sup.reaper.acknowledge(r.id)
	pid, ran, stable, before := r.process.Pid(), now-r.startedAt, r.stable(now), in.machine.State()
	if pid == 0 {
		ran, stable = 0, 0 // only the start record is known
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
	if drained := in.collector.EndRun(); !drained || in.awaitedDrain != "" {
		in.drain(r.invocationID)
	} else if in.onRunEnd != nil {
		in.onRunEnd()
	}
	note := fsm.Reason{}
	if kills := in.tree.OOMKills(); kills > int(r.oomKills) {
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
	r.exitedEarly = exit.Success() && ran < earlyExitTime && !in.isOneShot() && (before == fsm.Running || before == fsm.Starting)
	in.apply(in.machine.Exited(fsm.RunEnd{
		At: now, Exit: exitOf(exit), Ran: ran, Stable: stable, Note: note, Leftovers: in.hasLeftovers(r),
	}, in.conditions(), in.sup.rng))
	// There is no teardown, which would find the leftover processes
	if r.exitedEarly && r.program.KillMode == config.KillProcess {
		in.checkBackground()
	}
	attrs := []any{"pid", pid, "exit", exit.String(), "ran", words.Round(ran)}
	if before == fsm.Stopping || before == fsm.Killing {
		in.sup.log.Info("program stopped", append([]any{"instance", in.name}, attrs...)...)
		return
	}
	in.logFailure("program exited", attrs...)
}

// snapshot returns the snapshot of the exit status; nil for nil.
func (e *ExitStatus) snapshot() *snapshot.Exit {
	if e == nil {
		return nil
	}
	return &snapshot.Exit{Known: e.Known, Code: e.Code, Signal: e.signal, At: e.at}
}

// restoreExit returns the exit status of a snapshot; nil for nil.
func restoreExit(v *snapshot.Exit) *ExitStatus {
	if v == nil {
		return nil
	}
	e := &ExitStatus{Known: v.Known, Code: v.Code, signal: v.Signal, at: v.At}
	if v.Signal != 0 {
		e.Signal = signalName(syscall.Signal(v.Signal))
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
func (in *instance) checkBackground() {
	exit, ending := in.lastExit, in.machine.ExitReason().Kind
	in.tree.Look(func(found []host.Member) {
		for _, m := range found {
			m.Process.Close()
		}
		if len(found) > 0 && in.lastExit == exit && in.machine.ExitReason().Kind == ending {
			in.wentToBackground()
		}
	})
}

// wentToBackground records that the program has gone into the background.
func (in *instance) wentToBackground() {
	in.machine.WentToBackground()
	in.save()
	in.publish()
	in.sup.subscriptions.changed()
}

// drain records that output of a run may still be in the pipe: it would be lost if superd and the
// keeper were killed now.
func (in *instance) drain(run string) {
	in.drainingRun = run
	if in.awaitedDrain == "" {
		in.awaitDrained()
	}
}

// awaitDrained waits until the output of the last run that ended is in the log. If another run ends
// before that, it then waits for the output of that run.
func (in *instance) awaitDrained() {
	run := in.drainingRun
	in.awaitedDrain = run
	in.collector.Drained(func() {
		in.awaitedDrain = ""
		if in.drainingRun != run {
			in.awaitDrained()
			return
		}
		in.drainingRun = ""
		in.save()
		if in.onRunEnd != nil {
			in.onRunEnd()
		}
	})
}

// logFailure logs the end of a run and what follows it.
func (in *instance) logFailure(message string, attrs ...any) {
	attrs = append([]any{"instance", in.name}, attrs...)
	switch m := &in.machine; {
	case m.State() == fsm.Backoff:
		in.sup.log.Warn(message, append(attrs, "restart_in", words.Round(m.Delay()))...)
	case m.Outcome() == fsm.RunEndedRetry:
		in.sup.log.Warn(message, attrs...)
	case m.Outcome() == fsm.RunEndedFinal || m.Outcome() == fsm.RunEndedStartLimit:
		in.sup.log.Error(message, append(attrs, "reason", m.StateReason().String())...)
	default:
		in.sup.log.Info(message, attrs...)
	}
}

func (in *instance) endRun() {
	in.run.scope.Close()
	in.run = nil
	in.clearUnkillable()
}
