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
	"superd/procs/host"
)

// A ReloadResult is what a reload has changed, or would change.
type ReloadResult struct {
	config.Diff
	DryRun bool
	Notes  []string // further effects, as text

	Unrecorded error // why the change is not in the journal; nil: it is
}

// reloadTimeout bounds how long the callers of a reload wait for a file whose reading hangs.
const reloadTimeout = 30 * time.Second

// A reloading is a caller that waits for a reload.
type reloading struct {
	dryRun bool
	done   func(ReloadResult, error) // nil once the caller is answered
}

func (r *reloading) answer(result ReloadResult, err error) {
	if done := r.done; done != nil {
		r.done, result.DryRun = nil, r.dryRun
		done(result, err)
	}
}

var (
	errShuttingDown = errors.New("reload configuration: superd is shutting down")
	errNoPrograms   = errors.New("reload configuration: it has no programs; was it being written? To stop all programs use `superd ctl stop '*'`")
)

// Reload reads the configuration again, off the loop, and activates it: all of it or, if it has any
// mistake, nothing. With dryRun it only returns what would change. done runs on the loop.
//
// During a reload, a further one waits for its end, as the file may have changed since it was read.
// If the reading hangs, all callers get an error, and the reload continues.
func (s *Supervisor) Reload(dryRun bool, done func(ReloadResult, error)) {
	r := &reloading{dryRun, done}
	s.reloads = append(s.reloads, r)
	switch {
	case s.hungFile != nil:
		err := s.reloadHangs()
		s.scope.Post(func() { r.answer(ReloadResult{}, err) })
	case !s.reloading:
		s.reload()
	}
}

// reloadHangs returns an error that names the file whose reading hangs.
func (s *Supervisor) reloadHangs() error {
	at := s.options.Config.Path
	if path := s.hungFile.Load(); path != nil {
		at = *path
	}
	return fmt.Errorf("reload configuration: reading %s takes longer than %s; %s The reload continues when it can be read", at, reloadTimeout, host.HangHint)
}

// reload serves all waiting callers with one reload. It reads and compares off the loop.
func (s *Supervisor) reload() {
	waiting := s.reloads
	s.reloads = nil
	s.reloading = true
	dryRun := !slices.ContainsFunc(waiting, func(r *reloading) bool { return !r.dryRun })
	if !dryRun {
		s.readyNotifier.reloadBegun()
	}
	reading := new(atomic.Pointer[string])
	timer := s.scope.After(reloadTimeout, func() {
		s.hungFile = reading
		err := s.reloadHangs()
		s.log.Error("configuration not reloaded yet: the old one stays in force", "error", err)
		s.recorder.record(because(eventlog.Event{Kind: eventlog.Reload}, Reason{ReasonReloadHung, err.Error()}))
		if !dryRun {
			s.readyNotifier.reloadEnded()
		}
		for _, r := range slices.Concat(waiting, s.reloads) {
			r.answer(ReloadResult{}, err)
		}
	})
	finish := func(result ReloadResult, err error) {
		s.reloading = false
		if err != nil && !dryRun {
			s.log.Error("configuration not reloaded: the old one stays in force", "error", err)
			s.recorder.record(because(eventlog.Event{Kind: eventlog.Reload}, Reason{ReasonReloadRefused, err.Error()}))
		}
		if !dryRun {
			s.readyNotifier.reloadEnded()
		}
		for _, r := range waiting {
			r.answer(result, err)
		}
		if len(s.reloads) > 0 {
			s.reload()
		}
	}
	active := s.config.active
	go func() {
		next, err := s.options.Load(active, func(path string) { reading.Store(&path) })
		if err == nil && len(next.Errors) > 0 {
			err = next.Errors
		}
		var diff config.Diff
		if err == nil {
			diff = config.Compare(active, next)
		}
		s.scope.Post(func() {
			timer.Stop()
			s.hungFile = nil
			if err == nil {
				s.addOutdated(&diff, next)
			}
			switch {
			case s.shutdown.begun:
				finish(ReloadResult{}, errShuttingDown)
			case err != nil:
				finish(ReloadResult{}, err)
			case len(next.Programs) == 0 && len(s.config.active.Programs) > 0:
				finish(ReloadResult{}, errNoPrograms)
			case dryRun:
				finish(ReloadResult{Diff: diff, Notes: s.notes(diff)}, nil)
			default:
				result := s.applyConfig(next, diff)
				s.recordReload(&diff)
				s.recorder.afterSaving(func(err error) {
					result.Unrecorded = err
					finish(result, nil)
				})
			}
		})
	}()
}

// addOutdated adds to diff the programs whose env file has changed since they were started.
func (s *Supervisor) addOutdated(diff *config.Diff, next *config.Config) {
	for _, in := range s.registry.instances {
		if c := diff.Of(in.program.Name); in.outdated(next) && c.Key("env_file") == nil {
			c.Keys = append(c.Keys, config.KeyChange{Key: "env_file", What: "has other variables than at the start of " + in.name, Restart: true})
			c.Kind = config.RestartNeeded
		}
	}
}

// outdated reports whether the env file has other variables than at the start of the run.
func (in *instance) outdated(conf *config.Config) bool {
	if in.run == nil || in.run.envSum == 0 || in.retiring {
		return false
	}
	program := conf.Program(in.program.Name)
	if program == nil {
		return false
	}
	sum, ok := conf.EnvFileSum(program)
	return ok && sum != in.run.envSum
}

// notes returns effects of a difference that its list of programs does not show.
func (s *Supervisor) notes(diff config.Diff) (notes []string) {
	for _, k := range diff.Superd {
		if k.Restart {
			notes = append(notes, k.Key+" takes effect when superd is restarted")
		}
	}
	for i := range diff.Programs {
		c := &diff.Programs[i]
		if before := s.config.active.Program(c.Name); before != nil && c.Kind != config.ProgramRemoved && unschedules(before, c.Program) {
			notes = append(notes, c.Name+" no longer has a schedule: it runs when it is started")
		}
		if scaled, ok := s.replicas.scales[c.Name]; ok && s.replicas.endsScale(c) {
			notes = append(notes, fmt.Sprintf("the operator's scale %s=%d ends", c.Name, scaled.Replicas))
		}
	}
	return notes
}

// compareAndApply activates next. It compares it with the active configuration first.
func (s *Supervisor) compareAndApply(next *config.Config) ReloadResult {
	return s.applyConfig(next, config.Compare(s.config.active, next))
}

// applyConfig activates next and applies its exit policy. diff is the difference from the active
// configuration; without one, nothing happens.
func (s *Supervisor) applyConfig(next *config.Config, diff config.Diff) ReloadResult {
	result := s.applyWithoutExitPolicy(next, diff)
	if diff.Differs() {
		s.exitPolicy.endIfAnyFailed()
		s.exitPolicy.endIfAllEnded()
	}
	return result
}

// applyWithoutExitPolicy activates next without its exit policy, since another configuration may
// follow in the same turn.
func (s *Supervisor) applyWithoutExitPolicy(next *config.Config, diff config.Diff) ReloadResult {
	result := ReloadResult{Diff: diff, Notes: s.notes(diff)}
	if !diff.Differs() {
		s.log.Info("configuration reloaded: no change")
		return result
	}
	s.config.activate(next, func() { s.applyDiff(diff) })
	count := func(kind config.ChangeKind) int { return len(diff.Names(kind)) }
	s.log.Info("configuration reloaded", "added", count(config.ProgramAdded), "removed", count(config.ProgramRemoved),
		"applied_live", count(config.AppliedLive), "restart_needed", count(config.RestartNeeded))
	for _, note := range result.Notes {
		s.log.Warn(note)
	}
	s.subscriptions.changed()
	return result
}

// recordReload records a reload that has changed something in the event log.
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
	s.recorder.record(because(eventlog.Event{Kind: eventlog.Reload},
		Reason{ReasonReloaded, strings.Join(parts, ", ")}))
}

// applyDiff applies the difference to the instances. Removals come first: they release what new
// instances need, and retiring requirements are not started again.
func (s *Supervisor) applyDiff(diff config.Diff) {
	if concernsGraph(diff) {
		s.rebuildGraph()
	}
	// Desired states of new instances, derived from the existing ones
	wanted := make([]*target, len(diff.Programs))
	for i := range diff.Programs {
		switch c := &diff.Programs[i]; c.Kind {
		case config.ProgramRemoved:
			s.replicas.dropScale(c.Name)
			for _, in := range slices.Clone(s.registry.of(c.Name)) {
				in.retire(actor(ActorRemoval))
			}
		case config.AppliedLive, config.RestartNeeded:
			wanted[i] = s.replicas.desiredFor(c.Name)
			if s.replicas.endsScale(c) {
				s.replicas.dropScale(c.Name)
			}
			s.replicas.removeSurplus(c.Program)
		case config.Unchanged, config.ProgramAdded:
		}
	}
	for i := range diff.Programs {
		switch c := &diff.Programs[i]; c.Kind {
		case config.AppliedLive, config.RestartNeeded:
			for _, in := range slices.Clone(s.registry.of(c.Name)) {
				if !in.retiring {
					in.change(c)
				}
			}
		case config.Unchanged, config.ProgramAdded, config.ProgramRemoved:
		}
	}
	for i := range diff.Programs {
		switch c := &diff.Programs[i]; c.Kind {
		case config.ProgramAdded, config.AppliedLive, config.RestartNeeded:
			s.replicas.createMissing(c.Program, wanted[i])
		case config.Unchanged, config.ProgramRemoved:
		}
	}
}

// concernsGraph reports whether a difference may change the dependency graph.
func concernsGraph(diff config.Diff) bool {
	return slices.ContainsFunc(diff.Programs, func(c config.Change) bool {
		switch c.Kind {
		case config.Unchanged:
			return false
		case config.ProgramAdded, config.ProgramRemoved:
			return true
		case config.AppliedLive, config.RestartNeeded: // depends on the keys
		}
		return c.Key("requires") != nil || c.Key("after") != nil || c.Key("replicas") != nil || c.Key("type") != nil ||
			len(c.Program.Invalid) > 0 ||
			slices.ContainsFunc(c.Keys, func(k config.KeyChange) bool { return k.Corrected })
	})
}
