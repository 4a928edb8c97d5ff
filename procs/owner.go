package procs

import (
	"superd/config"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/reconcile"
)

// An instanceOwner is what instances know of the supervisor. It implements [instance.Owner] and
// [instance.Configuration].
type instanceOwner struct{ sup *Supervisor }

// Transitioned implements [instance.Owner]. It notifies all that observe the states of instances.
// The state may have stayed the same; something else of the machine may have changed then. This is
// their order:
//
//   - The registry counts the instances by state. The exit policy and the shutdown read the counts.
//   - The instance completes the transition: event and record are queued. Only then does it publish
//     its status to the graph, which enqueues the dependents that it concerns: after a crash, a
//     successor must not find a consequence without its cause.
//   - The reconciler enqueues the instance itself. It reads counters that the graph has updated.
//   - Sockets that only a run of before has used are closed, so that what they exclude is opened.
//   - The waiters are answered, unless a reconciliation is pending: the state may change again.
//   - The rolls look at it in a later turn, when its reconciliation is done.
//   - The subscribers are notified. That happens in a later turn, so they see the whole change.
//   - The connectors watch sockets while no instance of the program is up. Paths that a program has
//     removed at its end are restored.
//   - The exit policy may begin the shutdown with this exit status, so it precedes the shutdown.
//   - Replicas and shutdown are last, see onRest. A removal ends the scope of the instance, and the
//     end of superd ends all scopes.
func (o instanceOwner) Transitioned(in *instance.Instance, from, to fsm.State) {
	s := o.sup
	if to == fsm.Spawning {
		// A start record may precede this record: recovery takes it for a begin, too
		s.exitPolicy.begin()
	}
	s.registry.setState(in)
	in.CompleteTransition(from, to)
	if from != to && in.Node.Linked() || to == fsm.Waiting && in.Node.Ordered() ||
		in.Machine.Desired().Up && in.Node.CanStart() {
		s.reconciler.Enqueue(in)
	}
	run := in.RunDefinition()
	s.connectors.Sockets.CloseUnused() // also if another run has begun at once
	s.waiters.Answer(in)
	s.rolls.changed(in)
	s.subscriptions.Changed()
	if in.Program.Sockets != nil {
		s.connectors.Update(in.Program.Name)
	}
	if run != nil && run.Sockets != nil && from.Lives() && !to.Lives() && !s.shutdown.begun {
		s.connectors.Sockets.RestorePaths(run.Sockets)
	}
	// Also if the state is the same: a reload may end the slow retries of a failed instance
	if in.StaysDown() {
		s.exitPolicy.check(in)
	}
	if to.AtRest() || to == fsm.Waiting {
		o.onRest(in)
	}
}

// onRest is called when an instance comes to rest, or waits. An instance that leaves the
// configuration is removed. Then what waits until others are at rest continues: the exit policy and
// the shutdown.
func (o instanceOwner) onRest(in *instance.Instance) {
	s := o.sup
	if in.Membership.Leaves() {
		s.replicas.beginRemoval(in)
	}
	s.connectors.Sockets.Retry()
	s.shutdown.removeEmpty(in)
	s.exitPolicy.endIfAllEnded()
	s.shutdown.proceed()
}

// Counted implements [instance.Owner].
func (o instanceOwner) Counted(in *instance.Instance) { o.sup.registry.setState(in) }

// Changed implements [instance.Owner].
func (o instanceOwner) Changed() { o.sup.subscriptions.Changed() }

// UnkillableChanged implements [instance.Owner].
func (o instanceOwner) UnkillableChanged(in *instance.Instance, unkillable bool) {
	o.sup.registry.countUnkillable(unkillable)
	if unkillable {
		o.sup.waiters.Answer(in)
		o.sup.shutdown.proceed()
	}
}

// OutputChanged implements [instance.Owner].
func (o instanceOwner) OutputChanged(in *instance.Instance, before []string, moreStreams bool) {
	if moreStreams {
		o.sup.subscriptions.InstancesChanged()
	}
	if !o.sup.conflicts.claim(in, before, in.Output.Collector.Files()) {
		return
	}
	if conflict := in.Membership.Conflict; conflict != nil {
		o.sup.conflicts.release(conflict) // the conflict may be over
	}
	o.sup.conflicts.release(in)
}

// Phase implements [instance.Owner].
func (o instanceOwner) Phase() instance.Phase {
	d := o.sup.shutdown
	return instance.Phase{Ending: d.begun, Hurry: d.hurry, Requesting: d.requestingStops()}
}

// Number implements [instance.Configuration].
func (o instanceOwner) Number() uint64 { return o.sup.config.number }

// Definition implements [instance.Configuration]. An extra replica of a roll does not count: no
// dependent waits for it.
func (o instanceOwner) Definition(program, instance string) (p *config.Program, has bool) {
	p = o.sup.config.active.Program(program)
	return p, p != nil && o.sup.replicas.ordinary(p, instance)
}

// NoneReason implements [instance.Configuration].
func (o instanceOwner) NoneReason(program string) string { return o.sup.replicas.noneReason(program) }

// Sources implements [instance.Configuration].
func (o instanceOwner) Sources(logger *config.Program) []*instance.Instance {
	return o.sup.registry.of(logger.LoggerOf)
}

// A graphOwner is what the dependency graph knows of instances.
type graphOwner struct{ reconciler *reconcile.Queue }

// Changed implements [deps.Owner].
func (o graphOwner) Changed(in *instance.Instance) { o.reconciler.Enqueue(in) }

// DependentsDown implements [deps.Owner]. It enqueues an instance that may wait for that.
func (o graphOwner) DependentsDown(in *instance.Instance) {
	if in.Machine.State() == fsm.StopPending || in.Machine.State() == fsm.Waiting {
		o.reconciler.Enqueue(in)
	}
}
