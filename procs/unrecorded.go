package procs

import (
	"cmp"
	"maps"
	"slices"

	"superd/config"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance/paths"
	"superd/procs/snapshot"
)

// findUnrecorded finds processes that a damaged journal does not have, so that no program is
// started twice. A process that can only be the main process of its instance is adopted. The others
// quarantine their instance, see [instance.Instance.QuarantineWithScan].
func (c *recovery) findUnrecorded(r *snapshot.Snapshot) error {
	c.uncertainRuns = map[string]bool{}
	for _, name := range r.Names() {
		if v := r.Merge(name, c.config.active); v.Run != nil && c.isUncertain(v) {
			c.uncertainRuns[v.Run.ID] = true
		}
	}
	leftovers, err := c.Host.Search(nil, c.runs(r), c.usersOf(r))
	if err != nil {
		return err
	}
	c.setLeftovers(leftovers)
	if c.options.Predecessor.CleanEnd || r.OtherBoot {
		return nil // no process is certain to belong to an instance
	}
	newest := c.options.Config
	if c.options.Predecessor.Resumed {
		newest = cmp.Or(r.Config(), c.config.active)
	}
	for _, name := range slices.Sorted(maps.Keys(c.leftovers)) {
		v := c.unrecordedRun(r, name)
		if v == nil && r.Instances[name] == nil && newest.Program(config.ProgramOf(name)) == nil {
			c.Log.Warn("program is in no configuration: its processes are left running", "instance", name,
				"processes", host.LeftoverText(c.leftovers[name]))
		}
		if v != nil {
			c.Log.Warn("process adopted as the main process: the journal does not have it",
				"instance", name, "pid", v.Run.Main.Pid)
			delete(c.uncertainRuns, v.Run.ID)
			r.Instances[name] = v
			delete(c.leftovers, name)
		}
	}
	return nil
}

// isUncertain reports whether a process of the run may be another one than the records say: the
// damaged part of the journal may have a later start of the run.
func (c *recovery) isUncertain(v snapshot.Merged) bool {
	p := v.Process()
	switch {
	case p == nil && v.Start != nil:
		// Hooks and main process have the same environment tags
		definition := v.RunDefinition(v.Program)
		return v.Start.Hook != nil || definition != nil && len(definition.PostStop) > 0
	case v.State != fsm.Spawning.Name():
		return false
	}
	return p == nil || !c.Host.Lives(p.Identity())
}

// livesAsRecorded reports whether the recorded process of the instance's run exists.
func (c *recovery) livesAsRecorded(v *snapshot.Instance) bool {
	p := v.Process()
	return p != nil && c.Host.Lives(p.Identity())
}

// unrecordedRun returns a record for an instance whose main process is one of its leftover
// processes; nil if that is not certain. It is not if processes of several runs live, or several
// candidates; if the program has hooks, which can't be told from a main process; or if stops of the
// program spare processes.
func (c *recovery) unrecordedRun(r *snapshot.Snapshot, name string) *snapshot.Instance {
	was, leftovers := r.Instances[name], c.leftovers[name]
	program := cmp.Or(r.Definition(r.Oldest(), name), c.config.active.Program(config.ProgramOf(name)))
	switch {
	case program == nil || was == nil && !c.replicas.configured(program, name), r.HasStart(name):
		return nil
	case !program.KillMode.KillsTree() || len(program.PreStart)+len(program.PostStop) > 0:
		return nil
	case was != nil && (was.Quarantined || c.livesAsRecorded(was)):
		return nil
	}
	main := slices.IndexFunc(leftovers, func(leftover host.Leftover) bool { return leftover.Eldest != pidfd.Identity{} })
	if main < 0 || slices.ContainsFunc(leftovers, func(leftover host.Leftover) bool { return leftover.Run != leftovers[main].Run }) {
		return nil
	}
	v := &snapshot.Instance{Config: r.Oldest(), Desired: fsm.Target{Up: true, By: fsm.By(fsm.ActorConfiguration)}.Snapshot()}
	if was != nil {
		v = new(*was)
		switch {
		case v.Desired.Up:
		case v.Desired.Restore().By.Kind == fsm.ActorShutdown: // the shutdown is resumed or undone
			v.Desired, v.DesiredBeforeShutdown = fsm.Target{Up: true, By: fsm.By(fsm.ActorConfiguration)}.Snapshot(), nil
		default: // it must have been started since
			v.Desired = fsm.Target{Up: true, By: fsm.By(fsm.ActorOperator)}.Snapshot()
		}
	}
	v.State, v.Outcome = fsm.Running.Name(), fsm.WantUp.OutcomeName()
	v.Due, v.RestartPending, v.FailureReason = nil, false, fsm.SavedReason{}
	now := c.Loop.Now()
	v.Since, v.StateReason = now, fsm.Reason{Kind: fsm.ReasonRecovered}.Snapshot()
	v.Output, v.Stderr = true, len(paths.OutputStreams(program)) > 1
	v.Input = program.LoggerOf != ""
	v.Run = &snapshot.Run{ID: leftovers[main].Run, HadProcess: true, StartedAt: now, ReadyAt: now, PreStarted: true,
		Main: snapshot.NewProcess(leftovers[main].Eldest, "")}
	return v
}
