package instance

import (
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance/teardown"
	"superd/procs/probe"
	"superd/procs/schedule"
	"superd/procs/snapshot"
)

// The simulation in procs compares each instance with a model of it after each turn, and plants
// defects to see that it notices them. It is in another package and needs private members, so these
// can be in no test file. Nothing else uses this file. The views, which come first, change nothing.

// A View is what the simulation sees of an instance.
type View struct{ In *Instance }

// RetryDue returns when the pending restart is due.
func (v View) RetryDue() time.Duration { return v.In.restartTimer.Due() }

// LastExit returns how the last run ended, and when on the loop's clock.
func (v View) LastExit() (e fsm.Exit, at time.Duration) {
	if v.In.LastExit == nil {
		return fsm.Exit{}, 0
	}
	return v.In.LastExit.exit(), v.In.LastExit.EndedAt
}

// A probeView is the exec check of an instance.
type probeView struct {
	Busy    bool              // a check or its leftover processes are under way
	Check   bool              // a check is under way
	Process bool              // it has a process
	Pending host.PendingSpawn // its spawn; nil: none
}

// Probe returns the exec check.
func (v View) Probe() (p probeView) {
	if p.Busy = v.In.probing(); v.In.checks == nil {
		return p
	}
	p.Pending, p.Process, p.Check = v.In.checks.Current()
	return p
}

// Schedule returns the progress of the schedule, or none.
func (v View) Schedule() scheduleView { return scheduleView{v.In.Schedule} }

// A scheduleView is a view of the progress of a schedule; the zero value is none.
type scheduleView struct{ sc *scheduleState }

func (v scheduleView) Exists() bool             { return v.sc != nil }
func (v scheduleView) Progress() schedule.State { return v.sc.entry.State() }

// DueFor returns the latest time that was due.
func (v scheduleView) DueFor() time.Time { return v.sc.dueFor }

// HasNext reports whether the schedule has a further time.
func (v scheduleView) HasNext() bool {
	_, ok := v.sc.entry.Plan()
	return ok
}

// Run returns the present run, or none.
func (v View) Run() RunView { return RunView{v.In.run} }

// A RunView is a view of one run; the zero value is none.
type RunView struct{ r *run }

func (v RunView) Exists() bool                 { return v.r != nil }
func (v RunView) ID() string                   { return v.r.invocationID }
func (v RunView) Program() *config.Program     { return v.r.program }
func (v RunView) Closed() bool                 { return v.r.scope.Closed() }
func (v RunView) StartedAt() time.Duration     { return v.r.main.startedAt }
func (v RunView) ReadyAt() time.Duration       { return v.r.readyAt }
func (v RunView) StartDeadline() time.Duration { return v.r.readiness.Deadline() }
func (v RunView) StopDeadline() time.Duration  { return v.r.stop.deadline }
func (v RunView) MainEnded() bool              { return v.r.main.ended() }
func (v RunView) Reloads() bool                { return v.r.reloadTimer != nil }
func (v RunView) ReloadedAt() time.Duration    { return v.r.reloadedAt }

// CommandAt returns when a command beside the main process was last under way; 0: never.
func (v RunView) CommandAt() time.Duration {
	underWay, _ := v.r.beside.LastAt()
	return underWay
}

// CommandEndedAt returns when the last command beside the main process ended; 0: none has.
func (v RunView) CommandEndedAt() time.Duration {
	_, ended := v.r.beside.LastAt()
	return ended
}

func (v RunView) StopsItself() bool { return v.r.ownStopTimer != nil }

// Stable returns how long the run was ready at that time.
func (v RunView) Stable(at time.Duration) time.Duration { return v.r.stable(at) }

// HasProcess reports whether the main process exists and its exit is not known yet.
func (v RunView) HasProcess() bool { return v.r != nil && v.r.main.process != nil }

// Unidentified reports whether only a start record tells of the main process.
func (v RunView) Unidentified() bool { return v.HasProcess() && v.r.main.process.Pid() == 0 }

// Process returns the host's main process; nil: the run has none, or it was gone at recovery.
func (v RunView) Process() host.Process { return hostProcess(v.r.main.process) }

func hostProcess(p host.Process) host.Process {
	if a, ok := p.(interface{ Unwrap() host.Process }); ok {
		return a.Unwrap()
	}
	return p
}

// Spawn returns the spawn of the main process or of the current hook; nil: none is under way.
func (v RunView) Spawn() host.PendingSpawn {
	if v.r.hook != nil {
		return v.r.hook.pending
	}
	return v.r.spawn.pending
}

// Hook returns the hooks under way, or none. The run may be none, too.
func (v RunView) Hook() HookView {
	if v.r == nil {
		return HookView{}
	}
	return HookView{v.r.hook}
}

// A HookView is a view of the hooks under way; the zero value is none.
type HookView struct{ h *hookRun }

func (v HookView) Exists() bool           { return v.h != nil }
func (v HookView) Number() int            { return v.h.at }
func (v HookView) Due() time.Duration     { return v.h.due }
func (v HookView) Timeout() time.Duration { return v.h.timeout }
func (v HookView) Process() host.Process  { return hostProcess(v.h.process) }

// Teardown returns the teardown under way; nil without one. The run may be none, too.
func (v RunView) Teardown() *teardown.Teardown {
	if v.r == nil {
		return nil
	}
	return v.r.teardown
}

// Healthy returns what the checks say: -1 unhealthy, 1 healthy, 0 unknown.
func (v RunView) Healthy() int {
	if v.r.monitor == nil || v.r.monitor.Healthy() == nil {
		return 0
	}
	if *v.r.monitor.Healthy() {
		return 1
	}
	return -1
}

// What tests do to an instance.

// SetEnvSum sets the sum of the env file with which the run was started.
func (v RunView) SetEnvSum(sum uint64) { v.r.spawn.envSum = sum }

// FailCheck gives the run's monitor the result of a check that has just failed.
func (v RunView) FailCheck(reason string) {
	now := v.r.in.Env.Loop.Now()
	v.r.monitor.OnResult(probe.Result{Outcome: probe.Failed, Reason: reason, At: now})
}

// RedefineMachine lets only the machine use another definition.
func (v View) RedefineMachine(p *config.Program) { v.In.Machine.Redefine(p, false) }

// ChangeRunProgram changes the definition of the run.
func (v View) ChangeRunProgram(alter func(*config.Program) *config.Program) {
	if r := v.In.run; r != nil {
		r.program = alter(r.program)
	}
}

// SpareHook forgets that the hook is to be killed when it has a process.
func (v View) SpareHook() {
	if r := v.In.run; r != nil && r.hook != nil && r.hook.process == nil {
		r.hook.killWhenStarted = false
	}
}

// IgnoreReadiness closes what would notice readiness.
func (v View) IgnoreReadiness() {
	if r := v.In.run; r != nil && r.readiness != nil {
		r.readiness.End()
	}
}

// TakeCommandForMain takes the command of a forking program for its main process.
func (v View) TakeCommandForMain() {
	r := v.In.run
	if r != nil && r.readiness != nil && launching(r) && r.main.launch == commandRuns {
		r.main.launch = launched
		r.awaitReady(r.readiness.Deadline())
	}
}

// MonitorDuringStop monitors a program that stops.
func (v View) MonitorDuringStop() {
	r := v.In.run
	if v.In.Machine.State() == fsm.Stopping && r.main.process != nil && r.monitor == nil && r.program.Health != nil {
		r.startMonitoring()
	}
}

// EndMonitoring ends the monitoring of an instance that was recovered.
func (v View) EndMonitoring() {
	if r := v.In.run; v.In.Marks.TreeRecovered && r != nil && r.monitor != nil {
		r.endMonitoring()
	}
}

// EndReload lets checks count though the program reloads its configuration.
func (v View) EndReload() {
	if r := v.In.run; r != nil && r.monitor != nil && r.reloadTimer != nil {
		r.reloadTimer.Stop()
		r.reloadTimer = nil
	}
}

// AnswerReload ends a reload during its reload_command, as if that had succeeded.
func (v View) AnswerReload() {
	if r := v.In.run; r != nil && r.beside != nil {
		r.beside.AnswerReload()
	}
}

// PassChecks lets each check before a restart succeed.
func (v View) PassChecks() {
	if r := v.In.run; r != nil && r.beside != nil {
		r.beside.PassChecks()
	}
}

// SignalBesideCommand sends the stop signal while stop_command runs.
func (v View) SignalBesideCommand() {
	r := v.In.run
	if r != nil && r.main.process != nil && r.beside.StopState() == snapshot.StopCommandRuns {
		r.stop.signal()
	}
}

// HideHungStart forgets the report of a start that can't be cancelled.
func (v View) HideHungStart() {
	r := v.In.run
	if r != nil && r.hook == nil && r.spawn.pending != nil && v.In.Unkillable() != "" {
		v.In.unkillable = ""
		v.In.Env.Owner.UnkillableChanged(v.In, false)
	}
}
