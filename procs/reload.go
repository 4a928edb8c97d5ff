package procs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"superd/config"
	"superd/procs/changes"
	"superd/procs/eventlog"
	"superd/procs/filewatch"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/host"
	"superd/procs/instance"
	"superd/procs/onconnect"
	"superd/procs/sockets"
	"superd/procs/subscriptions"
)

// reloadTimeout bounds how long the callers of a reload wait for a file whose reading hangs.
const reloadTimeout = 30 * time.Second

// reloads has the requests to reload the configuration. It reads one off the loop and
// compares it with the active one.
type reloads struct {
	*platform
	recorder      *handover.Recorder
	config        *configState
	applier       *applier
	shutdown      *shutdown
	readyNotifier *readyNotifier

	running  bool
	waiting  []*reloadRequest        // requests that wait for the next reload
	others   []*exclusiveChange      // other changes of the configuration that wait
	hungFile *atomic.Pointer[string] // file on which a reload hangs; nil: none hangs
}

// A reloadRequest is a caller that waits for a reload.
type reloadRequest struct {
	dryRun bool
	done   func(ReloadResult, error) // nil once the caller is answered
}

func (r *reloadRequest) answer(result ReloadResult, err error) {
	if done := r.done; done != nil {
		r.done, result.DryRun = nil, r.dryRun
		done(result, err)
	}
}

var (
	errShuttingDown = errors.New("reload configuration: superd is shutting down")
	errNoPrograms   = errors.New("reload configuration: it has no programs; was it being written? To stop all programs use `superd ctl stop '*'`")
)

// request is [Supervisor.Reload].
func (l *reloads) request(dryRun bool, done func(ReloadResult, error)) {
	r := &reloadRequest{dryRun, done}
	l.waiting = append(l.waiting, r)
	switch {
	case l.hungFile != nil:
		err := l.hangError()
		l.Scope.Post(func() { r.answer(ReloadResult{}, err) })
	case !l.running:
		l.serve()
	}
}

// An exclusiveChange is a change of the configuration in which no reload may come between.
type exclusiveChange struct {
	file  string // on which it may hang
	begin func(end func())
	hangs func(error)
}

// exclusively calls begin when no reload and no other such change is under way. begin calls end
// once. If its file takes too long, hangs is called; end is still due.
func (l *reloads) exclusively(file string, begin func(end func()), hangs func(error)) {
	if l.hungFile != nil {
		hangs(l.hangError())
		return
	}
	l.others = append(l.others, &exclusiveChange{file, begin, hangs})
	if !l.running {
		l.next()
	}
}

// next begins what waits, after the end of a reload or another change.
func (l *reloads) next() {
	switch {
	case len(l.others) > 0:
		change := l.others[0]
		l.others = l.others[1:]
		l.running = true
		timer := l.Scope.After(reloadTimeout, func() {
			l.hungFile = new(atomic.Pointer[string])
			l.hungFile.Store(&change.file)
			change.hangs(l.hangError())
			l.refuseWaiting()
		})
		change.begin(func() {
			timer.Stop()
			l.running, l.hungFile = false, nil
			l.next()
		})
	case len(l.waiting) > 0:
		l.serve()
	}
}

// refuseWaiting answers all that wait while a file hangs. A reload that waits follows later.
func (l *reloads) refuseWaiting() {
	err := l.hangError()
	for _, r := range l.waiting {
		r.answer(ReloadResult{}, err)
	}
	for _, change := range l.others {
		change.hangs(err)
	}
	l.others = nil
}

// hangError returns an error that names the file whose reading hangs.
func (l *reloads) hangError() error {
	at := l.options.Config.Path
	if path := l.hungFile.Load(); path != nil {
		at = *path
	}
	return fmt.Errorf("reload configuration: reading %s takes longer than %s; %s The reload continues when it can be read", at, reloadTimeout, host.HangHint)
}

// serve serves all waiting callers with one reload. It reads and compares off the loop.
func (l *reloads) serve() {
	waiting := l.waiting
	l.waiting = nil
	l.running = true
	dryRun := !slices.ContainsFunc(waiting, func(r *reloadRequest) bool { return !r.dryRun })
	if !dryRun {
		l.readyNotifier.reloadBegun()
	}
	reading := new(atomic.Pointer[string])
	timer := l.Scope.After(reloadTimeout, func() {
		l.hungFile = reading
		err := l.hangError()
		l.Log.Error("configuration not reloaded yet: the old one stays in force", "error", err)
		l.recorder.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Reload}, fsm.ReasonReloadHung.With(err.Error())))
		if !dryRun {
			l.readyNotifier.reloadEnded()
		}
		for _, r := range waiting {
			r.answer(ReloadResult{}, err)
		}
		l.refuseWaiting()
	})
	finish := func(result ReloadResult, err error) {
		l.running = false
		if err != nil && !dryRun {
			l.Log.Error("configuration not reloaded: the old one stays in force", "error", err)
			l.recorder.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Reload}, fsm.ReasonReloadRefused.With(err.Error())))
		}
		if !dryRun {
			l.readyNotifier.reloadEnded()
		}
		for _, r := range waiting {
			r.answer(result, err)
		}
		l.next()
	}
	active := l.config.active
	go func() {
		next, err := l.options.Load(active, func(path string) { reading.Store(&path) })
		if err == nil && len(next.Errors) > 0 {
			err = next.Errors
		}
		var diff config.Diff
		if err == nil {
			diff = config.Compare(active, next)
		}
		l.Scope.Post(func() {
			timer.Stop()
			l.hungFile = nil
			if err == nil {
				l.applier.addOutdated(&diff, next)
			}
			switch {
			case l.shutdown.begun:
				finish(ReloadResult{}, errShuttingDown)
			case err != nil:
				finish(ReloadResult{}, err)
			case len(next.Programs) == 0 && len(l.config.active.Programs) > 0:
				finish(ReloadResult{}, errNoPrograms)
			case dryRun:
				finish(ReloadResult{Diff: diff, Notes: l.applier.notes(diff)}, nil)
			default:
				result := l.applier.applyWithExitPolicy(next, diff)
				l.applier.record(&diff)
				l.recorder.AfterSaving(func(err error) {
					result.Unrecorded = err
					finish(result, nil)
				})
			}
		})
	}()
}

// A ReloadResult is what a reload has changed, or would change.
type ReloadResult struct {
	config.Diff
	DryRun bool
	Notes  []string // further effects, as text

	Unrecorded error // why the change is not in the journal; nil: it is
}

// An applier activates a configuration and applies the difference to the instances.
type applier struct {
	*platform
	registry      *registry
	recorder      *handover.Recorder
	config        *configState
	replicas      *replicas
	conflicts     *conflicts
	exitPolicy    *exitPolicy
	subscriptions *subscriptions.Set
	sockets       *sockets.Set
	connectors    *onconnect.Connectors
	watches       *filewatch.Watches
	rolls         *rolls
}

// compareAndApply activates next. It compares it with the active configuration first.
func (a *applier) compareAndApply(next *config.Config) ReloadResult {
	return a.applyWithExitPolicy(next, config.Compare(a.config.active, next))
}

// applyWithExitPolicy activates next and applies its exit policy. diff is the difference from the
// active configuration; without one, nothing happens.
func (a *applier) applyWithExitPolicy(next *config.Config, diff config.Diff) ReloadResult {
	result := a.applyWithoutExitPolicy(next, diff)
	if diff.Differs() {
		a.exitPolicy.endIfAnyFailed()
		a.exitPolicy.endIfAllEnded()
	}
	return result
}

// applyWithoutExitPolicy activates next without its exit policy, since another configuration may
// follow in the same turn.
func (a *applier) applyWithoutExitPolicy(next *config.Config, diff config.Diff) ReloadResult {
	result := ReloadResult{Diff: diff, Notes: a.notes(diff)}
	if !diff.Differs() {
		a.Log.Info("configuration reloaded: no change")
		return result
	}
	a.config.activate(next, func() {
		a.connectors.ForgetAll()
		a.sockets.Configure(next.Sockets)
		a.applyDiff(diff)
		a.connectors.UpdateAll()
		a.watches.UpdateAll()
	})
	count := func(kind config.ChangeKind) int { return len(diff.Names(kind)) }
	a.Log.Info("configuration reloaded", "added", count(config.ProgramAdded), "removed", count(config.ProgramRemoved),
		"applied_live", count(config.AppliedLive), "restart_needed", count(config.RestartNeeded))
	for _, note := range result.Notes {
		a.Log.Warn(note)
	}
	a.subscriptions.Changed()
	return result
}

// record records a reload that has changed something in the event log.
func (a *applier) record(diff *config.Diff) {
	if !diff.Differs() {
		return
	}
	a.recorder.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Reload},
		fsm.ReasonReloaded.With(changes.Summary(diff))))
}

// applyDiff applies the difference to the instances. Removals come first: they release what new
// instances need, and retiring requirements are not started again.
func (a *applier) applyDiff(diff config.Diff) {
	if changes.ConcernGraph(diff) {
		a.rebuildGraph()
	}
	// Desired states of new instances, derived from the existing ones
	desired := map[string]*fsm.Target{}
	for i := range diff.Programs {
		switch c := &diff.Programs[i]; c.Kind {
		case config.ProgramRemoved:
			a.replicas.dropScale(c.Name)
			a.rolls.drop(c.Name)
			for _, in := range slices.Clone(a.registry.of(c.Name)) {
				a.replicas.retire(in, fsm.By(fsm.ActorRemoval))
			}
		case config.AppliedLive, config.RestartNeeded:
			desired[c.Name] = a.replicas.desiredFor(c.Name)
			if a.replicas.endsScale(c) {
				a.replicas.dropScale(c.Name)
			}
			a.replicas.removeSurplus(c.Program, fsm.By(fsm.ActorRemoval))
			a.rolls.relink(c.Name)
		case config.ProgramAdded:
			desired[c.Name] = nil
		case config.Unchanged:
		}
	}
	for i := range diff.Programs {
		switch c := &diff.Programs[i]; c.Kind {
		case config.AppliedLive, config.RestartNeeded:
			rolled := a.rolled(c)
			for _, in := range slices.Clone(a.registry.of(c.Name)) {
				if !in.Membership.Leaves() {
					a.change(in, c, rolled[in.Name] != "")
				}
			}
		case config.Unchanged, config.ProgramAdded, config.ProgramRemoved:
		}
	}
	a.replicas.createAllMissing(desired)
}

// rebuildGraph rebuilds the graph after a change of the active configuration.
func (a *applier) rebuildGraph() {
	a.Graph.Clear()
	for _, in := range a.registry.instances {
		in.Node.Join()
	}
}

// change applies a changed definition of the program to the instance. A change that a live run
// cannot take causes a restart, by a roll if rolls is true: until then the run goes on as before. A
// pending backoff continues under the new restart policy. An instance that is wanted down stays
// down.
func (a *applier) change(in *instance.Instance, c *config.Change, rolls bool) {
	before, program := in.Program, c.Program
	outdated := a.outdated(in, a.config.active)
	if before == program && !outdated {
		return // the predecessor has applied it
	}
	blocks := func(other *instance.Instance) bool { return other != in && other.Membership.Conflict == nil }
	if files := a.Paths.LogOptions(in.Name, program).Files(); !slices.Equal(files, in.Output.Collector.Files()) && a.conflicts.owner(files, blocks) != nil {
		a.replicas.replace(in, program)
		return
	}
	restarts := outdated || c.RestartsRun(in.RunDefinition())
	a.registry.redefine(in, program)
	in.Redefined(before, restarts, rolls)
}

// rolled begins the roll of the instances of [applier.toRoll], and returns their runs. The roll is
// recorded before the new definitions of the instances: a successor must not find these without it.
func (a *applier) rolled(c *config.Change) map[string]string {
	runs, refusal := a.toRoll(c)
	if len(runs) == 0 || refusal != "" {
		return nil
	}
	a.rolls.begin(c.Program, fsm.By(fsm.ActorReload), runs, c.Program.Rolling.Surge, false)
	return runs
}

// toRoll returns the runs, by instance, that a change of the program restarts while they are up: a
// roll does so. With a refusal they are restarted at once.
func (a *applier) toRoll(c *config.Change) (runs map[string]string, refusal string) {
	p := c.Program
	if k := c.Key("replicas"); k != nil && k.Restart { // instances without a number replace others
		return nil, ""
	}
	if c.Kind == config.Unchanged || c.Kind == config.ProgramRemoved || p.Rolling == nil || p.Type == config.TypeOneshot || len(p.Invalid) > 0 {
		return nil, ""
	}
	runs = map[string]string{}
	for _, in := range a.registry.of(c.Name) {
		m := &in.Machine
		up := m.State() == fsm.Running && m.Desired().Up && !m.RestartPending() && !m.Outdated()
		if up && !in.IsOneShot() && !in.Membership.Leaves() && (c.RestartsRun(in.RunDefinition()) || a.outdated(in, a.config.active)) {
			runs[in.Name] = instance.RunID(in)
			refusal = cmp.Or(refusal, config.ExcludedSocket(in.RunDefinition(), p))
		}
	}
	return runs, refusal
}

// notes returns effects of a difference that its list of programs does not show.
func (a *applier) notes(diff config.Diff) (notes []string) {
	for _, k := range diff.Superd {
		if k.Restart {
			notes = append(notes, k.Key+" takes effect when superd is restarted")
		}
	}
	for i := range diff.Programs {
		c := &diff.Programs[i]
		if before := a.config.active.Program(c.Name); before != nil && c.Kind != config.ProgramRemoved && fsm.Unschedules(before, c.Program) {
			notes = append(notes, c.Name+" no longer has a schedule: it runs when it is started")
		}
		switch runs, refusal := a.toRoll(c); {
		case refusal != "":
			notes = append(notes, c.Name+" is restarted at once, not by a rolling restart: "+refusal)
		case len(runs) > 0:
			notes = append(notes, c.Name+" is restarted by a rolling restart")
		}
		if scaled, ok := a.replicas.scales[c.Name]; ok && a.replicas.endsScale(c) {
			notes = append(notes, fmt.Sprintf("the operator's scale %s=%d ends", c.Name, scaled.Replicas))
		}
	}
	return notes
}

// addOutdated adds to diff the programs whose env file has changed since they were started.
func (a *applier) addOutdated(diff *config.Diff, next *config.Config) {
	for _, in := range a.registry.instances {
		if c := diff.Of(in.Program.Name); a.outdated(in, next) && c.Key("env_file") == nil {
			c.Keys = append(c.Keys, config.KeyChange{Key: "env_file", What: "has other variables than at the start of " + in.Name, Restart: true})
			c.Kind = config.RestartNeeded
		}
	}
}

// addIntermediate adds to diff, whose result is next, the programs with an instance that has a
// definition of another configuration. A predecessor may have activated several before it was
// killed, and diff compares the first with the last.
func (a *applier) addIntermediate(diff *config.Diff, next *config.Config) {
	for _, in := range a.registry.instances {
		program := next.Program(in.Program.Name)
		if program == nil || in.Membership.Leaves() {
			continue
		}
		own, c := config.CompareProgram(in.Program, program), diff.Of(program.Name)
		if own.Kind == config.Unchanged {
			continue
		}
		if c.Kind == config.ProgramAdded || c.Kind == config.Unchanged {
			*c = own // its keys say whether the graph, in which the instance is, changes
			continue
		}
		for _, k := range own.Keys {
			if c.Key(k.Key) == nil {
				c.Keys = append(c.Keys, k)
			}
		}
		if own.Kind == config.RestartNeeded {
			c.Kind = own.Kind
		}
	}
}

// outdated reports whether the env file has other variables than at the start of the run.
func (a *applier) outdated(in *instance.Instance, conf *config.Config) bool {
	if in.EnvSum() == 0 || in.Membership.Leaves() {
		return false
	}
	program := conf.Program(in.Program.Name)
	if program == nil {
		return false
	}
	sum, ok := conf.EnvFileSum(program)
	return ok && sum != in.EnvSum()
}
