package procs

import (
	"slices"
	"strings"

	"superd/config"
)

// removeSurplus retires the instances that the program does not have any more.
func (s *Supervisor) removeSurplus(program *config.Program) {
	for _, in := range slices.Clone(s.registry.of(program.Name)) {
		if !s.configured(program, in.name) {
			in.retire(actor(ActorRemoval))
		}
	}
}

// createMissing creates the instances that the program does not have yet. desired is their desired
// state; nil: that of the configuration.
func (s *Supervisor) createMissing(program *config.Program, desired *target) {
	for _, name := range s.namesOf(program) {
		if in := s.registry.byName[name]; in == nil || in.retiring {
			s.create(name, program, desired)
		}
	}
}

// programOf returns the name of the program of an instance.
func programOf(instance string) string {
	program, _, _ := strings.Cut(instance, "@")
	return program
}

// create adds an instance, or makes it the replacement of one with its name that is being removed.
// desired is as for createMissing.
func (s *Supervisor) create(name string, program *config.Program, desired *target) {
	old := s.registry.byName[name]
	if old == nil {
		s.startNew(s.add(name, program), desired)
		return
	}
	if old.replacement == nil {
		old.replacementTarget = desired // an earlier one was for another replacement
	}
	old.replacement = program
	old.relink()
	old.save()
}

// startNew sets the first desired state of an instance.
func (s *Supervisor) startNew(in *instance, desired *target) {
	switch {
	case desired == nil, len(in.program.Invalid) > 0:
		s.autostart(in)
	case desired.up:
		in.do(func() []Effect { return in.machine.wantUp(desired.by, false) })
	case desired.by.Kind != ActorNone:
		in.do(func() []Effect { return in.machine.wantDown(desired.by) })
	default:
		in.save()
	}
}

// retire stops the instance, for the actor by, and removes it when it is at rest.
func (in *instance) retire(by Actor) {
	if in.retiring { // its replacement is not created
		if in.replacement != nil {
			in.replacement, in.replacementTarget = nil, nil
			in.relink()
			in.save()
		}
		return
	}
	in.retiring = true
	in.relink()
	if in.quarantine != nil {
		in.liftQuarantine() // the leftover processes are spared
	}
	in.do(func() []Effect { return in.machine.wantDown(by) })
}

// beginRemoval begins the removal of an instance at rest. It first waits for its last output to be
// written, for at most drainLimit.
func (s *Supervisor) beginRemoval(in *instance) {
	if in.removing {
		return
	}
	in.removing = true
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
	s.registry.remove(in)
	in.sup.conflicts.claim(in, in.collector.Files(), nil)
	s.recorder.queue(instanceKey(in.name), nil)
	for _, kept := range in.fifoNames {
		s.fds.release(kept.String())
	}
	if in.inputFIFO != nil {
		s.fds.release(in.inputFIFO.fdName)
	}
	in.unwatchLines()
	in.tree.Remove()
	if in.execProbe != nil {
		in.execProbe.tree.Remove()
	}
	in.removeFromGraph()
	in.scope.Close()
	replaced := s.shutdown == nil && in.replacement != nil
	if !replaced {
		// Before another instance creates the same names
		s.host.RemoveNames(in.runtimePaths())
	}
	s.log.Info("program removed", "instance", in.name)
	s.subscriptions.changed()
	if s.shutdown == nil {
		if replaced {
			s.add(in.name, in.replacement).startReplacement(in)
		}
		in.sup.conflicts.release(in)
		s.endIfAllEnded()
	}
	for _, w := range in.waiters {
		w.done(CommandResult{State: Stopped, OK: w.op == OpStop, Message: "removed"})
	}
}

// startReplacement starts the replacement of old, as the operator requested or else as the
// configuration says.
func (in *instance) startReplacement(old *instance) {
	in.waiters, old.waiters = old.waiters, nil
	switch desired := old.replacementTarget; {
	case desired == nil || !desired.by.is(ActorOperator):
		in.sup.startNew(in, desired)
	case desired.up:
		in.command(OpStart)
	default:
		in.command(OpStop)
	}
	in.answerWaiters()
}
