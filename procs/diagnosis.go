package procs

import (
	"cmp"
	"slices"
	"time"

	"superd/config"
	"superd/procs/diagnosis"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance"
)

// Why returns a [diagnosis.Diagnosis] of each instance that names select, by name. Its errors are
// those of [Supervisor.Status].
func (s *Supervisor) Why(names []string) ([]diagnosis.Diagnosis, error) {
	selected, err := s.selector.Instances(names)
	if err != nil {
		return nil, err
	}
	all := make([]diagnosis.Diagnosis, 0, len(selected))
	for _, in := range selected {
		all = append(all, s.diagnosis(in))
	}
	return all, nil
}

// diagnosis returns what superd knows about the state of the instance.
func (s *Supervisor) diagnosis(in *instance.Instance) diagnosis.Diagnosis {
	m, r := &in.Machine, in.Report()
	st := s.statusOf(in, r)
	d := diagnosis.Diagnosis{
		Name: in.Name, State: m.State(), Now: s.Loop.Wall(), Since: st.Since,
		Reason: m.StateReason(), Kind: st.ReasonKind, Pid: st.Main.Pid, StatusText: st.StatusText,
		Desired: diagnosis.Desired{
			Up: m.Desired().Up, By: m.Desired().By, RestartPending: restartsWhenDown(in),
			Enablement: in.Program.Enablement,
			Removed:    in.Membership.Leaves(), Replaced: in.Membership.HasReplacement(),
		},
		WaitsFor: in.Node.WaitsFor(), Stage: r.Stage, Roll: cmp.Or(s.rolls.text(in.Program.Name), s.rolls.formerText(in)),
		Processes: diagnosis.Processes{
			Unkillable: r.Unkillable, Unattributed: unattributedOf(s.Host, in), NoCgroup: in.Tree.Lack(), Sandbox: r.Sandbox,
		},
		Output:    diagnoseOutput(in, r.NoOutput),
		NextStart: st.NextStart,
		Restarts:  diagnoseRestarts(in, s.Loop.Now()),
		Flapping:  st.Restarts.FlappingSince,
	}
	if m.State() == fsm.Waiting && !in.AwaitsTrigger() {
		d.Reason = in.Node.BlockedReason() // that of the state is as old as the state
	}
	if s.connectors.Awaits(in) {
		d.Reason, d.Desired.OnConnect = s.connectors.Reason(in), true
	}
	d.Schedule.Spec, d.Schedule.NextRun, d.Schedule.Skipped = r.Schedule.Line, r.Schedule.Next, r.Schedule.Skipped
	d.Health = diagnosis.Health{Last: st.Check, Probes: r.Health.Checked}
	d.HangsIn, d.KillIn, d.WatchProblem = r.HangsIn, r.KillIn, st.Restarts.WatchProblem
	return d
}

func diagnoseOutput(in *instance.Instance, notCaptured string) diagnosis.Output {
	o := diagnosis.Output{
		NotCaptured: notCaptured, LoggerOf: in.Program.LoggerOf, Outage: in.Output.Collector.Outage(),
	}
	o.DroppedBytes, o.DroppedLines = in.Output.Collector.Dropped()
	if in.Program.Log.Sink == config.SinkCommand {
		o.Logger = config.LoggerName(in.Program.Name)
	}
	return o
}

func diagnoseRestarts(in *instance.Instance, now time.Duration) diagnosis.Restarts {
	m := &in.Machine
	d := diagnosis.Restarts{
		Attempts: m.RestartAttempts(), Count: m.Restarts(), LimitHit: m.StartLimitHit(),
		Limit: in.Program.StartLimit, Backoff: in.Program.Backoff,
	}
	for _, at := range m.Failures() {
		if now-at <= d.Limit.Within {
			d.Failures++
		}
	}
	return d
}

// restartsWhenDown reports whether the instance restarts as soon as it is down.
func restartsWhenDown(in *instance.Instance) bool {
	m := &in.Machine
	switch m.State() {
	case fsm.Stopping, fsm.Killing:
		return m.Desired().Up && m.FailureReason().Kind == fsm.ReasonNone && !in.Node.Lost()
	case fsm.TearingDown:
		return m.Desired().Up && m.Outcome() == fsm.RunEndedRestart && !in.Node.Lost()
	}
	return m.RestartPending() && !in.Node.Lost()
}

// unattributedOf returns the unattributed processes that may belong to the instance.
func unattributedOf(h host.Host, in *instance.Instance) (all []host.UnattributedProcess) {
	for _, s := range h.Unowned() {
		if slices.Contains(s.Instances, in.Name) {
			all = append(all, s)
		}
	}
	return all
}
