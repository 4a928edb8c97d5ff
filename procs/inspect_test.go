package procs

import (
	"iter"
	"slices"
	"time"

	"superd/config"
	"superd/logs/sink"
	"superd/procs/deps"
	"superd/procs/diagnosis"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance"
	"superd/procs/reconcile"
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
			if !yield(instanceView{instance.View{In: i.s.registry.instances[j]}}) {
				return
			}
		}
	}
}

// count returns the number of instances, and at the one at that place.
func (i inspection) count() int { return len(i.s.registry.instances) }
func (i inspection) at(place int) instanceView {
	return instanceView{instance.View{In: i.s.registry.instances[place]}}
}

// instance returns the instance with that name, which may not exist.
func (i inspection) instance(name string) instanceView {
	return instanceView{instance.View{In: i.s.registry.named(name)}}
}

// of returns the instances of a program, including those being removed.
func (i inspection) of(program string) []instanceView { return viewsOf(i.s.registry.of(program)) }

// selected returns the instances that a name selects.
func (i inspection) selected(name string) []instanceView {
	all, _ := i.s.selector.Instances([]string{name})
	return viewsOf(all)
}

func viewsOf(all []*instance.Instance) (views []instanceView) {
	for _, in := range all {
		views = append(views, instanceView{instance.View{In: in}})
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

// isExtra reports whether an instance is an extra replica of a rolling restart.
func (i inspection) isExtra(name string) bool {
	in := i.s.registry.named(name)
	return in != nil && i.s.rolls.isExtra(in)
}

// rolls returns the rolling restarts under way, by program.
func (i inspection) rolls() map[string]snapshot.Roll {
	all := map[string]snapshot.Roll{}
	for name, o := range i.s.rolls.all {
		all[name] = o.Roll.Roll
	}
	return all
}

// rollFailed reports whether superd shows that the last roll of the program has failed.
func (i inspection) rollFailed(program string) bool { return i.s.rolls.failed[program] != "" }

// desiredFor returns the desired state of a new instance of the program; nil: the configuration's.
func (i inspection) desiredFor(program string) *fsm.Target {
	return i.s.replicas.desiredFor(program)
}

// An instanceView is a view of one instance; the zero value is none.
type instanceView struct{ instance.View }

// sup returns the supervisor that owns the instance.
func (v instanceView) sup() *Supervisor { return v.In.Env.Owner.(instanceOwner).sup }

func (v instanceView) exists() bool                    { return v.In != nil }
func (v instanceView) name() string                    { return v.In.Name }
func (v instanceView) program() *config.Program        { return v.In.Program }
func (v instanceView) state() fsm.State                { return v.In.Machine.State() }
func (v instanceView) target() fsm.Target              { return v.In.Machine.Desired() }
func (v instanceView) leaves() bool                    { return v.In.Membership.Leaves() }
func (v instanceView) availability() deps.Availability { return v.In.Node.Availability() }
func (v instanceView) MustEnd() bool                   { return v.In.MustEnd() }
func (v instanceView) Quarantined() bool               { return v.In.Quarantined() }
func (v instanceView) RetryPending() bool              { return v.In.RetryPending() }
func (v instanceView) isComing() bool                  { return v.In.Node.IsComing() }
func (v instanceView) isOneShot() bool                 { return v.In.IsOneShot() }
func (v instanceView) awaitsSchedule() bool            { return v.In.AwaitsTrigger() }
func (v instanceView) staysDown() bool                 { return v.In.StaysDown() }
func (v instanceView) exitStatus() int                 { return exitStatus(v.In) }
func (v instanceView) reason() string                  { return v.In.Reason() }
func (v instanceView) waitsFor() []string              { return v.In.Node.WaitsFor() }
func (v instanceView) pid() int                        { return v.In.Pid() }
func (v instanceView) status() Status                  { return v.sup().status(v.In) }
func (v instanceView) diagnosis() diagnosis.Diagnosis  { return v.sup().diagnosis(v.In) }
func (v instanceView) refusal(op Op) string            { return v.sup().refusal(v.In, op) }
func (v instanceView) record() *snapshot.Instance      { return v.In.Snapshot() }
func (v instanceView) logPath() string                 { return v.In.Output.Collector.Path() }
func (v instanceView) unkillable() string              { return v.In.Unkillable() }
func (v instanceView) stateSince() time.Duration       { return v.In.Since() }
func (v instanceView) hasDependents() bool             { return v.In.Node.HasDependents() }

// Machine returns a copy of the machine.
func (v instanceView) Machine() *fsm.Machine {
	m := v.In.Machine
	return &m
}

// finalTarget returns the desired state of the instance or, if it leaves, of its replacement.
func (v instanceView) finalTarget() fsm.Target { return v.sup().replicas.desired(v.In) }

// hasReplacement reports whether a replacement is to be created.
func (v instanceView) hasReplacement() bool { return v.In.Membership.Replacement != nil }

// hasReplacementTarget reports whether the operator has set the desired state of the replacement.
func (v instanceView) hasReplacementTarget() bool { return v.In.Membership.Target != nil }

// awaitsStop reports whether a shutdown has not requested the instance to stop yet.
func (v instanceView) awaitsStop() bool {
	d := v.sup().shutdown
	return d.requestingStops() && slices.Contains(d.stopQueue, v.In)
}

// answerPending reports whether the waiters are about to be answered, or the instance to be
// reconciled.
func (v instanceView) answerPending() bool {
	return v.sup().waiters.Postponed(v.In) || v.In.Marks.Enqueued
}

// inConflict reports whether another instance must be removed before this one starts.
func (v instanceView) inConflict() bool { return v.In.Membership.Conflict != nil }

// A waiterView is a command that waits for the instance.
type waiterView struct {
	op        Op
	dependent bool // the instance restarts only because it requires another one
}

func (v instanceView) waiters() (all []waiterView) {
	for _, w := range v.sup().waiters.Of(v.In) {
		all = append(all, waiterView{w.Op, w.Dependent})
	}
	return all
}

// apply activates a configuration with a given comparison, as a reload does.
func (i inspection) apply(next *config.Config, diff config.Diff) ReloadResult {
	return i.s.applier.applyWithExitPolicy(next, diff)
}

// activate activates a configuration as a reload does.
func (i inspection) activate(next *config.Config) ReloadResult {
	return i.s.applier.compareAndApply(next)
}

// kill ends the supervisor as SIGKILL does.
func (i inspection) kill() { i.s.Scope.Close() }

// killed reports whether the supervisor has ended.
func (i inspection) killed() bool { return i.s.Scope.Closed() }

// forgetExitStatus lets superd end with status 0.
func (v instanceView) forgetExitStatus() {
	if p := v.sup().exitPolicy; p.decided {
		p.status = 0
	}
}

// delayWaiters hides the waiters until the next turn.
func (v instanceView) delayWaiters() {
	in, ws := v.In, v.sup().waiters
	hidden := new(instance.Instance)
	ws.Move(in, hidden)
	v.sup().Loop.Post(func() { ws.Move(hidden, in) })
}

// dropReconciliation empties the reconcile queue.
func (v instanceView) dropReconciliation() {
	q := v.sup().reconciler
	*q = reconcile.Queue{Scope: q.Scope, OnIdle: q.OnIdle, Answer: q.Answer}
	v.In.Marks.Enqueued = false
}

// failureReason returns why superd ends the present run, or none.
func (v instanceView) failureReason() fsm.Reason { return v.In.Machine.FailureReason() }

// machineAwaitsTrigger reports whether the machine starts no run before its schedule is due.
func (v instanceView) machineAwaitsTrigger() bool { return v.In.Machine.AwaitsTrigger() }

// restartPending reports whether a run that starts later than the present one is requested.
func (v instanceView) restartPending() bool { return v.In.Machine.RestartPending() }

// hasWaiters reports whether a command waits for the instance.
func (v instanceView) hasWaiters() bool { return len(v.sup().waiters.Of(v.In)) > 0 }

// probeSpawn returns the spawn of the exec check under way; nil: none.
func (v instanceView) probeSpawn() host.PendingSpawn { return v.Probe().Pending }

func (v instanceView) logSink() sink.Kind { return v.In.Output.Collector.Sink() }
func (v instanceView) logFiles() []string { return v.In.Output.Collector.Files() }

// followLogOptions applies the newest log options during a run.
func (v instanceView) followLogOptions() {
	v.In.Output.Collector.SetOptions(v.In.Env.Paths.LogOptions(v.In.Name, v.In.Program))
}

// reuseNames lets all stored descriptors have one name.
func (v instanceView) reuseNames() {
	if _, reused := v.In.Env.FDs.(oneName); !reused {
		v.In.Env.FDs = oneName{v.In.Env.FDs}
	}
}

// A oneName reserves the same name each time.
type oneName struct{ instance.FDs }

func (oneName) Reserve(bool) string { return "0" }

// ignoreFinalExits lets superd go on when a program stays down that is to end it.
func (v instanceView) ignoreFinalExits() { v.sup().exitPolicy.decided = true }

// ignoreAllEnded lets superd go on when all programs have ended.
func (v instanceView) ignoreAllEnded() { v.sup().exitPolicy.posted = true }

// stopAgain undoes an operator's start while a rolling restart of the program is under way.
func (v instanceView) stopAgain() {
	m := &v.In.Machine
	if by := m.Desired().By; v.sup().rolls.all[v.program().Name] != nil && m.Desired().Up && by.Is(fsm.ActorOperator) {
		v.In.Apply(m.WantDown(by, v.In.Conditions()))
	}
}

// startWithoutConnection starts a program that connections start.
func (v instanceView) startWithoutConnection() {
	p := v.sup().config.active.Program(v.program().Name)
	m := &v.In.Machine
	if p != nil && p.Sockets != nil && p.Sockets.OnConnect && !m.Desired().Up && !m.Desired().By.Is(fsm.ActorOperator) && m.State().AtRest() {
		v.In.Apply(m.WantUp(fsm.By(fsm.ActorConnection), false, v.In.Conditions()))
	}
}
