package procs

import (
	"fmt"
	"superd/config"
	"superd/procs/host"
	"time"

	"golang.org/x/sys/unix"
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
	pid, ran, stable, before := r.process.Pid(), now-r.startedAt, r.stable(now), in.machine.state
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
	r.exitedEarly = exit.Success() && ran < earlyExitTime && !in.isOneShot() && (before == Running || before == Starting)
	in.do(func() []Effect { return in.machine.exited(now, exit, ran, stable, note, in.hasLeftovers(r)) })
	// There is no teardown, which would find the leftover processes
	if r.exitedEarly && r.program.KillMode == config.KillProcess {
		in.checkBackground()
	}
	attrs := []any{"pid", pid, "exit", exit.String(), "ran", roundDuration(ran)}
	if before == Stopping || before == Killing {
		in.sup.log.Info("program stopped", append([]any{"instance", in.name}, attrs...)...)
		return
	}
	in.logFailure("program exited", attrs...)
}

// earlyExitTime bounds the run time of a main process that counts as gone into the background if it
// exits with success.
const earlyExitTime = 2 * time.Second

// checkBackground checks whether the program has gone into the background.
func (in *instance) checkBackground() {
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
