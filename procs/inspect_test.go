package procs

import (
	"iter"
	"maps"
	"slices"
	"time"

	"superd/config"
	"superd/procs/deps"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/probe"
	"superd/procs/schedule"
	"superd/procs/snapshot"
)

// An inspection is what tests see of a supervisor besides its exported API. No other test names a
// private member of an instance or of what belongs to one. It has
//
//   - the instances in order, by name and by program, each as an [instanceView];
//   - the active configuration with its number, and whether the journal has the previous one;
//   - the shutdown: whether it has begun, is hurried, why, and which instances it has not reached;
//   - the exit policy, the scales, the counts per state, and the start on the loop's clock.
//
// An instanceView has the definition, a copy of the machine, membership, the pending restart, the
// last exit, diagnostics, the waiters, the exec check and the schedule. Its [runView] has the id,
// the definition, deadlines, process and spawn, health and reload of a run, its [hookView] and its
// [teardownView].
//
// All methods return values. Views of one instance or run are equal, so they can be map keys. The
// last part of the file has what tests do to a supervisor from inside: activate a configuration,
// end as by a kill, and plant defects.
type inspection struct{ s *Supervisor }

func inspect(s *Supervisor) inspection { return inspection{s} }

// instances returns all instances in order.
func (i inspection) instances() iter.Seq[instanceView] {
	return func(yield func(instanceView) bool) {
		for j := 0; j < len(i.s.registry.instances); j++ { // one may be removed meanwhile
			if !yield(instanceView{i.s.registry.instances[j]}) {
				return
			}
		}
	}
}

// count returns the number of instances, and at the one at that place.
func (i inspection) count() int { return len(i.s.registry.instances) }
func (i inspection) at(place int) instanceView {
	return instanceView{i.s.registry.instances[place]}
}

// instance returns the instance with that name, which may not exist.
func (i inspection) instance(name string) instanceView {
	return instanceView{i.s.registry.byName[name]}
}

// of returns the instances of a program, including those being removed.
func (i inspection) of(program string) []instanceView { return viewsOf(i.s.registry.of(program)) }

// selected returns the instances that a name selects.
func (i inspection) selected(name string) []instanceView {
	all, _ := i.s.selector.instances([]string{name})
	return viewsOf(all)
}

func viewsOf(all []*instance) (views []instanceView) {
	for _, in := range all {
		views = append(views, instanceView{in})
	}
	return views
}

// inState returns how many instances are in the state.
func (i inspection) inState(state fsm.State) int { return i.s.registry.counts[state] }

// config returns the active configuration.
func (i inspection) config() *config.Config { return i.s.config.active }

// configNumber returns its number.
func (i inspection) configNumber() uint64 { return i.s.config.number }

// previousConfig returns the number of the previous configuration while the journal has it; 0: it
// does not.
func (i inspection) previousConfig() uint64 { return i.s.config.before }

func (i inspection) startedAt() time.Duration   { return i.s.startedAt }
func (i inspection) shutdownBegun() bool        { return i.s.shutdown.begun }
func (i inspection) shutdownHurried() bool      { return i.s.shutdown.hurry }
func (i inspection) shutdownReason() fsm.Reason { return i.s.shutdown.why }

// anyStarted reports whether a program was started, so that exit_when applies.
func (i inspection) anyStarted() bool { return i.s.exitPolicy.anyStarted }

// allEnded reports whether exit_when = "all-exited" is satisfied.
func (i inspection) allEnded() bool { return i.s.exitPolicy.allEnded() }

// scales returns the operator's scales, by program.
func (i inspection) scales() map[string]snapshot.Scale { return i.s.replicas.scales }

// desiredFor returns the desired state of a new instance of the program; nil: the configuration's.
func (i inspection) desiredFor(program string) *fsm.Target {
	return i.s.replicas.desiredFor(program)
}

// An instanceView is a view of one instance; the zero value is none.
type instanceView struct{ in *instance }

func (v instanceView) exists() bool                    { return v.in != nil }
func (v instanceView) name() string                    { return v.in.name }
func (v instanceView) program() *config.Program        { return v.in.program }
func (v instanceView) state() fsm.State                { return v.in.machine.State() }
func (v instanceView) target() fsm.Target              { return v.in.machine.Desired() }
func (v instanceView) leaves() bool                    { return v.in.membership.Leaves() }
func (v instanceView) availability() deps.Availability { return v.in.availability() }
func (v instanceView) isComing() bool                  { return v.in.isComing() }
func (v instanceView) isOneShot() bool                 { return v.in.isOneShot() }
func (v instanceView) awaitsSchedule() bool            { return v.in.awaitsSchedule() }
func (v instanceView) staysDown() bool                 { return v.in.staysDown() }
func (v instanceView) exitStatus() int                 { return v.in.exitStatus() }
func (v instanceView) reason() string                  { return v.in.reason() }
func (v instanceView) waitsFor() []string              { return v.in.waitsFor() }
func (v instanceView) pid() int                        { return v.in.pid() }
func (v instanceView) status() Status                  { return v.in.status() }
func (v instanceView) diagnosis() Diagnosis            { return v.in.diagnosis() }
func (v instanceView) refusal(op Op) string            { return v.in.refusal(op) }
func (v instanceView) record() *snapshot.Instance      { return v.in.snapshot() }
func (v instanceView) logPath() string                 { return v.in.collector.Path() }
func (v instanceView) unkillable() string              { return v.in.unkillable }
func (v instanceView) stateSince() time.Duration       { return v.in.sinceAt }
func (v instanceView) hasDependents() bool             { return v.in.node.HasDependents() }

// machine returns a copy of the machine.
func (v instanceView) machine() *fsm.Machine {
	m := v.in.machine
	return &m
}

// finalTarget returns the desired state of the instance or, if it leaves, of its replacement.
func (v instanceView) finalTarget() fsm.Target { return v.in.desired() }

// hasReplacement reports whether a replacement is to be created.
func (v instanceView) hasReplacement() bool { return v.in.replacement != nil }

// hasReplacementTarget reports whether the operator has set the desired state of the replacement.
func (v instanceView) hasReplacementTarget() bool { return v.in.replacementTarget != nil }

// retryPending reports whether a restart is pending.
func (v instanceView) retryPending() bool { return v.in.restartTimer != nil }

// retryDue returns when the pending restart is due.
func (v instanceView) retryDue() time.Duration { return v.in.restartTimer.Due() }

// lastExit returns how the last run ended, and when on the loop's clock.
func (v instanceView) lastExit() (e fsm.Exit, at time.Duration) {
	if v.in.lastExit == nil {
		return fsm.Exit{}, 0
	}
	return v.in.lastExit.exit(), v.in.lastExit.at
}

// awaitsStop reports whether a shutdown has not requested the instance to stop yet.
func (v instanceView) awaitsStop() bool {
	d := v.in.sup.shutdown
	return d.requestingStops() && slices.Contains(d.stopQueue, v.in)
}

// answerPending reports whether the waiters are about to be answered, or the instance to be
// reconciled.
func (v instanceView) answerPending() bool { return v.in.answerQueued || v.in.enqueued }

// mustEnd reports whether the run must end, whatever the desired state.
func (v instanceView) mustEnd() bool { return v.in.mustEnd() }

// quarantined reports whether leftover processes prevent the start.
func (v instanceView) quarantined() bool { return v.in.quarantine != nil }

// inConflict reports whether another instance must be removed before this one starts.
func (v instanceView) inConflict() bool { return v.in.conflict != nil }

// A waiterView is a command that waits for the instance.
type waiterView struct {
	op        Op
	dependent bool // the instance restarts only because it requires another one
}

func (v instanceView) waiters() (all []waiterView) {
	for _, w := range v.in.waiters {
		all = append(all, waiterView{w.op, w.dependent})
	}
	return all
}

// A probeView is the exec check of an instance.
type probeView struct {
	busy    bool              // a check or its leftover processes are under way
	check   bool              // a check is under way
	process bool              // it has a process
	pending host.PendingSpawn // its spawn; nil: none
}

func (v instanceView) probe() (p probeView) {
	if p.busy = v.in.probing(); v.in.execProbe == nil || v.in.execProbe.check == nil {
		return p
	}
	c := v.in.execProbe.check
	p.check, p.process, p.pending = true, c.process != nil, c.pending
	return p
}

// schedule returns the progress of the schedule, or none.
func (v instanceView) schedule() scheduleView { return scheduleView{v.in.schedule} }

// A scheduleView is a view of the progress of a schedule; the zero value is none.
type scheduleView struct{ sc *scheduleState }

func (v scheduleView) exists() bool             { return v.sc != nil }
func (v scheduleView) progress() schedule.State { return v.sc.entry.State() }

// dueFor returns the latest time that was due.
func (v scheduleView) dueFor() time.Time { return v.sc.dueFor }

// hasNext reports whether the schedule has a further time.
func (v scheduleView) hasNext() bool {
	_, ok := v.sc.entry.Plan()
	return ok
}

// run returns the present run, or none.
func (v instanceView) run() runView { return runView{v.in.run} }

// A runView is a view of one run; the zero value is none.
type runView struct{ r *run }

func (v runView) exists() bool                 { return v.r != nil }
func (v runView) id() string                   { return v.r.invocationID }
func (v runView) program() *config.Program     { return v.r.program }
func (v runView) closed() bool                 { return v.r.scope.Closed() }
func (v runView) startedAt() time.Duration     { return v.r.startedAt }
func (v runView) readyAt() time.Duration       { return v.r.readyAt }
func (v runView) startDeadline() time.Duration { return v.r.startDeadline }
func (v runView) stopDeadline() time.Duration  { return v.r.stopDeadline }
func (v runView) mainEnded() bool              { return v.r.mainEnded() }
func (v runView) reloads() bool                { return v.r.reloadTimer != nil }
func (v runView) reloadedAt() time.Duration    { return v.r.reloadedAt }
func (v runView) stopsItself() bool            { return v.r.ownStopTimer != nil }

// stable returns how long the run was ready at that time.
func (v runView) stable(at time.Duration) time.Duration { return v.r.stable(at) }

// hasProcess reports whether the main process exists and its exit is not known yet.
func (v runView) hasProcess() bool { return v.r != nil && v.r.process != nil }

// process returns the host's main process; nil: the run has none, or it was gone at recovery.
func (v runView) process() host.Process { return hostProcess(v.r.process) }

func hostProcess(p host.Process) host.Process {
	if a, ok := p.(*adoptedProcess); ok {
		return a.Process
	}
	return p
}

// spawn returns the spawn of the main process or of the current hook; nil: none is under way.
func (v runView) spawn() host.PendingSpawn {
	if v.r.hook != nil {
		return v.r.hook.pending
	}
	return v.r.pending
}

// hook returns the hooks under way, or none. The run may be none, too.
func (v runView) hook() hookView {
	if v.r == nil {
		return hookView{}
	}
	return hookView{v.r.hook}
}

// A hookView is a view of the hooks under way; the zero value is none.
type hookView struct{ h *hookRun }

func (v hookView) exists() bool           { return v.h != nil }
func (v hookView) number() int            { return v.h.at }
func (v hookView) due() time.Duration     { return v.h.due }
func (v hookView) timeout() time.Duration { return v.h.timeout }
func (v hookView) process() host.Process  { return hostProcess(v.h.process) }

// teardown returns the teardown under way, or none. The run may be none, too.
func (v runView) teardown() teardownView {
	if v.r == nil {
		return teardownView{}
	}
	return teardownView{v.r.teardown}
}

// A teardownView is a view of a teardown; the zero value is none.
type teardownView struct{ t *teardown }

func (v teardownView) exists() bool { return v.t != nil }

// kills reports whether the teardown has begun to send SIGKILL.
func (v teardownView) kills() bool { return v.t.killing }

// living returns the pids of the processes that the last scan found.
func (v teardownView) living() iter.Seq[int] { return maps.Keys(v.t.living) }

// healthy returns what the checks say: -1 unhealthy, 1 healthy, 0 unknown.
func (v runView) healthy() int {
	if v.r.monitor == nil || v.r.monitor.healthy() == nil {
		return 0
	}
	if *v.r.monitor.healthy() {
		return 1
	}
	return -1
}

// What tests do to a supervisor from inside.

// apply activates a configuration with a given comparison, as a reload does.
func (i inspection) apply(next *config.Config, diff config.Diff) ReloadResult {
	return i.s.reloads.applyWithExitPolicy(next, diff)
}

// activate activates a configuration as a reload does.
func (i inspection) activate(next *config.Config) ReloadResult {
	return i.s.reloads.compareAndApply(next)
}

// kill ends the supervisor as SIGKILL does.
func (i inspection) kill() { i.s.scope.Close() }

// killed reports whether the supervisor has ended.
func (i inspection) killed() bool { return i.s.scope.Closed() }

// setEnvSum sets the sum of the env file with which the run was started.
func (v runView) setEnvSum(sum uint64) { v.r.envSum = sum }

// failCheck gives the run's monitor the result of a check that has just failed.
func (v runView) failCheck(reason string) {
	now := v.r.in.sup.loop.Now()
	v.r.monitor.onResult(probe.Result{Outcome: probe.Failed, Reason: reason, At: now})
}

// checkByCommand starts an exec check of the instance.
func (v instanceView) checkByCommand(
	command []string, done func(error),
) (stop func() (begun bool)) {
	return (&execChecker{v.in, v.in.run, command}).Check(done)
}

// restoreCopy makes an instance from a record and returns what the instance snapshots.
func (i inspection) restoreCopy(v *snapshot.Instance, program *config.Program) *snapshot.Instance {
	in := i.s.newInstance(program.Name, program, v.Run.Definition, "")
	in.membership = in.membership.After(fsm.Retire)
	in.restore(v)
	(&recoveredInstance{
		in: in, saved: snapshot.Merged{Instance: v}, recovered: &host.RecoveredProcess{},
	}).restoreOutput()
	r := in.restoreRun(v.Config, v.Run)
	r.mainScope.Open(&r.scope)
	r.restoreNotify(v.Run, v.Run.Notify, v.Run.Ready)
	in.restoreAnnouncements(r, v.Run)
	in.preStart(r).restore(v.Run.Hook)
	return in.snapshot()
}

// redefineMachine lets only the machine use another definition.
func (v instanceView) redefineMachine(p *config.Program) { v.in.machine.Redefine(p, false) }

// The functions from here on plant defects.

// changeRunProgram changes the definition of the run.
func (v instanceView) changeRunProgram(alter func(*config.Program) *config.Program) {
	if r := v.in.run; r != nil {
		r.program = alter(r.program)
	}
}

// spareHook forgets that the hook is to be killed when it has a process.
func (v instanceView) spareHook() {
	if r := v.in.run; r != nil && r.hook != nil && r.hook.process == nil {
		r.hook.killWhenStarted = false
	}
}

// forgetExitStatus lets superd end with status 0.
func (v instanceView) forgetExitStatus() {
	if p := v.in.sup.exitPolicy; p.decided {
		p.status = 0
	}
}

// delayWaiters hides the waiters until the next turn.
func (v instanceView) delayWaiters() {
	in := v.in
	waiters := in.waiters
	in.waiters = nil
	in.sup.loop.Post(func() { in.waiters = append(waiters, in.waiters...) })
}

// neverWrite cancels the next write of the journal.
func (v instanceView) neverWrite() { v.in.sup.recorder.timer.Stop() }

// dropReconciliation empties the reconcile queue.
func (v instanceView) dropReconciliation() {
	v.in.sup.reconciler.queue, v.in.enqueued = nil, false
}

// miscount falsifies the requirement counts of an instance that has any.
func (v instanceView) miscount(change func(required, ordered []int32, orderings *int32)) {
	v.in.node.Miscount(change)
}

// ignoreReadiness closes what would notice readiness.
func (v instanceView) ignoreReadiness() {
	if r := v.in.run; r != nil && r.readiness != nil {
		r.readiness.scope.Close()
	}
}

// monitorDuringStop monitors a program that stops.
func (v instanceView) monitorDuringStop() {
	r := v.in.run
	if v.state() == fsm.Stopping && r.process != nil && r.monitor == nil && r.program.Health != nil {
		v.in.startMonitoring()
	}
}

// endMonitoring ends the monitoring of an instance that was recovered.
func (v instanceView) endMonitoring() {
	if r := v.in.run; v.in.treeRecovered && r != nil && r.monitor != nil {
		r.monitor.end()
	}
}

// endReload lets checks count though the program reloads its configuration.
func (v instanceView) endReload() {
	if r := v.in.run; r != nil && r.monitor != nil && r.reloadTimer != nil {
		r.reloadTimer.Stop()
		r.reloadTimer = nil
	}
}
