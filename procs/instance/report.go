package instance

import (
	"time"

	"superd/procs/fsm"
	"superd/procs/probe"
)

// A Report is what superd shows of an instance, apart from its machine. Times are those of the
// loop's clock.
type Report struct {
	Since      time.Duration // when the shown state began
	ReasonKind fsm.ReasonKind
	Reason     string
	LastExit   *ExitStatus // how the last run ended; nil before the first end
	HasRun     bool        // a run is under way, or one has ended
	Main       MainReport
	Health     HealthReport
	Schedule   ScheduleReport
	NextStart  *time.Duration // until the next automatic start; nil: none is due
	KillIn     *time.Duration // until the kill signal; nil: none is due
	Stage      string         // what happens at the moment
	HangsIn    string         // stage in which an earlier start hangs; empty without one
	NoOutput   string         // why its output is not captured; empty if it is
	Unkillable string         // describes an unkillable process; empty without one
	Sandbox    []string       // what of its sandbox could not be enforced
}

// A MainReport is what is known of a main process; the zero value: there is none.
type MainReport struct {
	Pid        int
	Start      uint64 // in clock ticks since boot
	StartedAt  time.Duration
	StatusText string // what the program reports of itself (STATUS=)
}

// A HealthReport is the health of a main process.
type HealthReport struct {
	Checked  string        // what the check probes; empty without checks
	Healthy  *bool         // nil without checks, and before the first result
	Last     *probe.Result // nil before the first
	Failures int           // consecutive failures
}

// A ScheduleReport is the progress of a schedule that is in force; the zero value: there is none.
type ScheduleReport struct {
	Line    string
	Next    time.Time // zero unless the instance waits for it
	Skipped int       // due times that were skipped during the current run
}

// Report returns what superd shows of the instance.
func (in *Instance) Report() Report {
	now, stage := in.Env.Loop.Now(), in.run.stage()
	r := Report{
		Since: in.since, LastExit: in.LastExit, HasRun: in.run != nil || in.LastExit != nil,
		Stage: stage, NoOutput: in.noOutput, Unkillable: in.unkillable,
		Sandbox: in.sandbox,
	}
	r.ReasonKind, r.Reason = shownReasonIn(in, stage)
	if in.hungWorkers > 0 {
		r.HangsIn = in.hangsIn
	}
	next, remaining, scheduled := in.Schedule.next()
	switch t := in.restartTimer; {
	case t != nil:
		r.NextStart = new(max(t.Due()-now, 0))
	case scheduled:
		r.NextStart = &remaining
	}
	if sc := in.Schedule; sc != nil && sc.entry != nil {
		r.Schedule = ScheduleReport{Line: in.Program.Schedule, Next: next, Skipped: sc.skipped}
	}
	if in.run != nil {
		in.run.report(&r, now)
	}
	return r
}

// report sets what is to be said of a run.
func (r *run) report(to *Report, now time.Duration) {
	if r.stop.deadline > now && r.in.Machine.State() == fsm.Stopping && r.beside.StopState() == "" && !r.stop.spared() {
		to.KillIn = new(r.stop.deadline - now)
	}
	if r.main.process == nil {
		return
	}
	to.Main = MainReport{
		Pid: r.main.process.Pid(), Start: r.main.id.Start, StartedAt: r.main.startedAt,
		StatusText: r.statusText,
	}
	if m := r.monitor; m != nil {
		to.Health.Healthy = m.Healthy()
		to.Health.Checked, to.Health.Last, to.Health.Failures = m.Report()
	}
}
