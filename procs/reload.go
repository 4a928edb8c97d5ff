package procs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"superd/config"
	"superd/procs/eventlog"
)

// A Report tells what a reload has changed, or would change.
type Report struct {
	config.Diff
	DryRun bool
	Notes  []string // what else is to be said of it
}

// reloadPatience is how long who has asked for a reload waits for a file that can't be read to its end.
const reloadPatience = 30 * time.Second

// A reloading is somebody who waits for a reload.
type reloading struct {
	dryRun bool
	done   func(Report, error) // nil: he was told
}

func (r *reloading) tell(report Report, err error) {
	if done := r.done; done != nil {
		r.done, report.DryRun = nil, r.dryRun
		done(report, err)
	}
}

var (
	errShuttingDown = errors.New("reload configuration: superd is shutting down")
	errNoPrograms   = errors.New("reload configuration: it names no program; was it read while it was being written? To stop all programs use `superd ctl stop '*'`")
)

// Reload reads the configuration again, off the loop, and puts it in force: all of it or, when it has any mistake,
// nothing. With dryRun it only tells what that would change. done runs on the loop. While a reload is under way, another
// one waits for its end: it may be that the file was changed after it was read. Where reading hangs, all who wait are told, and it goes on.
func (s *Supervisor) Reload(dryRun bool, done func(Report, error)) {
	r := &reloading{dryRun, done}
	s.reloads = append(s.reloads, r)
	switch {
	case s.hangsIn != nil:
		err := s.reloadHangs()
		s.scope.Post(func() { r.tell(Report{}, err) })
	case !s.reloading:
		s.reload()
	}
}

// reloadHangs says what a reload waits for that reads a file for too long.
func (s *Supervisor) reloadHangs() error {
	at := s.options.Config.Path
	if path := s.hangsIn.Load(); path != nil {
		at = *path
	}
	return fmt.Errorf("reload configuration: reading %s takes longer than %s; %s The reload goes on when it can be read", at, reloadPatience, hangHint)
}

// reload does what was asked for by all who wait. Reading and comparing goes on off the loop.
func (s *Supervisor) reload() {
	waiting := s.reloads
	s.reloads = nil
	s.reloading = true
	dryRun := !slices.ContainsFunc(waiting, func(r *reloading) bool { return !r.dryRun })
	tellSystem := func(tell func()) {
		if !dryRun && s.ready && s.shutdown == nil {
			tell()
		}
	}
	tellSystem(s.notify.Reloading)
	reading := new(atomic.Pointer[string])
	patience := s.scope.After(reloadPatience, func() {
		s.hangsIn = reading
		err := s.reloadHangs()
		s.log.Error("configuration not reloaded yet: the old one stays in force", "error", err)
		s.record(eventlog.Event{Kind: eventlog.Reload, Reason: "the old configuration stays in force: " + err.Error()})
		tellSystem(func() { s.notify.Ready(s.summary()) })
		for _, r := range slices.Concat(waiting, s.reloads) {
			r.tell(Report{}, err)
		}
	})
	finish := func(report Report, err error) {
		s.reloading = false
		if err != nil && !dryRun {
			s.log.Error("configuration not reloaded: the old one stays in force", "error", err)
			s.record(eventlog.Event{Kind: eventlog.Reload, Reason: "the old configuration stays in force: " + err.Error()})
		}
		tellSystem(func() { s.notify.Ready(s.summary()) })
		for _, r := range waiting {
			r.tell(report, err)
		}
		if len(s.reloads) > 0 {
			s.reload()
		}
	}
	inForce := s.config
	go func() {
		next, err := s.options.Load(inForce, func(path string) { reading.Store(&path) })
		if err == nil && len(next.Errors) > 0 {
			err = next.Errors
		}
		var diff config.Diff
		if err == nil {
			diff = config.Compare(inForce, next)
		}
		s.scope.Post(func() {
			patience.Stop()
			s.hangsIn = nil
			if err == nil {
				s.addOutdated(&diff, next)
			}
			switch {
			case s.shutdown != nil:
				finish(Report{}, errShuttingDown)
			case err != nil:
				finish(Report{}, err)
			case len(next.Programs) == 0 && len(s.config.Programs) > 0:
				finish(Report{}, errNoPrograms)
			case dryRun:
				finish(Report{Diff: diff, Notes: s.notes(diff)}, nil)
			default:
				report := s.putInForce(next, diff)
				s.recordReload(&diff)
				s.afterSaving(func() { finish(report, nil) })
			}
		})
	}()
}

// addOutdated adds to the difference those programs whose env file says something else than when they were started.
func (s *Supervisor) addOutdated(diff *config.Diff, next *config.Config) {
	for _, in := range s.instances {
		if c := diff.Of(in.program.Name); in.outdated(next) && c.Key("env_file") == nil {
			c.Keys = append(c.Keys, config.KeyChange{Key: "env_file", What: "has other variables than when " + in.name + " was started", Restart: true})
			c.Kind = config.RestartNeeded
		}
	}
}

// outdated reports whether the present run was started with other variables than are in the program's env file by now.
func (in *instance) outdated(conf *config.Config) bool {
	if in.run == nil || in.run.envSum == 0 || in.removed {
		return false
	}
	program := conf.Program(in.program.Name)
	if program == nil {
		return false
	}
	sum, ok := conf.EnvFileSum(program)
	return ok && sum != in.run.envSum
}

// notes tells what a difference leads to beside what it says of each program.
func (s *Supervisor) notes(diff config.Diff) (notes []string) {
	for _, k := range diff.Superd {
		if k.Restart {
			notes = append(notes, k.Key+" takes effect when superd is started anew")
		}
	}
	for i := range diff.Programs {
		c := &diff.Programs[i]
		if before := s.config.Program(c.Name); before != nil && c.Kind != config.ProgramRemoved && unschedules(before, c.Program) {
			notes = append(notes, c.Name+" has no schedule any more: it is run when it is started")
		}
		if scaled, ok := s.scales[c.Name]; ok && s.endsScale(c) {
			notes = append(notes, fmt.Sprintf("the operator's scale %s=%d ends", c.Name, scaled.Replicas))
		}
	}
	return notes
}

// apply puts next in force, where nobody has compared it yet.
func (s *Supervisor) apply(next *config.Config) Report {
	return s.putInForce(next, config.Compare(s.config, next))
}

// putInForce puts next in force, which differs from what is in force by diff. Where it doesn't, nothing happens.
func (s *Supervisor) putInForce(next *config.Config, diff config.Diff) Report {
	report := Report{Diff: diff, Notes: s.notes(diff)}
	if !diff.Differs() {
		s.log.Info("configuration reloaded: nothing has changed")
		return report
	}
	s.enact(next, func() { s.follow(diff) })
	count := func(kind config.ChangeKind) int { return len(diff.Names(kind)) }
	s.log.Info("configuration reloaded", "added", count(config.ProgramAdded), "removed", count(config.ProgramRemoved),
		"applied_live", count(config.AppliedLive), "restart_needed", count(config.RestartNeeded))
	for _, note := range report.Notes {
		s.log.Warn(note)
	}
	s.endIfAnyFailed()
	s.endIfAllEnded()
	s.changed()
	return report
}

// recordReload records a reload that has changed something.
func (s *Supervisor) recordReload(diff *config.Diff) {
	if !diff.Differs() {
		return
	}
	var parts []string
	for _, kind := range []config.ChangeKind{config.ProgramAdded, config.ProgramRemoved, config.AppliedLive, config.RestartNeeded} {
		if n := len(diff.Names(kind)); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	for _, k := range diff.Superd {
		parts = append(parts, k.String())
	}
	s.record(eventlog.Event{Kind: eventlog.Reload, Reason: strings.Join(parts, ", ")})
}

// follow does what follows from a new configuration. Those who go make room before others come, and nobody is started for whom somebody is there that is
// about to go.
func (s *Supervisor) follow(diff config.Diff) {
	if concernsGraph(diff) {
		s.connect()
	}
	wanted := make([]*wish, len(diff.Programs)) // of further instances, by those that are there now
	for i := range diff.Programs {
		switch c := &diff.Programs[i]; c.Kind {
		case config.ProgramRemoved:
			s.dropScale(c.Name)
			for _, in := range slices.Clone(s.instancesOf(c.Name)) {
				in.leave(byRemoval)
			}
		case config.AppliedLive, config.RestartNeeded:
			wanted[i] = s.wishFor(c.Name)
			if s.endsScale(c) {
				s.dropScale(c.Name)
			}
			s.dismiss(c.Program)
		}
	}
	for i := range diff.Programs {
		switch c := &diff.Programs[i]; c.Kind {
		case config.AppliedLive, config.RestartNeeded:
			for _, in := range slices.Clone(s.instancesOf(c.Name)) {
				if !in.removed {
					in.change(c)
				}
			}
		}
	}
	for i := range diff.Programs {
		switch c := &diff.Programs[i]; c.Kind {
		case config.ProgramAdded, config.AppliedLive, config.RestartNeeded:
			s.complete(c.Program, wanted[i])
		}
	}
}

// concernsGraph reports whether a difference is one of who waits for whom, or may be.
func concernsGraph(diff config.Diff) bool {
	return slices.ContainsFunc(diff.Programs, func(c config.Change) bool {
		switch c.Kind {
		case config.Unchanged:
			return false
		case config.ProgramAdded, config.ProgramRemoved:
			return true
		}
		return c.Key("requires") != nil || c.Key("after") != nil || c.Key("replicas") != nil || c.Key("type") != nil ||
			len(c.Program.Invalid) > 0 || slices.ContainsFunc(c.Keys, func(k config.KeyChange) bool { return k.What == "corrected" })
	})
}
