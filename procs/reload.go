package procs

import (
	"errors"
	"slices"

	"superd/config"
)

// A Report tells what a reload changed, by program.
type Report struct {
	Added, Removed, Changed []string
	Notes                   []string // what the new configuration says that takes effect only when superd starts anew
}

var (
	errShuttingDown = errors.New("reload configuration: superd is shutting down")
	errNoPrograms   = errors.New("reload configuration: it names no program; was it read while it was being written? To stop all programs use `superd ctl stop '*'`")
)

// Reload reads the configuration again, off the loop, and puts it in force: all of it or, when it has any mistake,
// nothing. done runs on the loop. While a reload is under way, another one waits for its end: it may be that the file
// was changed after it was read.
func (s *Supervisor) Reload(done func(Report, error)) {
	s.reloads = append(s.reloads, done)
	if !s.reloading {
		s.reload()
	}
}

// reload does what was asked for by all who wait.
func (s *Supervisor) reload() {
	waiting := s.reloads
	s.reloads = nil
	s.reloading = true
	if s.ready && s.shutdown == nil {
		s.notify.Reloading()
	}
	finish := func(report Report, err error) {
		s.reloading = false
		s.recordReload(report, err)
		if err != nil {
			s.log.Error("configuration not reloaded: the old one stays in force", "error", err)
		}
		if s.ready && s.shutdown == nil {
			s.notify.Ready(s.summary())
		}
		for _, done := range waiting {
			done(report, err)
		}
		if len(s.reloads) > 0 {
			s.reload()
		}
	}
	go func() {
		loaded, err := s.options.Load()
		if err == nil && len(loaded.Errors) > 0 {
			err = loaded.Errors
		}
		s.scope.Post(func() {
			switch {
			case s.shutdown != nil:
				finish(Report{}, errShuttingDown)
			case err != nil:
				finish(Report{}, err)
			case len(loaded.Programs) == 0 && len(s.config.Programs) > 0:
				finish(Report{}, errNoPrograms)
			default:
				report := s.apply(loaded)
				s.afterSaving(func() { finish(report, nil) })
			}
		})
	}()
}

// apply puts next in force.
func (s *Supervisor) apply(next *config.Config) Report {
	diff := config.Compare(s.config, next)
	report := Report{Added: diff.Added, Removed: diff.Removed, Changed: diff.Changed}
	if was, is := s.config.Superd, next.Superd; was.RuntimeDir != is.RuntimeDir || was.LogDir != is.LogDir {
		report.Notes = append(report.Notes, "runtime_dir and log_dir take effect when superd is started anew")
	}
	s.enact(next, func() { s.follow(diff) })
	s.log.Info("configuration reloaded", "added", len(diff.Added), "removed", len(diff.Removed), "changed", len(diff.Changed))
	for _, note := range report.Notes {
		s.log.Warn(note)
	}
	s.endIfAnyFailed()
	s.endIfAllEnded()
	s.changed()
	return report
}

// follow does what follows from a new configuration.
func (s *Supervisor) follow(diff config.Diff) {
	for _, in := range slices.Clone(s.instances) {
		if slices.Contains(diff.Removed, in.program.Name) {
			in.leave()
		}
	}
	for _, program := range s.config.Programs {
		switch {
		case slices.Contains(diff.Added, program.Name):
			for _, name := range program.Instances() {
				s.bring(name, program)
			}
		case slices.Contains(diff.Changed, program.Name):
			s.change(program)
		}
	}
}

// change gives a program its new table. Only the instances that are not to be any more leave.
func (s *Supervisor) change(program *config.Program) {
	names := program.Instances()
	for _, in := range slices.Clone(s.instances) {
		if in.program.Name == program.Name && !slices.Contains(names, in.name) {
			in.leave()
		}
	}
	for _, name := range names {
		if in := s.byName[name]; in != nil && !in.removed {
			in.change(program)
		} else {
			s.bring(name, program)
		}
	}
}

// bring adds an instance, as soon as whoever has its name or its log file has left.
func (s *Supervisor) bring(name string, program *config.Program) {
	if old := s.byName[name]; old != nil && !old.removed && old.program == program {
		return // the superd before has done it
	} else if old != nil {
		if old.next == nil {
			old.nextWish = nil // what was asked for was asked of the old one
		}
		old.next = program
		old.save()
		return
	}
	path := s.logOptions(name, program).Path
	for _, other := range s.instances {
		if other.removed && other.capture.Path() == path {
			other.followers = append(other.followers, func() { s.bringAfter(name, program.Name) })
			return
		}
	}
	s.autostart(s.add(name, program))
}

// bringAfter brings an instance that had to wait, if it is still in the configuration and has not come otherwise.
func (s *Supervisor) bringAfter(name, programName string) {
	for _, program := range s.config.Programs {
		if in := s.byName[name]; program.Name == programName && slices.Contains(program.Instances(), name) && (in == nil || in.removed) {
			s.bring(name, program)
		}
	}
}

// leave stops the instance and removes it when it is at rest.
func (in *instance) leave() {
	if in.removed {
		in.next, in.nextWish = nil, nil
		return
	}
	in.removed = true
	if in.held != nil {
		in.release() // it is left alone
	}
	in.do(func() []Effect { return in.machine.wantDown("the configuration: removed") })
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
	s.instances = slices.DeleteFunc(s.instances, func(other *instance) bool { return other == in })
	s.counts[in.machine.state]--
	s.journal.Queue(instanceKey(in.name), nil)
	s.letGo(in.kept)
	in.unwatchLines()
	in.tree.Remove()
	in.scope.Close()
	s.log.Info("program removed", "instance", in.name)
	s.changed()
	if s.shutdown == nil {
		if in.next != nil {
			s.add(in.name, in.next).takeOver(in)
		}
		for _, bring := range in.followers {
			bring()
		}
		s.endIfAllEnded()
	}
	for _, w := range in.waiters {
		w.done(Outcome{State: Stopped, Message: "removed from the configuration"})
	}
}

// takeOver begins the life of an instance in the place of the one that had its name: as the operator asked meanwhile,
// else as the configuration has it.
func (in *instance) takeOver(old *instance) {
	in.waiters, old.waiters = old.waiters, nil
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
	const by = "the configuration: changed"
	if in.program == program {
		return // the superd before has done it
	}
	wasInvalid := len(in.program.Invalid) > 0
	goesOn := in.run != nil && in.program.Scheduled() && program.Scheduled() && in.machine.wanted.up // the next run is by the new table
	startsNow := program.Autostart && !in.program.Autostart && in.machine.wanted.by != operator
	in.program, in.machine.program = program, program
	defer in.save()
	defer in.keepSchedule()
	in.capture.SetOptions(in.sup.logOptions(in.name, program))
	switch {
	case in.held != nil, goesOn:
	case !in.machine.wanted.up && !startsNow:
	case wasInvalid && !program.Autostart:
		in.do(func() []Effect { return in.machine.wantDown(by) })
	case in.machine.state == Backoff:
		in.machine.owed = true // also where it has got a schedule only now
	default:
		in.do(func() []Effect { return in.machine.wantAgain(by, false) })
	}
}
