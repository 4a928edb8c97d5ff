package procs

import (
	"cmp"
	"maps"
	"slices"

	"superd/config"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
)

// findUnrecorded finds processes that a damaged journal does not have, so that no program is
// started twice. A process that can only be the main process of its instance is adopted. The others
// quarantine their instance, see [quarantine].
func (c *recovery) findUnrecorded(r *Snapshot) error {
	r.uncertainRuns = map[string]bool{}
	for name := range r.instanceNames() {
		// A start was under way. A later start may be in the damaged part.
		v := merge(r.instances[name], r.starts[name], false, 0)
		if v.State != fsm.Spawning.Name() || v.Run == nil {
			continue
		}
		if p, start := v.process(); p == nil && start == nil || p != nil && !c.host.Lives(p.identity()) {
			r.uncertainRuns[v.Run.ID] = true
		}
	}
	leftovers, err := c.host.Search(nil, r.runs(), c.usersOf(r))
	if err != nil {
		return err
	}
	c.setLeftovers(leftovers)
	if r.Clean || r.otherBoot {
		return nil // no process is certain to belong to an instance
	}
	for _, name := range slices.Sorted(maps.Keys(c.leftovers)) {
		v := c.unrecordedRun(r, name)
		if v == nil && r.instances[name] == nil && c.sup.config.active.Program(programOf(name)) == nil {
			c.log.Warn("program is in no configuration: its processes are left running", "instance", name,
				"processes", host.LeftoverText(c.leftovers[name]))
		}
		if v != nil {
			c.log.Warn("process adopted as the main process: the journal does not have it",
				"instance", name, "pid", v.Run.Main.Pid)
			delete(r.uncertainRuns, v.Run.ID)
			r.instances[name] = v
			delete(c.leftovers, name)
		}
	}
	return nil
}

// UsersOf returns the users as which the instance's program runs in a configuration: one, or none
// if the program is not configured or runs as superd's user.
func UsersOf(conf *config.Config, instance string) []string {
	if p := conf.Program(programOf(instance)); p != nil && p.User != "" {
		return []string{p.User}
	}
	return nil
}

// usersOf returns a function that returns the users as which an instance's program may run, in any
// known configuration.
func (c *recovery) usersOf(r *Snapshot) func(instance string) []string {
	all := append(slices.Collect(maps.Values(r.configs)), c.sup.config.active)
	return func(instance string) (users []string) {
		for _, conf := range all {
			users = append(users, UsersOf(conf, instance)...)
		}
		if v := r.instances[instance]; v != nil {
			for _, p := range []*config.Program{v.Definition, v.runDefinition(nil)} {
				if p != nil && p.User != "" {
					users = append(users, p.User)
				}
			}
		}
		return users
	}
}

// instanceNames returns the names of the instances in the journal.
func (r *Snapshot) instanceNames() map[string]bool {
	names := map[string]bool{}
	for name := range r.instances {
		names[name] = true
	}
	for name := range r.starts {
		names[name] = true
	}
	return names
}

// hasStart reports whether the journal has a start record whose result is not in the instance's
// record.
func (r *Snapshot) hasStart(name string) bool {
	start, v := r.starts[name], r.instances[name]
	return start != nil && (v == nil || start.number > v.LastCompletedStart)
}

// livesAsRecorded reports whether the recorded process of the instance's run exists.
func (c *recovery) livesAsRecorded(v *savedInstance) bool {
	p, _ := v.process()
	return p != nil && c.host.Lives(p.identity())
}

// unrecordedRun returns a record for an instance whose main process is one of its leftover
// processes; nil if that is not certain. It is not if processes of several runs live, or several
// candidates; if the program has hooks, which can't be told from a main process; or if stops of the
// program spare processes.
func (c *recovery) unrecordedRun(r *Snapshot, name string) *savedInstance {
	was, leftovers := r.instances[name], c.leftovers[name]
	program := cmp.Or(r.definition(r.oldest(), name), c.sup.config.active.Program(programOf(name)))
	switch {
	case program == nil || was == nil && !c.sup.replicas.configured(program, name), r.hasStart(name):
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
	v := &savedInstance{Config: r.oldest(), Desired: fsm.Target{Up: true, By: fsm.By(fsm.ActorConfiguration)}.Snapshot()}
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
	now := c.loop.Now()
	v.Since, v.StateReason = now, fsm.Reason{Kind: fsm.ReasonRecovered}.Snapshot()
	v.Output, v.Stderr = true, len(streamsOf(program)) > 1
	v.Input = program.LoggerOf != ""
	v.Run = &savedRun{ID: leftovers[main].Run, HadProcess: true, StartedAt: now, ReadyAt: now, PreStarted: true,
		Main: savedIdentity(leftovers[main].Eldest, "")}
	return v
}

// unrecorded reports whether processes that the journal does not have may belong to the instance.
func (a *recoveredInstance) unrecorded() bool {
	s := a.in.sup
	if !s.options.Snapshot.Incomplete || a.recovered.Found != nil {
		return false
	}
	// If stops spare processes, a process that leads no session was spared.
	return a.in.program.KillMode.KillsTree() ||
		slices.ContainsFunc(s.recovery.leftovers[a.in.name], func(leftover host.Leftover) bool { return leftover.Leads })
}
