package procs

import (
	"slices"
	"time"

	"superd/config"
	"superd/logs"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance"
)

// A Diagnosis is what superd knows about the state of an instance. [Diagnosis.Explain] makes text
// of it.
type Diagnosis struct {
	Name       string
	State      fsm.State
	Now        time.Time // in the time zone of shown times
	Since      time.Time
	Reason     fsm.Reason     // why the state is what it is
	Kind       fsm.ReasonKind // kind of the reason in a [Status]
	Main       MainStatus
	StatusText string // what the program reports of itself (STATUS=)
	Desired    DesiredDiagnosis
	// What blocks its start, one line for each program it waits for
	WaitsFor []string
	// What happens at the moment: a hook, a file that is being opened, leftover processes
	Stage     string
	HangsIn   string         // stage in which an earlier start hangs; empty without one
	KillIn    *time.Duration // until SIGKILL; nil: none is due
	Processes ProcessDiagnosis
	Health    HealthDiagnosis
	Output    OutputDiagnosis
	NextStart *time.Duration // until the next automatic start; nil: none is due
	Restarts  RestartDiagnosis
	Schedule  ScheduleDiagnosis
}

// A DesiredDiagnosis is the desired state of an instance, and what follows when it is down.
type DesiredDiagnosis struct {
	Up             bool
	By             fsm.Actor
	RestartPending bool // it restarts when it is down
	Removed        bool // it is no longer configured
	Replaced       bool // it is replaced by a new definition of its name when it is down
}

// A ProcessDiagnosis has what is unusual about the processes of an instance.
type ProcessDiagnosis struct {
	Unkillable   string                     // describes an unkillable process; empty without one
	Unattributed []host.UnattributedProcess // that may belong to it
	// Why it has no cgroup though others have one; empty if it has one
	NoCgroup string
	Sandbox  []string // what of its sandbox could not be enforced
}

// A HealthDiagnosis is the last health check of an instance, and what it probes.
type HealthDiagnosis struct {
	Last   *Check // nil before the first
	Probes string // "http http://127.0.0.1/healthz"
}

// An OutputDiagnosis is where the output of an instance goes, and what keeps it from there.
type OutputDiagnosis struct {
	NotCaptured  string       // why it is not captured; empty if it is
	Logger       string       // program that reads it; empty without one
	LoggerOf     string       // program whose output it reads; empty if it is no logger
	Outage       *logs.Outage // why it does not reach its log; nil if it does
	DroppedBytes int64
	DroppedLines int64
}

// A RestartDiagnosis is the restarts of an instance, and their limits.
type RestartDiagnosis struct {
	Attempts int // consecutive restarts without a stable run
	Count    int // automatic restarts since the operator's last start
	Failures int // failures within the window of the start limit
	LimitHit bool
	Limit    config.StartLimit
	Backoff  config.Backoff
}

// A ScheduleDiagnosis is the schedule of an instance. The zero value: none is in force.
type ScheduleDiagnosis struct {
	Spec    string
	NextRun time.Time // zero unless the instance waits only for that
	Skipped int       // due times that were skipped during the current run
}

// Why returns a [Diagnosis] of each instance that names select, by name. Its errors are those of
// [Supervisor.Status].
func (s *Supervisor) Why(names []string) ([]Diagnosis, error) {
	selected, err := s.selector.instances(names)
	if err != nil {
		return nil, err
	}
	all := make([]Diagnosis, 0, len(selected))
	for _, in := range selected {
		all = append(all, s.diagnosis(in))
	}
	return all, nil
}

// diagnosis returns what superd knows about the state of the instance.
func (s *Supervisor) diagnosis(in *instance.Instance) Diagnosis {
	m, r := &in.Machine, in.Report()
	st := s.statusOf(in, r)
	d := Diagnosis{
		Name: in.Name, State: m.State(), Now: s.Loop.Wall(), Since: st.Since,
		Reason: m.StateReason(), Kind: st.ReasonKind, Main: st.Main, StatusText: st.StatusText,
		Desired: DesiredDiagnosis{
			Up: m.Desired().Up, By: m.Desired().By, RestartPending: restartsWhenDown(in),
			Removed: in.Membership.Leaves(), Replaced: in.Membership.HasReplacement(),
		},
		WaitsFor: in.Node.WaitsFor(), Stage: r.Stage,
		Processes: ProcessDiagnosis{
			Unkillable: r.Unkillable, Unattributed: unattributedOf(s.Host, in), NoCgroup: in.Tree.Lack(), Sandbox: r.Sandbox,
		},
		Output:    diagnoseOutput(in, r.NoOutput),
		NextStart: st.NextStart,
		Restarts:  diagnoseRestarts(in, s.Loop.Now()),
	}
	d.Schedule.Spec, d.Schedule.NextRun, d.Schedule.Skipped = r.Schedule.Line, r.Schedule.Next, r.Schedule.Skipped
	d.Health = HealthDiagnosis{st.Check, r.Health.Checked}
	d.HangsIn, d.KillIn = r.HangsIn, r.KillIn
	return d
}

func diagnoseOutput(in *instance.Instance, notCaptured string) OutputDiagnosis {
	o := OutputDiagnosis{
		NotCaptured: notCaptured, LoggerOf: in.Program.LoggerOf, Outage: in.Output.Collector.Outage(),
	}
	o.DroppedBytes, o.DroppedLines = in.Output.Collector.Dropped()
	if in.Program.Log.Sink == config.SinkCommand {
		o.Logger = config.LoggerName(in.Program.Name)
	}
	return o
}

func diagnoseRestarts(in *instance.Instance, now time.Duration) RestartDiagnosis {
	m := &in.Machine
	d := RestartDiagnosis{
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
