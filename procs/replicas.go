package procs

import (
	"cmp"
	"slices"

	"superd/config"
	"superd/procs/deps"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/instance"
	"superd/procs/reconcile"
	"superd/procs/snapshot"
	"superd/procs/subscriptions"
)

// replicas decides which instances a program has, by the configuration or an operator's scale, and
// creates and removes them.
type replicas struct {
	*platform
	registry      *registry
	recorder      *handover.Recorder
	config        *configState
	conflicts     *conflicts
	subscriptions *subscriptions.Set
	waiters       *reconcile.Waiters
	reconciler    *reconcile.Queue
	shutdown      *shutdown
	exitPolicy    *exitPolicy
	scales        map[string]snapshot.Scale // replica counts set by an operator, by program
	rolls         *rolls                    // some need extra replicas; set when they are made
	onRemoved     func(program string)      // called when an instance is gone, and perhaps replaced
	// Reports whether a new instance must not start yet; nil except in a recovery
	refuses func(*instance.Instance) bool
}

// count returns how many instances the program has by scale or configuration, and whether they are
// numbered. A single one has no number, unless an operator has scaled the program.
func (r *replicas) count(program *config.Program) (replicas int, numbered bool) {
	if scaled, ok := r.scales[program.Name]; ok {
		return scaled.Replicas, true
	}
	return program.Replicas, program.Replicas != 1
}

// names returns the names of the instances that the program has by scale or configuration, and
// those of the extra replicas of a roll: these have the next numbers.
func (r *replicas) names(program *config.Program) []string {
	n, numbered := r.count(program)
	all := config.NumberedNames(program.Name, n+r.rolls.extras(program.Name))
	if !numbered {
		all[0] = program.Name
	}
	return all
}

// configured reports whether the program has that instance by scale or configuration, or as an
// extra replica of a roll.
func (r *replicas) configured(program *config.Program, instance string) bool {
	extra := r.extraNumber(program, instance)
	return r.ordinary(program, instance) || 1 <= extra && extra <= r.rolls.extras(program.Name)
}

// ordinary reports whether the program has that instance by scale or configuration. One with a
// process for each connection has as many instances as that takes, see [onconnect.Connectors].
func (r *replicas) ordinary(program *config.Program, instance string) bool {
	count, numbered := r.count(program)
	n := config.NumberOf(instance)
	if program.Accepts() {
		return instance == program.Name || 2 <= n && n <= program.Sockets.MaxConnections
	}
	return numbered && 1 <= n && n <= count || !numbered && instance == program.Name
}

// extraNumber returns which of the extra replicas of a roll the instance would be, counted from 1;
// less for none.
func (r *replicas) extraNumber(program *config.Program, instance string) int {
	count, _ := r.count(program)
	return config.NumberOf(instance) - count
}

// desiredFor returns the desired state of a new instance of a program. It is up if an existing
// instance is wanted up. Otherwise it is down if an operator has stopped one. Otherwise it is nil,
// and the configuration decides.
func (r *replicas) desiredFor(program string) *fsm.Target {
	var stopped *fsm.Target
	for _, in := range r.registry.of(program) {
		switch desired := r.desired(in); {
		case !in.Membership.Stays():
		case desired.Up:
			return &desired
		case desired.By.Is(fsm.ActorOperator):
			stopped = &desired
		}
	}
	return stopped
}

// noneReason returns why a program has no instances.
func (r *replicas) noneReason(program string) string {
	if _, scaled := r.scales[program]; scaled {
		return "scaled to 0 by " + fsm.By(fsm.ActorOperator).String()
	}
	return "replicas is 0"
}

// endsScale reports whether a change ends the operator's scale of a program.
func (r *replicas) endsScale(c *config.Change) bool {
	return c.Kind == config.ProgramRemoved || !scaleFits(r.scales[c.Name], c.Program)
}

func (r *replicas) dropScale(program string) {
	if _, ok := r.scales[program]; ok {
		delete(r.scales, program)
		r.recorder.Queue(snapshot.ScaleKey(program), nil)
	}
}

// removeSurplus retires, for the actor by, the instances that the program does not have any more.
// It returns those that were not to be removed before.
func (r *replicas) removeSurplus(program *config.Program, by fsm.Actor) (retired []*instance.Instance) {
	for _, in := range slices.Clone(r.registry.of(program.Name)) {
		if r.configured(program, in.Name) {
			continue
		}
		if in.Membership.Stays() {
			retired = append(retired, in)
		}
		r.retire(in, by)
	}
	return retired
}

// createMissing creates the instances that the program does not have yet, and returns them. Where
// an instance of the same name is still being removed, it returns that one. desired is their
// desired state; nil: that of the configuration.
func (r *replicas) createMissing(
	program *config.Program, desired *fsm.Target,
) (created []*instance.Instance) {
	for _, name := range r.names(program) {
		if in := r.registry.named(name); in != nil && !in.Membership.Leaves() {
			continue
		}
		r.create(name, program, desired)
		if in := r.registry.named(name); in != nil {
			created = append(created, in)
		}
	}
	return created
}

// createAllMissing is createMissing for the programs that desired has. All
// instances are there before the first one starts, and each starts after those that it waits for.
// So the recorded reason of a wait says how these really are.
func (r *replicas) createAllMissing(desired map[string]*fsm.Target) {
	added := map[string][]*instance.Instance{}
	for _, program := range r.config.active.Programs {
		target, ok := desired[program.Name]
		if !ok {
			continue
		}
		for _, name := range r.names(program) {
			switch in := r.registry.named(name); {
			case in == nil:
				added[program.Name] = append(added[program.Name], r.add(name, program))
			case in.Membership.Leaves():
				r.create(name, program, target)
			}
		}
	}
	for _, program := range deps.Order(r.config.active) {
		for _, in := range added[program.Name] {
			r.startNew(in, desired[program.Name])
		}
	}
}

// create adds an instance. If one with its name is being removed, the new one becomes the
// replacement of that. desired is as for createMissing.
func (r *replicas) create(name string, program *config.Program, desired *fsm.Target) {
	old := r.registry.named(name)
	if old == nil {
		r.startNew(r.add(name, program), desired)
		return
	}
	if !old.Membership.HasReplacement() {
		old.Membership.Target = desired // an earlier one was for another replacement
	}
	old.Membership.ReplaceBy(program)
	old.Node.Relink()
	old.Save()
}

// startNew sets the first desired state of an instance. desired is as for createMissing.
func (r *replicas) startNew(in *instance.Instance, desired *fsm.Target) {
	switch {
	case r.refuses != nil && r.refuses(in):
	case desired == nil, len(in.Program.Invalid) > 0:
		r.autostart(in)
	case desired.Up:
		in.Apply(in.Machine.WantUp(desired.By, false, in.Conditions()))
	case desired.By.Kind != fsm.ActorNone:
		in.Apply(in.Machine.WantDown(desired.By, in.Conditions()))
	default:
		in.Save()
	}
}

// autostart starts the instance if its configuration says so. A program with a mistake becomes
// failed, with the mistake as the reason.
func (r *replicas) autostart(in *instance.Instance) {
	if in.Program.Autostart || len(in.Program.Invalid) > 0 {
		in.Apply(in.Machine.WantUp(fsm.By(fsm.ActorConfiguration), false, in.Conditions()))
		return
	}
	in.Save() // the record shows that it was created
}

// add creates a stopped instance. It is not saved before its desired state is known: until then a
// successor must create it anew.
func (r *replicas) add(name string, program *config.Program) *instance.Instance {
	in := r.newInstance(name, program, program, "")
	r.registry.add(in)
	r.subscriptions.InstancesChanged()
	r.conflicts.find(in)
	return in
}

// retire stops the instance, for the actor by, and removes it when it is at rest.
func (r *replicas) retire(in *instance.Instance, by fsm.Actor) {
	if in.Membership.Leaves() { // it retires already: only its replacement goes
		if in.Membership.HasReplacement() {
			in.Membership.DropReplacement()
			in.Membership.Target = nil
			in.Node.Relink()
			in.Save()
		}
		return
	}
	in.Membership.Update(fsm.Retire)
	in.Node.Relink()
	if in.Quarantined() {
		in.Quarantine.Lift() // the leftover processes are spared
	}
	in.Apply(in.Machine.WantDown(by, in.Conditions()))
}

// beginRemoval begins the removal of an instance at rest, unless that has begun. The removal waits
// until the last output of the instance is written, but at most for drainLimit.
func (r *replicas) beginRemoval(in *instance.Instance) {
	if in.Membership.BeingRemoved() {
		return
	}
	in.Membership.Update(fsm.ComeToRest)
	gone := false
	remove := func() {
		if !gone && !in.Closed() {
			gone = true
			r.remove(in)
		}
	}
	in.Output.Collector.Drained(remove)
	in.Scope.After(drainLimit, remove)
}

// remove removes an instance, creates its replacement and unblocks instances that conflict with it.
func (r *replicas) remove(in *instance.Instance) {
	r.registry.remove(in)
	r.rolls.changed(in)
	r.conflicts.claim(in, in.Output.Collector.Files(), nil)
	r.recorder.Queue(snapshot.InstanceKey(in.Name), nil)
	in.Close()
	replaced := !r.shutdown.begun && in.Membership.HasReplacement()
	if !replaced {
		// Before another instance creates the same names
		r.Host.RemoveNames(r.Paths.Runtime(in.Name))
	}
	r.Log.Info("program removed", "instance", in.Name)
	r.subscriptions.Changed()
	if !r.shutdown.begun {
		if replaced {
			r.startReplacement(r.add(in.Name, in.Membership.Replacement), in)
		}
		r.conflicts.release(in)
		r.exitPolicy.endIfAllEnded()
		r.onRemoved(in.Program.Name)
	}
	for _, w := range r.waiters.Take(in) {
		w.Done(CommandResult{State: fsm.Stopped, OK: w.Op == OpStop, Message: "removed"})
	}
}

// startReplacement starts the replacement of old, as the operator requested or else as the
// configuration says.
func (r *replicas) startReplacement(in *instance.Instance, old *instance.Instance) {
	r.waiters.Move(old, in)
	switch desired := old.Membership.Target; {
	case desired == nil || !desired.By.Is(fsm.ActorOperator):
		r.startNew(in, desired)
	case desired.Up:
		r.reconciler.Perform(in, OpStart)
	default:
		r.reconciler.Perform(in, OpStop)
	}
	r.waiters.Answer(in)
}

// desired returns the desired state of the instance, or of its replacement.
func (r *replicas) desired(in *instance.Instance) fsm.Target {
	switch {
	case !in.Membership.Leaves():
		return in.Machine.Desired()
	case in.Membership.Target != nil:
		return *in.Membership.Target
	case in.Membership.HasReplacement() && in.Membership.Replacement.Autostart:
		return fsm.Target{Up: true, By: fsm.By(fsm.ActorConfiguration)}
	}
	return fsm.Target{}
}

// restoreScales restores the scales that are valid for the newest configuration.
func (r *replicas) restoreScales(saved *snapshot.Snapshot) {
	newest := cmp.Or(saved.Config(), r.config.active)
	for name, scaled := range saved.Scales {
		if p := newest.Program(name); p != nil && scaleFits(scaled, p) {
			r.scales[name] = scaled
		} else {
			r.recorder.Queue(snapshot.ScaleKey(name), nil)
		}
	}
}

// removeAllSurplus retires the instances that the active configuration does not have. A predecessor
// may have activated several configurations before it retired them, and recovery compares only two.
func (r *replicas) removeAllSurplus() {
	for _, in := range slices.Clone(r.registry.instances) {
		switch p := r.config.active.Program(in.Program.Name); {
		case in.Membership.Leaves():
		case p == nil:
			r.retire(in, fsm.By(fsm.ActorRemoval))
		case !r.configured(p, in.Name):
			r.retire(in, fsm.By(fsm.ActorScale))
		}
	}
}

// replace retires the instance and creates another one with that definition when it is gone. It is
// used if another instance still owns the new log file.
func (r *replicas) replace(in *instance.Instance, program *config.Program) {
	desired := in.Machine.Desired().AfterChange(in.Program, program)
	r.retire(in, fsm.By(fsm.ActorReload))
	in.Membership.ReplaceBy(program)
	in.Membership.Target = &desired
	in.Node.Relink()
	in.Save()
}

// scaleFits reports whether the scale is valid for that definition of its program. A program that
// names its log file has one instance, or none.
func scaleFits(v snapshot.Scale, p *config.Program) bool {
	return !p.Accepts() && p.Replicas == v.Configured && (v.Replicas == 0 || !namesLogFile(p)) &&
		(v.Replicas <= 1 || p.SharedDirectory() == "")
}

// newInstance returns a stopped instance, see [instance.New].
func (r *replicas) newInstance(name string, program, runProgram *config.Program, treePath string) *instance.Instance {
	in := instance.New(r.Env, name, program, runProgram, treePath)
	r.conflicts.claim(in, nil, in.Output.Collector.Files())
	r.subscriptions.WatchLines(in)
	return in
}
