package procs

import (
	"errors"
	"slices"

	"superd/config"
)

// A Report tells what a reload changed, by program.
type Report struct {
	Added, Removed, Changed []string
}

var (
	errShuttingDown = errors.New("reload configuration: superd is shutting down")
	errReloading    = errors.New("reload configuration: a reload is under way")
)

// Reload reads the configuration again, off the loop, and puts it in force: all of it or, when it has any mistake,
// nothing. done runs on the loop.
func (s *Supervisor) Reload(done func(Report, error)) {
	switch {
	case s.shutdown != nil:
		done(Report{}, errShuttingDown)
		return
	case s.reloading:
		done(Report{}, errReloading)
		return
	}
	s.reloading = true
	s.notify.Reloading()
	finish := func(report Report, err error) {
		s.reloading = false
		s.notify.Ready(s.summary())
		done(report, err)
	}
	go func() {
		loaded, err := s.options.Load()
		if err == nil && len(loaded.Errors) > 0 {
			err = loaded.Errors
		}
		s.scope.Post(func() {
			switch {
			case err != nil:
				s.log.Error("configuration not reloaded: the old one stays in force", "error", err)
				finish(Report{}, err)
			case s.shutdown != nil:
				finish(Report{}, errShuttingDown)
			default:
				finish(s.apply(loaded), nil)
			}
		})
	}()
}

// apply puts next in force.
func (s *Supervisor) apply(next *config.Config) Report {
	diff := config.Compare(s.config, next)
	s.config = next
	programs := map[string]*config.Program{}
	for _, p := range next.Programs {
		programs[p.Name] = p
	}
	for _, in := range slices.Clone(s.instances) {
		switch name := in.program.Name; {
		case slices.Contains(diff.Removed, name):
			in.leave(nil)
		case slices.Contains(diff.Changed, name):
			in.change(programs[name])
		}
	}
	for _, name := range diff.Added {
		if old := s.byName[name]; old != nil {
			old.leave(programs[name]) // still stopping after an earlier removal
			continue
		}
		for _, in := range s.add(programs[name]) {
			s.autostart(in)
		}
	}
	s.log.Info("configuration reloaded", "added", len(diff.Added), "removed", len(diff.Removed), "changed", len(diff.Changed))
	s.changed()
	return Report{Added: diff.Added, Removed: diff.Removed, Changed: diff.Changed}
}

// leave stops the instance and removes it when it is at rest. next then takes its place, if there is one.
func (in *instance) leave(next *config.Program) {
	in.removed, in.next, in.nextWish = true, next, nil
	in.do(func() []Effect { return in.machine.wantDown("the configuration: removed") })
}

// remove takes an instance at rest away.
func (s *Supervisor) remove(in *instance) {
	if s.byName[in.name] != in {
		return
	}
	delete(s.byName, in.name)
	s.instances = slices.DeleteFunc(s.instances, func(other *instance) bool { return other == in })
	s.counts[in.machine.state]--
	in.unwatchLines()
	in.scope.Close()
	s.system.RemoveFIFO(s.fifo(in.name))
	s.log.Info("program removed", "instance", in.name)
	if in.next != nil && s.shutdown == nil {
		for _, added := range s.add(in.next) {
			added.takeOver(in)
		}
	}
	for _, w := range in.waiters {
		w.done(Outcome{State: Stopped, Message: "removed from the configuration"})
	}
}

// takeOver begins the life of an instance in the place of another one of the same program: as the operator asked
// meanwhile, else as the configuration has it.
func (in *instance) takeOver(old *instance) {
	if in.name == old.name {
		in.waiters, old.waiters = old.waiters, nil
	}
	switch w := old.nextWish; {
	case w == nil:
		in.sup.autostart(in)
	case w.up:
		in.command(OpStart)
	default:
		in.command(OpStop)
	}
	in.settleWaiters()
}

// change gives the instance its program's new table. What lives is restarted with it; a wait in back-off goes on; what
// is to be down stays down.
func (in *instance) change(program *config.Program) {
	if in.removed {
		in.next = program
		return
	}
	const by = "the configuration: changed"
	wasInvalid := len(in.program.Invalid) > 0
	startsNow := program.Autostart && !in.program.Autostart && in.machine.wanted.by != operator
	in.program, in.machine.program = program, program
	in.capture.SetOptions(in.sup.logOptions(in.name, program))
	switch state := in.machine.state; {
	case wasInvalid && !program.Autostart:
		in.do(func() []Effect { return in.machine.wantDown(by) })
	case !in.machine.wanted.up && !wasInvalid && !startsNow:
		return
	case state == Backoff:
		return
	default:
		in.do(func() []Effect { return in.machine.wantAgain(by, false) })
	}
}
