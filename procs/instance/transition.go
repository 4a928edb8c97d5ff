package instance

import (
	"time"

	"golang.org/x/sys/unix"

	"superd/procs/fsm"
	"superd/procs/host"
)

// Conditions returns what other instances mean for the machine now.
func (in *Instance) Conditions() fsm.Conditions {
	n := &in.Node
	return fsm.Conditions{
		AwaitsOthers: n.Waiting(), Lost: n.Lost(), HasDependents: n.HasDependents(),
		DependentsDown: n.DependentsDown(), Ordered: n.Ordered(), Conflict: in.Membership.Conflict != nil,
	}
}

// MustEnd reports whether a current or coming run has to end.
func (in *Instance) MustEnd() bool { return in.Machine.MustEnd(in.Conditions()) }

// Apply performs the effects of a transition of the instance's machine, then notifies the
// observers. No effect steps the machine: what it leads to is a transition of its own, later.
func (in *Instance) Apply(t fsm.Transition) {
	for _, effect := range t.Effects {
		in.perform(effect)
	}
	in.Env.Owner.Transitioned(in, t.From, t.To)
}

// EndStateParts ends the wait for readiness and the monitoring if the state is not theirs.
func (in *Instance) EndStateParts(state fsm.State) {
	r := in.run
	if r == nil {
		return
	}
	if r.readiness != nil && state != fsm.Starting {
		r.readiness.end()
	}
	if r.monitor != nil && state != fsm.Running {
		r.monitor.end()
	}
}

// RecordTransition records the transition in log, event log and journal. What the instance waits
// for and since when it has its state is part of the record.
func (in *Instance) RecordTransition(from, to fsm.State) {
	in.Schedule.recordSkipped()
	if to == fsm.Waiting {
		in.Machine.SetWaitReason(in.waitReason())
	}
	if from.String() != to.String() || to == fsm.Spawning {
		in.SinceAt = in.Env.Loop.Now()
	}
	if from != to {
		in.Env.Log.Debug("state changed", "instance", in.Name, "from", from.String(), "to", to.String(),
			"reason", in.Machine.StateReason().String())
		in.recordState(from)
	}
	in.Save()
}

// StaysDown reports whether the instance ended by itself and is not restarted.
func (in *Instance) StaysDown() bool {
	state := in.Machine.State()
	return state == fsm.Exited || state == fsm.Failed && !in.Machine.Retries()
}

// perform performs one effect of a transition.
func (in *Instance) perform(effect fsm.Effect) {
	switch effect {
	case fsm.Spawn:
		in.spawn()
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
		in.run.stop.arm(in.run.program.StopTimeout)
	case fsm.ArmKill:
		in.run.stop.killTimer.Stop() // of an earlier main process
		in.run.stop.killTimer = in.run.main.scope.After(host.KillPause, func() { in.Apply(in.Machine.KillTimedOut()) })
	case fsm.ReportUnkillable:
		if in.run.main.endAwaited() {
			in.perform(fsm.ArmKill)
			return
		}
		in.reportUnkillable(in.run.main.process.Pid())
	case fsm.EndRun:
		in.endRun()
	case fsm.ArmRestart:
		in.armRestart(in.Machine.Delay())
	case fsm.RearmRestart:
		in.disarmRestart()
		in.armRestart(in.SinceAt + in.Machine.Delay() - in.Env.Loop.Now())
	case fsm.Disarm:
		in.disarmRestart()
	}
}

// arm arms StopTimeout. A timeout that is negative, or a hurried shutdown, means at once.
func (s *stopping) arm(timeout time.Duration) {
	r := s.run
	in := r.in
	if timeout < 0 || in.Env.Owner.Phase().Hurry {
		timeout = 0
	}
	s.deadline = in.Env.Loop.Now() + timeout
	if s.limit == 0 {
		s.limit = in.Env.Loop.Now() + maxExtension*r.program.StopTimeout
	}
	s.timer = r.main.scope.After(timeout, func() { in.Apply(in.Machine.StopTimedOut()) })
}

// armRestart arms RestartDue after delay.
func (in *Instance) armRestart(delay time.Duration) {
	in.restartTimer = in.Scope.After(max(delay, 0), func() {
		in.restartTimer = nil
		in.Apply(in.Machine.RestartDue(in.Conditions()))
	})
}

// disarmRestart cancels RestartDue, if that is pending.
func (in *Instance) disarmRestart() {
	if in.restartTimer != nil {
		in.restartTimer.Stop()
		in.restartTimer = nil
	}
}
