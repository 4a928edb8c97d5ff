package procs

import (
	"slices"
	"sort"
	"strings"

	"superd/config"
	"superd/procs/fsm"
)

// removeSurplus retires the instances that the program does not have any more.
func (s *Supervisor) removeSurplus(program *config.Program) {
	for _, in := range slices.Clone(s.instancesOf(program.Name)) {
		if !s.configured(program, in.name) {
			in.retire(fsm.By(fsm.ActorRemoval))
		}
	}
}

// createMissing creates the instances that the program does not have yet. desired is their desired
// state; nil: that of the configuration.
func (s *Supervisor) createMissing(program *config.Program, desired *fsm.Target) {
	for _, name := range s.namesOf(program) {
		if in := s.byName[name]; in == nil || in.membership.Leaves() {
			s.create(name, program, desired)
		}
	}
}

// instancesOf returns the instances of a program in order, including those being removed. The
// result is a subslice of s.instances.
func (s *Supervisor) instancesOf(program string) []*instance {
	from := sort.Search(len(s.instances), func(i int) bool { return s.instances[i].program.Name >= program })
	to := from
	for to < len(s.instances) && s.instances[to].program.Name == program {
		to++
	}
	return s.instances[from:to]
}

// programOf returns the name of the program of an instance.
func programOf(instance string) string {
	program, _, _ := strings.Cut(instance, "@")
	return program
}

// create adds an instance, or makes it the replacement of one with its name that is being removed.
// desired is as for createMissing.
func (s *Supervisor) create(name string, program *config.Program, desired *fsm.Target) {
	old := s.byName[name]
	if old == nil {
		s.startNew(s.add(name, program), desired)
		return
	}
	if !old.membership.HasReplacement() {
		old.replacementTarget = desired // an earlier one was for another replacement
	}
	old.setReplacement(program)
	old.relink()
	old.save()
}

// startNew sets the first desired state of an instance.
func (s *Supervisor) startNew(in *instance, desired *fsm.Target) {
	switch {
	case desired == nil, len(in.program.Invalid) > 0:
		s.autostart(in)
	case desired.Up:
		in.apply(in.machine.WantUp(desired.By, false, in.conditions()))
	case desired.By.Kind != fsm.ActorNone:
		in.apply(in.machine.WantDown(desired.By, in.conditions()))
	default:
		in.save()
	}
}

// retire stops the instance, for the actor by, and removes it when it is at rest.
func (in *instance) retire(by fsm.Actor) {
	if in.membership.Leaves() { // its replacement is not created
		if in.membership.HasReplacement() {
			in.dropReplacement()
			in.replacementTarget = nil
			in.relink()
			in.save()
		}
		return
	}
	in.membership = in.membership.After(fsm.Retire)
	in.relink()
	if in.quarantine != nil {
		in.liftQuarantine() // the leftover processes are spared
	}
	in.apply(in.machine.WantDown(by, in.conditions()))
}

// setReplacement records that an instance with this definition takes the place of this one.
func (in *instance) setReplacement(program *config.Program) {
	in.replacement = program
	in.membership = in.membership.After(fsm.Replace)
}

// dropReplacement records that no other instance takes the place of this one.
func (in *instance) dropReplacement() {
	in.replacement = nil
	in.membership = in.membership.After(fsm.DropReplacement)
}

// beginRemoval begins the removal of an instance at rest, unless that has begun. It first waits for
// its last output to be written, for at most drainLimit.
func (s *Supervisor) beginRemoval(in *instance) {
	if in.membership.BeingRemoved() {
		return
	}
	in.membership = in.membership.After(fsm.ComeToRest)
	gone := false
	remove := func() {
		if !gone && !in.scope.Closed() {
			gone = true
			s.remove(in)
		}
	}
	in.collector.Drained(remove)
	in.scope.After(drainLimit, remove)
}

// remove removes an instance, creates its replacement and unblocks instances that conflict with it.
func (s *Supervisor) remove(in *instance) {
	delete(s.byName, in.name)
	if i, ok := slices.BinarySearchFunc(s.instances, in, compareInstances); ok {
		s.instances = slices.Delete(s.instances, i, i+1)
	}
	in.claimLogFiles(in.collector.Files(), nil)
	s.counts[in.machine.State()]--
	s.outputs -= fifosOf(in.program)
	s.loggers -= one(in.isLogger())
	s.queue(instanceKey(in.name), nil)
	for _, kept := range in.fifoNames {
		s.releaseFD(kept.String())
	}
	if in.inputFIFO != nil {
		s.releaseFD(in.inputFIFO.fdName)
	}
	in.unwatchLines()
	in.tree.Remove()
	if in.execProbe != nil {
		in.execProbe.tree.Remove()
	}
	in.removeFromGraph()
	in.scope.Close()
	replaced := s.shutdown == nil && in.membership.HasReplacement()
	if !replaced {
		// Before another instance creates the same names
		s.host.RemoveNames(in.runtimePaths())
	}
	s.log.Info("program removed", "instance", in.name)
	s.changed()
	if s.shutdown == nil {
		if replaced {
			s.add(in.name, in.replacement).startReplacement(in)
		}
		in.releaseLogFiles()
		s.endIfAllEnded()
	}
	for _, w := range in.waiters {
		w.done(CommandResult{State: fsm.Stopped, OK: w.op == OpStop, Message: "removed"})
	}
}

// startReplacement starts the replacement of old, as the operator requested or else as the
// configuration says.
func (in *instance) startReplacement(old *instance) {
	in.waiters, old.waiters = old.waiters, nil
	switch desired := old.replacementTarget; {
	case desired == nil || !desired.By.Is(fsm.ActorOperator):
		in.sup.startNew(in, desired)
	case desired.Up:
		in.command(OpStart)
	default:
		in.command(OpStop)
	}
	in.answerWaiters()
}
