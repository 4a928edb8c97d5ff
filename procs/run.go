package procs

import (
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/host"
	"superd/procs/snapshot"
)

// A run lasts from the first pre_start hook to the end of the teardown. Its scope owns its
// resources.
type run struct {
	in    *instance
	scope loop.Scope
	// Definition of the run; a reload replaces it if that needs no restart
	program      *config.Program
	config       uint64 // number of the configuration that has program
	invocationID string
	hook         *hookRun // hooks under way; nil without them

	// Begins the run when the hung workers of earlier runs have returned; nil if there are none
	delayedBegin func()
	// Spawn of the main process; nil once its result is known
	pending      host.PendingSpawn
	startTimer   *loop.Timer   // start time-out; nil when the start is over
	process      host.Process  // main process; nil before it exists and after its exit
	firstProcess pidfd.Process // storage of process for the process that was started
	mainScope    loop.Scope    // of the main process: its timers and notifications
	// Of the pidfd of the main process; within mainScope, reopened when the main process changes
	pidfdScope loop.Scope
	// By which closing pidfdScope closes process and releases its stored pidfd
	releaseLink loop.Link
	// For the exit of the main process; nil if its pidfd can't be watched
	mainWatch  *loop.Watch
	firstWatch loop.Watch // storage of mainWatch for the first main process
	group      int32      // process group of the first main process, once that is gone
	id         pidfd.Identity
	fdName     fdName        // name of the main process's pidfd in the descriptor store
	startedAt  time.Duration // just before the fork of the main process
	readyAt    time.Duration // 0 before it is ready
	readiness  *readiness    // nil unless readiness is awaited

	startDeadline time.Duration // end of the start time-out; 0 unless readiness is awaited

	*notifyState                  // never nil
	monitor      *monitor         // nil unless the run is ready and monitored
	savedHealth  *snapshot.Health // health that the predecessor saved; else nil

	envSum       uint64        // [document.EnvSum] of the env file of the start; 0: none
	mainCount    int32         // number of main processes so far
	oomKills     int32         // OOM kills in the tree when the run began
	stopDeadline time.Duration // end of the stop time-out; 0 before a stop
	stopLimit    time.Duration // latest stopDeadline that the program can request
	stopTimer    *loop.Timer   // StopTimeout; nil before a stop
	killTimer    *loop.Timer   // KillTimeout; nil before SIGKILL
	// When leftover processes get SIGKILL; 0 while the main process lives
	teardownDeadline time.Duration
	teardown         *teardown // nil while the main process lives

	// What the predecessor recorded in the event log, perhaps not in the journal
	recordedBefore eventlog.Recorded
	hadProcess     bool // a process was started, so a teardown may be needed
	preStarted     bool // the pre_start hooks are over
	postStopped    bool // the post_stop hooks are over
	timedOut       bool // the start time-out ended before the spawn had a result
	// Whether startTimer bounds the wait for a killed child, not the start
	awaitsKill  bool
	exitedEarly bool        // the main process exited with success within earlyExitTime
	notifyDrain notifyDrain // whether all messages of the main process are read
}

// notifyDrain is the progress of reading the notifications that a main process sent before its
// exit.
type notifyDrain uint8

const (
	drainNotStarted notifyDrain = iota
	drainStarted
	drainDone
)

// snapshot returns the snapshot of the run.
func (r *run) snapshot() *snapshot.Run {
	v := &snapshot.Run{
		ID: r.invocationID, HadProcess: r.hadProcess, StartedAt: r.startedAt, ReadyAt: r.readyAt,
		StartDeadline: r.startDeadline, StopLimit: r.stopLimit, Health: r.savedHealth,
		Group: int(r.group), OOMKills: int(r.oomKills), EnvSum: r.envSum,
		StopDeadline: r.stopDeadline, TeardownDeadline: r.teardownDeadline,
		Hook: r.hook.snapshot(), PreStarted: r.preStarted, PostStopped: r.postStopped,
	}
	if r.program != r.in.program {
		v.Definition = snapshot.WithoutMistakes(r.program)
	}
	if r.process != nil {
		v.Main = snapshotIdentity(r.id, r.fdName.String())
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
func (in *instance) restoreRun(number uint64, v *snapshot.Run) *run {
	r := &run{
		in: in, program: in.program, config: number, invocationID: v.ID, hadProcess: v.HadProcess,
		startedAt: v.StartedAt, readyAt: v.ReadyAt, notifyState: &noNotifyState,
		stopLimit: v.StopLimit, savedHealth: v.Health, group: int32(v.Group),
		oomKills: int32(v.OOMKills), envSum: v.EnvSum, stopDeadline: v.StopDeadline,
		teardownDeadline: v.TeardownDeadline, preStarted: v.PreStarted, postStopped: v.PostStopped,
	}
	r.scope.Open(&in.scope)
	if v.Definition != nil {
		r.program = v.Definition
	}
	if v.PrintsFrom != "" || v.StderrFrom != "" {
		r.ownNotifyState().outputStart = [...]string{v.PrintsFrom, v.StderrFrom}
	}
	if r.hadProcess && in.tree.OOMKills() < int(r.oomKills) {
		r.oomKills = int32(in.tree.OOMKills()) // the kernel's counter restarted
	}
	in.run = r
	return r
}

// snapshotIdentity returns the record of a process. storedName is the name of its pidfd in the
// descriptor store.
func snapshotIdentity(id pidfd.Identity, storedName string) *snapshot.Process {
	return &snapshot.Process{Pid: id.Pid, Start: id.Start, Inode: id.Inode, FDName: storedName}
}

// restoreIdentity returns the identity of a recorded process.
func restoreIdentity(v *snapshot.Process) pidfd.Identity {
	return pidfd.Identity{Pid: v.Pid, Start: v.Start, Inode: v.Inode}
}

// mainEnded reports whether the main process has ended, even if its exit status is not known yet.
func (r *run) mainEnded() bool { return r.process == nil || r.process.Ended() }

// endAwaited reports whether the main process has ended and superd waits for its exit status or its
// last messages. Both waits are bounded.
func (r *run) endAwaited() bool {
	a, isAdopted := r.process.(*adoptedProcess)
	return r.notifyDrain == drainStarted ||
		isAdopted && a.endedAt != 0 && a.reaper.loop.Now()-a.endedAt <= a.statusTimeout()
}

// releaseNotifyFDs releases the stored notify socket and readiness pipe at the end of the run.
func (in *instance) releaseNotifyFDs(r *run) {
	for _, storedName := range []string{r.notifyFDName, r.readyFDName} {
		if storedName != "" {
			r.scope.Defer(func() { in.sup.fds.release(storedName) })
		}
	}
}

// setFirstMain sets the first main process of the run. storedName is the name of its pidfd in the
// descriptor store.
func (in *instance) setFirstMain(r *run, process host.Process, id pidfd.Identity, storedName string) {
	r.hadProcess = true
	r.mainScope.Open(&r.scope)
	in.setMain(r, process, id, storedName)
}

// setMain sets the main process, whose exit ends the run.
func (in *instance) setMain(r *run, process host.Process, id pidfd.Identity, storedName string) {
	r.process, r.id, r.fdName = process, id, fdNameOf(storedName)
	r.pidfdScope.Open(&r.mainScope)
	r.pidfdScope.Adopt(&r.releaseLink, r)
	r.notifyDrain = drainNotStarted
	r.mainCount++
	number := r.mainCount
	r.mainWatch = &r.firstWatch
	if number > 1 {
		r.mainWatch = new(loop.Watch) // the loop may still use the watch of the process before
	}
	watching, _ := in.sup.reaper.watchExit(&r.pidfdScope, r.mainWatch, process, func() {
		if r.mainCount == number && r.process != nil {
			r.in.reap(r, r.process)
		}
	})
	if !watching {
		r.mainWatch = nil
	}
}

// Release closes the main process and releases its stored pidfd. It is called when pidfdScope
// closes.
func (r *run) Release() {
	loop.Unlink(&r.releaseLink)
	r.process.Close()
	r.in.sup.fds.releaseProcess(r.fdName.String())
}

// listenForNotify takes over the descriptors on which superd receives notifications; -1: none.
func (in *instance) listenForNotify(r *run, notify, ready int) {
	if notify >= 0 {
		in.listen(r, notify)
	}
	if ready >= 0 {
		r.ownNotifyState().readyFD = ready
		r.mainScope.Defer(func() {
			if r.readyFD >= 0 { // no readiness has claimed it
				in.sup.host.CloseFD(r.readyFD)
			}
		})
	}
}

// hasLeftovers reports whether the run needs a teardown.
func (in *instance) hasLeftovers(r *run) bool {
	return in.probing() || r.hadProcess && (len(r.program.PostStop) > 0 || r.program.KillMode != config.KillProcess && !in.tree.Empty())
}
