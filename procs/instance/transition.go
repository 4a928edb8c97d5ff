package instance

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/procs/eventlog"
	"superd/procs/fsm"
)

// perform performs one effect of a transition.
func (in *Instance) perform(effect fsm.Effect) {
	switch effect {
	case fsm.Spawn:
		beginRun(in)
	case fsm.AwaitReady:
		// The fork may have taken long, so the time-out begins now
		in.run.awaitReady(in.Env.Loop.Now() + in.run.program.StartTimeout)
	case fsm.StartMonitoring:
		in.run.startMonitoring()
	case fsm.CancelSpawn:
		run := in.run
		run.scope.Post(func() { run.spawn.cancel() })
	case fsm.Teardown:
		in.run.tearDown()
	case fsm.SignalStop:
		in.run.stop.begin()
	case fsm.SignalAbort:
		in.run.stop.send(unix.SIGABRT)
	case fsm.SignalKill:
		in.run.stop.kill()
	case fsm.ArmStop:
		in.run.stop.arm(in.run.stop.timeout())
	case fsm.ArmKill:
		in.run.stop.armKill()
	case fsm.ReportUnkillable:
		if in.run.main.endAwaited() {
			in.run.stop.armKill()
			return
		}
		in.reportUnkillable(syscall.Signal(in.run.main.killing), in.run.main.process.Pid())
	case fsm.EndRun:
		in.run.end()
	case fsm.ArmRestart:
		armRestart(in, in.Machine.Delay())
	case fsm.RearmRestart:
		disarmRestart(in)
		armRestart(in, in.since+in.Machine.Delay()-in.Env.Loop.Now())
	case fsm.Disarm:
		disarmRestart(in)
	}
}

// Hurry ends the time-out of a stop, a teardown or a hook.
func (in *Instance) Hurry() {
	r := in.run
	if r != nil && in.Machine.State() == fsm.TearingDown {
		r.beside.DropStopCommand() // the main process has ended by it
	}
	switch {
	case in.Machine.State() == fsm.StopPending:
		in.Apply(in.Machine.StopNow())
	case in.Machine.State() == fsm.Stopping:
		r.stop.timedOut()
	case in.Machine.State() == fsm.Killing && r.main.killing != int32(unix.SIGKILL):
		r.stop.kill()
	case r != nil && r.teardown != nil:
		r.teardown.Kill()
	case r != nil && r.hook != nil:
		r.hook.kill()
	}
}

// armRestart arms RestartDue after delay.
func armRestart(in *Instance, delay time.Duration) {
	in.restartTimer = in.Scope.After(max(delay, 0), func() {
		in.restartTimer = nil
		in.Apply(in.Machine.RestartDue(in.Conditions()))
	})
}

// disarmRestart cancels RestartDue, if that is pending.
func disarmRestart(in *Instance) {
	in.restartTimer.Stop()
	in.restartTimer = nil
}

// CompleteTransition is the instance's own share of a transition whose effects are performed. It
// ends what does not belong to the new state, and begins or ends the schedule. Then it records the
// transition in log, event log and journal: these parts, what the instance waits for and since when
// it has its state are in the record. Last it publishes the status to other instances.
func (in *Instance) CompleteTransition(from, to fsm.State) {
	if r := in.run; r != nil {
		if r.readiness != nil && to != fsm.Starting {
			r.endReadiness()
		}
		if to != fsm.Starting {
			r.main.endSearch(fsm.Reason{})
		}
		if to != fsm.Running {
			r.endMonitoring()
		}
		r.beside.Leave(to)
		r.stop.endDrain()
	}
	in.UpdateSchedule()
	in.Schedule.recordSkipped()
	if to == fsm.Waiting {
		in.Machine.SetWaitReason(waitReason(in))
	}
	if from.String() != to.String() || to == fsm.Spawning {
		in.since = in.Env.Loop.Now()
	}
	if from != to {
		in.Env.Log.Debug("state changed", "instance", in.Name, "from", from.String(), "to", to.String(),
			"reason", in.Machine.StateReason().String())
		recordState(in, from)
	}
	updateFlapping(in, from, to)
	in.Save()
	in.Node.Publish()
}

// recordState records a change of the shown state, and the SIGKILL of a stop.
func recordState(in *Instance, from fsm.State) {
	if to := in.Machine.State(); from.String() == to.String() && to != fsm.Killing {
		return
	}
	e := eventlog.Event{Kind: eventlog.State, From: from.String(), State: in.Machine.State().String()}
	if in.AwaitsTrigger() {
		kind, text := shownReasonIn(in, in.run.stage())
		e.Reason, e.ReasonKind = text, in.Machine.RecordedKind(from, kind).String()
	} else {
		e = eventlog.WithReason(e, in.Machine.StateReason())
	}
	if in.restartTimer != nil {
		e.RestartIn = new(in.Machine.Delay().Seconds())
	}
	in.Record(e)
}
