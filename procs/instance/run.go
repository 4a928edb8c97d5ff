package instance

import (
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/instance/beside"
	"superd/procs/instance/health"
	"superd/procs/instance/readiness"
	"superd/procs/instance/teardown"
	"superd/procs/snapshot"
)

// A run lasts from the first pre_start hook to the end of the teardown. Its scope owns its
// resources.
type run struct {
	in    *Instance
	scope loop.Scope
	// Definition of the run; a reload replaces it if that needs no restart
	program      *config.Program
	config       uint64 // number of the configuration that has program
	invocationID string
	// What the predecessor recorded in the event log, perhaps not in the journal
	recordedBefore eventlog.Recorded
	hadProcess     bool // a process was started, so a teardown may be needed
	postStopped    bool // the post_stop hooks are over
	sparedRecorded bool // it is on record that processes of the run are not killed

	spawn spawnAttempt // up to the result of the spawn of the main process
	hook  *hookRun     // hooks under way; nil without them
	main  mainProcess
	stop  stopping // of the main process

	readyAt      time.Duration    // 0 before it is ready
	readiness    *readiness.Wait  // nil unless readiness is awaited
	monitor      *health.Monitor  // nil unless the run is ready and monitored
	savedHealth  *snapshot.Health // health that the predecessor saved; else nil
	*notifyState                  // never nil

	teardown *teardown.Teardown // nil while the main process lives
	beside   *beside.Commands   // commands beside the main process; nil before the first
}

// newRun returns a run of the instance that has done nothing yet.
func newRun(in *Instance, program *config.Program, invocationID string) *run {
	r := &run{in: in, program: program, invocationID: invocationID, notifyState: &noNotifyState}
	r.spawn.run, r.main.run, r.stop.run = r, r, r
	r.scope.Open(&in.Scope)
	return r
}

// stable returns how long the run has been ready, 0 if it never was.
func (r *run) stable(now time.Duration) time.Duration {
	if r.readyAt == 0 {
		return 0
	}
	return now - r.readyAt
}

// hasLeftovers reports whether the run needs a teardown.
func (r *run) hasLeftovers() bool {
	return r.in.probing() || r.beside.Executing() || r.program.RemovesDirectories() || r.hadProcess && (len(r.program.PostStop) > 0 ||
		!sparesAll(r) && !r.in.Tree.Empty())
}

// snapshot returns the snapshot of the run.
func (r *run) snapshot() *snapshot.Run {
	v := &snapshot.Run{
		ID: r.invocationID, HadProcess: r.hadProcess, StartedAt: r.main.startedAt, ReadyAt: r.readyAt,
		StartDeadline: r.readiness.Deadline(), StopLimit: r.stop.limit, Health: r.savedHealth,
		Group: int(r.main.group), OOMKills: int(r.main.oomKills), EnvSum: r.spawn.envSum,
		StopDeadline: r.stop.deadline, TeardownDeadline: r.stop.teardownDeadline,
		KillSignal:      int(r.main.killing),
		SandboxWarnings: r.in.sandbox, SparedRecorded: r.sparedRecorded,
		Hook: r.hook.snapshot(), PreStarted: r.spawn.preStarted, PostStopped: r.postStopped,
	}
	if r.program != r.in.Program {
		v.Definition = snapshot.WithoutMistakes(r.program)
	}
	if r.main.process != nil {
		v.Main = snapshot.NewProcess(r.main.id, r.main.fdName.String())
	}
	v.Launch = r.main.launch.snapshot()
	v.Beside = r.beside.Snapshot()
	if r.readyAt == 0 {
		v.PrintsFrom, v.StderrFrom = r.outputStart[logs.Stdout], r.outputStart[logs.Stderr]
	}
	if r.monitor != nil {
		v.Health = r.monitor.Snapshot()
	}
	r.notifyState.snapshot(v)
	return v
}

// restoreRun makes the run of a record the instance's run, without its processes, timers and
// notifications. number is that of the configuration that has its definition.
func restoreRun(in *Instance, number uint64, v *snapshot.Run) *run {
	r := newRun(in, in.Program, v.ID)
	r.config, r.hadProcess, r.readyAt, r.savedHealth = number, v.HadProcess, v.ReadyAt, v.Health
	r.spawn.envSum, r.spawn.preStarted = v.EnvSum, v.PreStarted
	r.main.startedAt, r.main.group, r.main.oomKills = v.StartedAt, int32(v.Group), int32(v.OOMKills)
	r.stop.deadline, r.stop.limit = v.StopDeadline, v.StopLimit
	r.stop.teardownDeadline, r.postStopped = v.TeardownDeadline, v.PostStopped
	r.main.drains = v.StopDeadline != 0 && in.Machine.Drains()
	r.sparedRecorded, r.main.killing = v.SparedRecorded, int32(v.KillSignal)
	if v.Beside != nil {
		r.ownBeside().Restore(v.Beside)
	}
	if v.Definition != nil {
		r.program = v.Definition
	}
	r.main.launch = restoreLaunch(v.Launch)
	r.in.Env.shared.directoryUsers.Claim(&r.scope, removedDirectories(r))
	if len(v.SandboxWarnings) > 0 {
		in.ownProblems().sandbox = v.SandboxWarnings
	}
	if v.PrintsFrom != "" || v.StderrFrom != "" {
		r.ownNotifyState().outputStart = [...]string{v.PrintsFrom, v.StderrFrom}
	}
	if r.hadProcess && in.Tree.OOMKills() < int(r.main.oomKills) {
		r.main.oomKills = int32(in.Tree.OOMKills()) // the kernel's counter restarted
	}
	in.run = r
	return r
}

// RunID returns the id of the present run of an instance; empty without one.
func RunID(in *Instance) string {
	if in.run == nil {
		return ""
	}
	return in.run.invocationID
}

// ReadySince returns when the present run of an instance became ready; 0: it has not.
func ReadySince(in *Instance) time.Duration {
	if in.run == nil {
		return 0
	}
	return in.run.readyAt
}

// EnvSum returns the sum of the env file with which the run was started; 0: none.
func (in *Instance) EnvSum() uint64 {
	if in.run == nil {
		return 0
	}
	return in.run.spawn.envSum
}

// ownNotifyState returns the run's own notifyState, for writing, and allocates it if necessary.
func (r *run) ownNotifyState() *notifyState {
	if r.notifyState == &noNotifyState {
		t := noNotifyState
		r.notifyState = &t
	}
	return r.notifyState
}

// whenNotifyDrained calls f when all notifications sent by now are read.
func (r *run) whenNotifyDrained(f func()) {
	if r.listener == nil {
		f()
		return
	}
	r.listener.WhenTaken(f)
}
