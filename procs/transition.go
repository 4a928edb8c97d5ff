package procs

import (
	"time"

	"golang.org/x/sys/unix"

	"superd/procs/fsm"
	"superd/procs/host"
)

// conditions returns what other instances mean for the machine now.
func (in *instance) conditions() fsm.Conditions {
	n := &in.node
	return fsm.Conditions{
		AwaitsOthers: n.Waiting(), Lost: n.Lost(), HasDependents: n.HasDependents(),
		DependentsDown: n.DependentsDown(), Ordered: n.Ordered(), Conflict: in.conflict != nil,
	}
}

// mustEnd reports whether a current or coming run has to end.
func (in *instance) mustEnd() bool { return in.machine.MustEnd(in.conditions()) }

// apply performs the effects of a transition of the instance's machine, then notifies the
// observers. No effect steps the machine: what it leads to is a transition of its own, later.
func (in *instance) apply(t fsm.Transition) {
	for _, effect := range t.Effects {
		in.perform(effect)
	}
	in.sup.transitioned(in, t.From, t.To)
}

// transitioned notifies all that observe the states of instances. The state may have stayed the
// same; something else of the machine may have changed then. This is their order:
//
//   - The registry counts the instances by state. The exit policy and the shutdown read the counts.
//   - Readiness, monitor and schedule end or begin with a state. The record contains them.
//   - The recorder queues the event and the record. Only then do other instances react: after a
//     crash, a successor must not find a consequence without its cause.
//   - The graph publishes the new status, and enqueues the dependents that it concerns.
//   - The reconciler enqueues the instance itself. It reads counters that the graph has updated.
//   - The waiters are answered, unless a reconciliation is pending: the state may change again.
//   - The subscribers are notified. That happens in a later turn, so they see the whole change.
//   - The exit policy may begin the shutdown with this exit status, so it precedes the shutdown.
//   - Replicas and shutdown are last, see [Supervisor.onRest]. A removal ends the scope of the
//     instance, and the end of superd ends all scopes.
func (s *Supervisor) transitioned(in *instance, from, to fsm.State) {
	s.registry.setState(in)
	in.endStateParts(to)
	in.updateSchedule()
	in.recordTransition(from, to)
	in.publish()
	if from != to && in.hasEdges() || to == fsm.Waiting && in.node.Ordered() ||
		in.machine.Desired().Up && in.node.CanStart() {
		in.sup.reconciler.enqueue(in)
	}
	in.answerWaiters()
	s.subscriptions.changed()
	// Also if the state is the same: a reload may end the slow retries of a failed instance
	if in.staysDown() {
		s.exitPolicy.check(in)
	}
	if to.AtRest() || to == fsm.Waiting {
		s.onRest(in)
	}
}

// endStateParts ends the wait for readiness and the monitoring if the state is not theirs.
func (in *instance) endStateParts(state fsm.State) {
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

// recordTransition records the transition in log, event log and journal. What the instance waits
// for and since when it has its state is part of the record.
func (in *instance) recordTransition(from, to fsm.State) {
	in.recordSkipped()
	if to == fsm.Waiting {
		in.machine.SetWaitReason(in.waitReason())
	}
	if from.String() != to.String() || to == fsm.Spawning {
		in.sinceAt = in.sup.loop.Now()
	}
	if from != to {
		in.sup.log.Debug("state changed", "instance", in.name, "from", from.String(), "to", to.String(),
			"reason", in.machine.StateReason().String())
		in.recordState(from)
	}
	in.save()
}

// staysDown reports whether the instance ended by itself and is not restarted.
func (in *instance) staysDown() bool {
	state := in.machine.State()
	return state == fsm.Exited || state == fsm.Failed && !in.machine.Retries()
}

// perform performs one effect of a transition.
func (in *instance) perform(effect fsm.Effect) {
	switch effect {
	case fsm.Spawn:
		if !in.sup.exitPolicy.anyStarted {
			in.sup.exitPolicy.anyStarted = true
			in.sup.saveSelf()
		}
		in.spawn()
	case fsm.AwaitReady:
		// The fork may have taken long, so the time-out begins now
		in.awaitReady(in.sup.loop.Now() + in.run.program.StartTimeout)
	case fsm.StartMonitoring:
		in.startMonitoring()
	case fsm.CancelSpawn:
		run := in.run
		run.scope.Post(func() { in.cancelSpawn(run) })
	case fsm.Teardown:
		in.tearDown()
	case fsm.SignalStop:
		in.signalStop()
	case fsm.SignalAbort:
		in.sendStop(unix.SIGABRT)
	case fsm.SignalKill:
		in.signalKill()
	case fsm.ArmStop:
		in.armStop(in.run.program.StopTimeout)
	case fsm.ArmKill:
		in.run.killTimer.Stop() // of an earlier main process
		in.run.killTimer = in.run.mainScope.After(host.KillPause, func() { in.apply(in.machine.KillTimedOut()) })
	case fsm.ReportUnkillable:
		if in.run.endAwaited() {
			in.perform(fsm.ArmKill)
			return
		}
		in.reportUnkillable(in.run.process.Pid())
	case fsm.EndRun:
		in.endRun()
	case fsm.ArmRestart:
		in.armRestart(in.machine.Delay())
	case fsm.RearmRestart:
		in.disarmRestart()
		in.armRestart(in.sinceAt + in.machine.Delay() - in.sup.loop.Now())
	case fsm.Disarm:
		in.disarmRestart()
	}
}

// armStop arms StopTimeout. A timeout that is negative, or a hurried shutdown, means at once.
func (in *instance) armStop(timeout time.Duration) {
	if timeout < 0 || in.sup.shutdown.hurry {
		timeout = 0
	}
	r := in.run
	r.stopDeadline = in.sup.loop.Now() + timeout
	if r.stopLimit == 0 {
		r.stopLimit = in.sup.loop.Now() + maxExtension*r.program.StopTimeout
	}
	r.stopTimer = r.mainScope.After(timeout, func() { in.apply(in.machine.StopTimedOut()) })
}

// armRestart arms RestartDue after delay.
func (in *instance) armRestart(delay time.Duration) {
	in.restartTimer = in.scope.After(max(delay, 0), func() {
		in.restartTimer = nil
		in.apply(in.machine.RestartDue(in.conditions()))
	})
}

// disarmRestart cancels RestartDue, if that is pending.
func (in *instance) disarmRestart() {
	if in.restartTimer != nil {
		in.restartTimer.Stop()
		in.restartTimer = nil
	}
}
