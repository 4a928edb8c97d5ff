package instance

import (
	"testing"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/snapshot"
	"superd/procs/snapshot/snapshottest"
)

// restoredElsewhere has the fields of records that need what only a whole recovery has: processes,
// descriptors and timers. The simulation covers them.
var restoredElsewhere = []string{
	"Instance.Quarantined", "Instance.Due", "Instance.Tree", "Instance.Probes",
	"Instance.Output", "Instance.FDName", "Instance.Stderr", "Instance.StderrFDName",
	"Instance.Input", "Instance.InputFDName",
	"Run.Main", "Run.OOMKills", "Run.StartDeadline", "Hook.Process",
}

// TestRestoreIsInverseOfSnapshot: each part snapshots what it was restored from, in each field of
// the record.
func TestRestoreIsInverseOfSnapshot(t *testing.T) {
	for _, ready := range []bool{false, true} {
		b := newBench(t, hosttest.FaultMix{}, testProgram())
		v := filledInstance(testProgram())
		if v.Config = b.Number(); ready {
			v.Run.PrintsFrom, v.Run.StderrFrom = "", "" // needed only until it is ready
		} else {
			v.Run.ReadyAt = 0
		}
		snapshottest.Compare(t, *v, *restoreCopy(b.env, v), restoredElsewhere)
	}
}

// restoreCopy makes an instance from a record and returns what the instance snapshots.
func restoreCopy(env *Env, v *snapshot.Instance) *snapshot.Instance {
	in := New(env, "web", v.Definition, v.Run.Definition, "")
	in.Membership.Update(fsm.Retire)
	in.Restore(v)
	(&Recovered{
		In: in, Saved: snapshot.Merged{Instance: v}, Recovered: &host.RecoveredProcess{},
	}).RestoreOutput()
	r := restoreRun(in, v.Config, v.Run)
	r.main.scope.Open(&r.scope)
	r.restoreNotify(v.Run, v.Run.Notify, v.Run.Ready)
	r.restoreAnnouncements(v.Run)
	r.beside.ResumeReload(v.Run.Beside.Reload)
	r.spawn.preStart().restore(v.Run.Hook)
	return in.Snapshot()
}

// filledInstance returns a record of a removed instance of web with a value in each field.
func filledInstance(web *config.Program) *snapshot.Instance {
	v := &snapshot.Instance{}
	snapshottest.Fill(v)
	v.Definition, v.Run.Definition, v.Run.Hook.At = web, testProgram(), 1
	v.Run.Beside.Reload.Stage, v.Run.Beside.Reload.Confirmed = snapshot.ReloadConfirm, false
	v.Run.Beside.PostStart = 0 // a hook is begun by a whole recovery
	v.Run.Launch = snapshot.LaunchFound
	v.State, v.Outcome = fsm.Running.Name(), fsm.RunEndedRetry.OutcomeName()
	target := fsm.Target{Up: true, By: fsm.Actor{Kind: fsm.ActorOperator, For: "db"}}.Snapshot()
	v.Desired, v.DesiredBeforeShutdown, v.ReplacementTarget = target, &target, &target
	why := fsm.ReasonUnhealthy.With("unhealthy").Snapshot()
	v.FailureReason, v.StartReason, v.ExitReason, v.StateReason = why, why, why, why
	return v
}
