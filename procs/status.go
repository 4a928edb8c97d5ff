package procs

import (
	"time"

	"superd/config"
	"superd/logs"
	"superd/procs/diagnosis"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/rolling"
	"superd/procs/selection"
)

// A Status is the state of one instance, and its reason.
type Status struct {
	Name       string // instance: web, or web@2
	Program    string
	Definition *config.Program
	State      fsm.State
	Healthy    *bool            // nil without health checks, and before the first result
	StatusText string           // what the program reports of itself (STATUS=)
	Check      *diagnosis.Check // last health check; nil before the first
	Main       MainStatus
	Since      time.Time
	Restarts   Restarts
	Exit       *instance.ExitStatus // how the last run ended; nil before the first end
	LastReload *ReloadEnd           // of the program; nil before the first one
	NextStart  *time.Duration
	LogFile    string
	Collector  *logs.Collector // [follow.LastLines] reads its newest line, off the loop
	// It has run, so the newest line in its log is not from an earlier superd
	HasRun     bool
	Reason     string
	ReasonKind fsm.ReasonKind
	WantedUp   bool
	Roll       *rolling.Status // rolling restart of its program; nil: none is under way
}

// A MainStatus is the status of the main process of an instance. The zero value: it has none.
type MainStatus struct {
	Pid     int
	Start   uint64 // clock ticks since boot, field 22 of /proc/pid/stat
	Uptime  time.Duration
	Sandbox []string // what of its sandbox could not be enforced
}

// A Restarts is what is known of the restarts of an instance.
type Restarts struct {
	Count         int        // automatic ones since the operator's last start
	FlappingSince *time.Time // nil: it does not flap
	// Why not all changes of the files that it watches restart it; "": all do
	WatchProblem string
}

// A ReloadEnd is how a reload of the program ended.
type ReloadEnd struct {
	At      time.Time
	OK      bool
	Outcome string
}

// An ExitStatus is how a run ended.
type ExitStatus = instance.ExitStatus

// An Info is the status of superd itself.
type Info struct {
	Pid          int
	Started      time.Time
	Uptime       time.Duration
	Programs     int // number of instances
	Running      int
	ShuttingDown bool
	Ready        bool          // as the service manager was told
	Lag          time.Duration // of the loop, the largest of the last minute or two
}

// Info returns the status of superd itself.
func (s *Supervisor) Info() Info {
	return Info{
		Pid:          s.options.Identity.Pid,
		Started:      s.WallAt(s.startedAt),
		Uptime:       s.Loop.Now() - s.startedAt,
		Programs:     len(s.registry.instances),
		Running:      s.registry.counts[fsm.Running],
		ShuttingDown: s.shutdown.begun,
		Ready:        s.readyNotifier.ready && !s.shutdown.begun,
		Lag:          s.Loop.Lag().Recent,
	}
}

// Status returns the status of the instances that names select, by name; of all without names. A
// name is a program, an instance, a group or a shell glob. One that selects nothing is an
// [selection.UnknownNameError].
func (s *Supervisor) Status(names []string) ([]Status, error) {
	selected, err := s.selector.Instances(names)
	if err != nil {
		return nil, err
	}
	all := make([]Status, 0, len(selected))
	for _, in := range selected {
		all = append(all, s.status(in))
	}
	return all, nil
}

// A Brief is the part of a [Status] that costs nothing to compute.
type Brief struct {
	Name  string
	State fsm.State
	Pid   int // 0 without a main process
}

// Brief returns a [Brief] of each instance that names select, as [Supervisor.Status] does.
func (s *Supervisor) Brief(names []string) ([]Brief, error) {
	selected, err := s.selector.Instances(names)
	if err != nil {
		return nil, err
	}
	all := make([]Brief, 0, len(selected))
	for _, in := range selected {
		all = append(all, Brief{in.Name, in.Machine.State(), in.Pid()})
	}
	return all, nil
}

func (s *Supervisor) status(in *instance.Instance) Status {
	return s.statusOf(in, in.Report())
}

// statusOf returns the status of the instance of which r is the report.
func (s *Supervisor) statusOf(in *instance.Instance, r instance.Report) Status {
	m := &in.Machine
	st := Status{
		Name:       in.Name,
		Program:    in.Program.Name,
		Definition: in.Program,
		State:      m.State(),
		Since:      s.WallAt(r.Since),
		Restarts:   Restarts{Count: m.Restarts(), WatchProblem: s.applier.watches.Problem(in.Program.Name)},
		LogFile:    in.Output.Collector.Path(),
		Collector:  &in.Output.Collector,
		HasRun:     r.HasRun,
		WantedUp:   m.Desired().Up,
		Reason:     r.Reason, ReasonKind: r.ReasonKind,
		Healthy:    r.Health.Healthy,
		StatusText: r.Main.StatusText,
		NextStart:  r.NextStart, Roll: s.rolls.status(in),
	}
	switch former := s.rolls.formerText(in); {
	case s.connectors.Awaits(in):
		why := s.connectors.Reason(in)
		st.Reason, st.ReasonKind = why.String(), why.Kind
	case former != "" && r.Stage == "":
		st.Reason, st.ReasonKind = former, fsm.ReasonRollFailed
	}
	if r.LastExit != nil {
		exit := *r.LastExit
		exit.At = s.WallAt(exit.EndedAt)
		st.Exit = &exit
	}
	if l := in.LastReload; l != nil {
		st.LastReload = &ReloadEnd{At: s.WallAt(l.At), OK: l.OK, Outcome: l.Outcome}
	}
	if at := in.FlappingSince(); at != 0 {
		st.Restarts.FlappingSince = new(s.WallAt(at))
	}
	if r.Main.Pid != 0 {
		st.Main = MainStatus{Pid: r.Main.Pid, Start: r.Main.Start, Uptime: s.Loop.Now() - r.Main.StartedAt, Sandbox: r.Sandbox}
	}
	if last := r.Health.Last; last != nil {
		st.Check = &diagnosis.Check{
			At: s.WallAt(last.At), Took: last.Took, Outcome: last.Outcome, Reason: last.Reason,
			Failures: r.Health.Failures,
		}
	}
	return st
}

// MainPids returns the pids of all main processes.
func (s *Supervisor) MainPids() []int {
	pids := make([]int, 0, len(s.registry.instances))
	for _, in := range s.registry.instances {
		if pid := in.Pid(); pid != 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Resolve returns the names of the instances that names select, and an error for each that selects
// nothing.
func (s *Supervisor) Resolve(names []string) (instances []string, unknown []*selection.UnknownNameError) {
	found := s.selector.Match(names)
	for _, in := range found.Instances {
		instances = append(instances, in.Name)
	}
	if len(found.Unknown) > 0 {
		known := s.selector.Known()
		for _, name := range found.Unknown {
			unknown = append(unknown, &selection.UnknownNameError{Name: name, Known: known})
		}
	}
	return instances, unknown
}
