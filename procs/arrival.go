package procs

import (
	"slices"
	"sort"
	"strings"

	"superd/config"
)

// dismiss has those instances of a program leave that are too many.
func (s *Supervisor) dismiss(program *config.Program) {
	for _, in := range slices.Clone(s.instancesOf(program.Name)) {
		if !s.has(program, in.name) {
			in.leave(byRemoval)
		}
	}
}

// complete has those instances of a program come that are missing. w is what is wanted of them; nil: what the configuration says.
func (s *Supervisor) complete(program *config.Program, w *wish) {
	for _, name := range s.namesOf(program) {
		if in := s.byName[name]; in == nil || in.removed {
			s.bring(name, program, w)
		}
	}
}

// instancesOf returns the instances of a program, those among them that are going, in order. It is a part of s.instances.
func (s *Supervisor) instancesOf(program string) []*instance {
	from := sort.Search(len(s.instances), func(i int) bool { return s.instances[i].program.Name >= program })
	to := from
	for to < len(s.instances) && s.instances[to].program.Name == program {
		to++
	}
	return s.instances[from:to]
}

// programOf returns the name of the program to which an instance of that name belongs.
func programOf(instance string) string {
	program, _, _ := strings.Cut(instance, "@")
	return program
}

// bring adds an instance, as soon as whoever has its name has left. w is as for complete.
func (s *Supervisor) bring(name string, program *config.Program, w *wish) {
	old := s.byName[name]
	if old == nil {
		s.welcome(s.add(name, program), w)
		return
	}
	if old.next == nil {
		old.nextWish = w // what was asked for was asked of the old one
	}
	old.next = program
	old.rejoin()
	old.save()
}

// welcome begins the life of an instance as it is wanted.
func (s *Supervisor) welcome(in *instance, w *wish) {
	switch {
	case w == nil, len(in.program.Invalid) > 0:
		s.autostart(in)
	case w.up:
		in.do(func() []Effect { return in.machine.wantUp(w.by, false) })
	case w.by != "":
		in.do(func() []Effect { return in.machine.wantDown(w.by) })
	default:
		in.save()
	}
}

// leave stops the instance and removes it when it is at rest. by is who wants that.
func (in *instance) leave(by string) {
	if in.removed { // nobody takes its place any more
		if in.next != nil {
			in.next, in.nextWish = nil, nil
			in.rejoin()
			in.save()
		}
		return
	}
	in.removed = true
	in.rejoin()
	if in.held != nil {
		in.release() // it is left alone
	}
	in.do(func() []Effect { return in.machine.wantDown(by) })
}

// depart begins the removal of an instance at rest: its last output is written first.
func (s *Supervisor) depart(in *instance) {
	if in.departing {
		return
	}
	in.departing = true
	gone := false
	remove := func() {
		if !gone && !in.scope.Closed() {
			gone = true
			s.remove(in)
		}
	}
	in.capture.Drained(remove)
	in.scope.After(drainLimit, remove)
}

// remove takes an instance away and lets those come who wait for its place.
func (s *Supervisor) remove(in *instance) {
	delete(s.byName, in.name)
	if i, ok := slices.BinarySearchFunc(s.instances, in, compareInstances); ok {
		s.instances = slices.Delete(s.instances, i, i+1)
	}
	in.occupy(in.capture.Files(), nil)
	s.counts[in.machine.state]--
	s.outputs -= fifosOf(in.program)
	s.loggers -= one(in.isLogger())
	s.queue(instanceKey(in.name), nil)
	for _, kept := range in.kept {
		s.letGo(kept.String())
	}
	if in.feed != nil {
		s.letGo(in.feed.kept)
	}
	in.unwatchLines()
	in.tree.Remove()
	if in.site != nil {
		in.site.tree.Remove()
	}
	in.quit()
	in.scope.Close()
	s.log.Info("program removed", "instance", in.name)
	s.changed()
	if s.shutdown == nil {
		if in.next != nil {
			s.add(in.name, in.next).takeOver(in)
		}
		in.makeRoom()
		s.endIfAllEnded()
	}
	for _, w := range in.waiters {
		w.done(Outcome{State: Stopped, OK: w.op == OpStop, Message: "removed"})
	}
}

// takeOver begins the life of an instance in the place of the one that had its name: as the operator asked meanwhile,
// else as the configuration has it.
func (in *instance) takeOver(old *instance) {
	in.waiters, old.waiters = old.waiters, nil
	switch w := old.nextWish; {
	case w == nil || w.by != operator:
		in.sup.welcome(in, w)
	case w.up:
		in.command(OpStart)
	default:
		in.command(OpStop)
	}
	in.settleWaiters()
}
