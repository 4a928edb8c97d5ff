package instance

import (
	"reflect"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
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

	spawn spawnAttempt // up to the result of the spawn of the main process
	hook  *hookRun     // hooks under way; nil without them
	main  mainProcess
	stop  stopping // of the main process

	readyAt       time.Duration    // 0 before it is ready
	readiness     *readiness       // nil unless readiness is awaited
	startDeadline time.Duration    // end of the start time-out; 0 unless readiness is awaited
	monitor       *monitor         // nil unless the run is ready and monitored
	savedHealth   *snapshot.Health // health that the predecessor saved; else nil
	*notifyState                   // never nil

	teardown *teardown // nil while the main process lives
	// When leftover processes get SIGKILL; 0 while the main process lives
	teardownDeadline time.Duration
}

// newRun returns a run of the instance that has done nothing yet.
func (in *Instance) newRun(program *config.Program, invocationID string) *run {
	r := &run{in: in, program: program, invocationID: invocationID, notifyState: &noNotifyState}
	r.spawn.run, r.main.run, r.stop.run = r, r, r
	r.scope.Open(&in.Scope)
	return r
}

// snapshot returns the snapshot of the run.
func (r *run) snapshot() *snapshot.Run {
	v := &snapshot.Run{
		ID: r.invocationID, HadProcess: r.hadProcess, StartedAt: r.main.startedAt, ReadyAt: r.readyAt,
		StartDeadline: r.startDeadline, StopLimit: r.stop.limit, Health: r.savedHealth,
		Group: int(r.main.group), OOMKills: int(r.main.oomKills), EnvSum: r.spawn.envSum,
		StopDeadline: r.stop.deadline, TeardownDeadline: r.teardownDeadline,
		Hook: r.hook.snapshot(), PreStarted: r.spawn.preStarted, PostStopped: r.postStopped,
	}
	if r.program != r.in.Program {
		v.Definition = snapshot.WithoutMistakes(r.program)
	}
	if r.main.process != nil {
		v.Main = SnapshotIdentity(r.main.id, r.main.fdName.String())
	}
	if r.readyAt == 0 {
		v.PrintsFrom, v.StderrFrom = r.outputStart[logs.Stdout], r.outputStart[logs.Stderr]
	}
	if r.monitor != nil {
		v.Health = r.monitor.snapshot()
	}
	r.notifyState.snapshot(v)
	return v
}

// restoreRun sets the run to that of a record, without its processes, timers and notifications.
func (in *Instance) restoreRun(number uint64, v *snapshot.Run) *run {
	r := in.newRun(in.Program, v.ID)
	r.config, r.hadProcess, r.readyAt, r.savedHealth = number, v.HadProcess, v.ReadyAt, v.Health
	r.spawn.envSum, r.spawn.preStarted = v.EnvSum, v.PreStarted
	r.main.startedAt, r.main.group, r.main.oomKills = v.StartedAt, int32(v.Group), int32(v.OOMKills)
	r.stop.deadline, r.stop.limit = v.StopDeadline, v.StopLimit
	r.teardownDeadline, r.postStopped = v.TeardownDeadline, v.PostStopped
	if v.Definition != nil {
		r.program = v.Definition
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

// SnapshotIdentity returns the record of a process. storedName is the name of its pidfd in the
// descriptor store.
func SnapshotIdentity(id pidfd.Identity, storedName string) *snapshot.Process {
	return &snapshot.Process{Pid: id.Pid, Start: id.Start, Inode: id.Inode, FDName: storedName}
}

// RestoreIdentity returns the identity of a recorded process.
func RestoreIdentity(v *snapshot.Process) pidfd.Identity {
	return pidfd.Identity{Pid: v.Pid, Start: v.Start, Inode: v.Inode}
}

// releaseNotifyFDs releases the stored notify socket and readiness pipe at the end of the run.
func (r *run) releaseNotifyFDs() {
	for _, storedName := range []string{r.notifyFDName, r.readyFDName} {
		if storedName != "" {
			r.scope.Defer(func() { r.in.Env.FDs.Release(storedName) })
		}
	}
}

// listenForNotify takes over the descriptors on which superd receives notifications; -1: none.
func (r *run) listenForNotify(notify, ready int) {
	if notify >= 0 {
		r.listen(notify)
	}
	if ready >= 0 {
		r.ownNotifyState().readyFD = ready
		r.main.scope.Defer(func() {
			if r.readyFD >= 0 { // no readiness has claimed it
				r.in.Env.Host.CloseFD(r.readyFD)
			}
		})
	}
}

// hasLeftovers reports whether the run needs a teardown.
func (r *run) hasLeftovers() bool {
	return r.in.probing() || r.hadProcess && (len(r.program.PostStop) > 0 || r.program.KillMode != config.KillProcess && !r.in.Tree.Empty())
}

// change gives the current run a definition that needs no restart. It moves the run's deadlines
// by the difference of the time-outs.
func (r *run) change(program *config.Program) {
	in := r.in
	shift := func(t *loop.Timer, by time.Duration) {
		if t.Active() && by != 0 {
			t.Reset(t.Due() + by - in.Env.Loop.Now())
		}
	}
	start, stop := program.StartTimeout-r.program.StartTimeout, program.StopTimeout-r.program.StopTimeout
	if h := r.hook; h != nil { // hooks are identified by their index, so the lists must not change
		h.timeout += start
		if h.timer.Active() {
			h.due += start
			shift(h.timer, start)
		}
		own := program.Clone()
		own.PreStart, own.PostStop = r.program.PreStart, r.program.PostStop
		program = own
	}
	// A newline on a descriptor is awaited without an interval, and only once.
	ready := !reflect.DeepEqual(r.program.Ready, program.Ready) && (program.Ready == nil || program.Ready.FD == 0)
	health := !reflect.DeepEqual(r.program.Health, program.Health)
	if r.program = program; r.hook == nil { // else the definition is no configuration's
		r.config = in.Env.Config.Number()
	}
	if !r.spawn.awaitsKill {
		shift(r.spawn.timer, start)
	}
	if w := r.readiness; w != nil {
		r.startDeadline += start
		shift(w.due, start)
	}
	shift(r.reloadTimer, start)
	shift(r.ownStopTimer, stop)
	switch {
	case ready && r.readiness != nil:
		r.awaitReady(r.startDeadline)
	case health && in.Machine.State() == fsm.Running:
		r.startMonitoring()
	}
	if r.stop.timer.Active() {
		r.stop.deadline += stop
		shift(r.stop.timer, stop)
	}
	if t := r.teardown; t != nil && t.due.Active() {
		r.teardownDeadline += stop
		shift(t.due, stop)
	}
}

// RestartsFor reports whether the instance has to be restarted for a change of its program.
func (in *Instance) RestartsFor(c *config.Change) bool {
	if in.run == nil {
		return c.Restarts()
	}
	diff := config.CompareProgram(in.run.program, c.Program)
	return diff.Restarts()
}

// Redefined applies the definition that the instance has got in place of before. restarts reports
// whether it has to be restarted.
func (in *Instance) Redefined(before *config.Program, restarts bool) {
	in.Machine.Redefine(in.Program, restarts)
	defer in.Save()
	defer in.UpdateSchedule()
	if in.run != nil && !restarts {
		in.run.change(in.Program)
	}
	in.Output.setOptions()
	if in.Quarantined() {
		return
	}
	change := fsm.Change{Before: before, Restarts: restarts, Exit: in.LastExit.exit()}
	if t, ok := in.Machine.Reevaluate(change, in.Conditions(), in.Env.RNG); ok {
		in.Apply(t)
	}
}

// EnvSum returns the sum of the env file with which the run was started; 0: none.
func (in *Instance) EnvSum() uint64 {
	if in.run == nil {
		return 0
	}
	return in.run.spawn.envSum
}

// SetOutputStart saves where the output of a run begins in its log. It does nothing if that is not
// the current run.
func (in *Instance) SetOutputStart(at logs.RunStart) {
	if in.run != nil && in.run.invocationID == at.Run {
		in.run.ownNotifyState().outputStart[at.Stream] = at.At.String()
		in.Save()
	}
}
