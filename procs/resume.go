package procs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"superd/config"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/snapshot"
)

// adopt is [Supervisor.Adopt].
func (c *recovery) adopt() error {
	r := c.options.Predecessor.Snapshot
	if r == nil {
		c.removeOldNames()
		return nil
	}
	known := c.self.restore(r)
	c.fds.Inherit(c.options.Predecessor.StoredFDs.Files, r.FDNames())
	c.sockets.Adopt(r.Sockets)
	stored := c.options.Predecessor.StoredFDs
	c.sockets.Take(stored.Given, stored.Files, c.socketsToCome(r))
	c.replicas.restoreScales(r)
	c.replicas.rolls.restore(r)
	if r.Incomplete {
		if err := c.findUnrecorded(r); err != nil {
			return err
		}
	}
	all := c.mergeRecords(r)
	if err := c.search(r, all); err != nil {
		return err
	}
	if err := c.reopen(all); err != nil {
		return err
	}
	if r.Superd.Shutdown != nil && !c.shutdown.begun {
		// The shutdown is undone. This is recorded first: if superd is killed now, the keeper
		// starts another supervisor, which must not resume the shutdown.
		if err := c.recorder.Put(snapshot.SuperdKey, c.self.snapshot()); err != nil {
			c.Log.Warn("end of the shutdown not recorded", "error", err)
		}
	}
	if known {
		c.self.save()
	} else {
		c.config.activateFirst()
	}
	c.removeOldNames()
	c.resume(all)
	return nil
}

// socketsToCome returns the sockets of the configurations that become active until the start ends:
// what systemd passes may be for the last one.
func (c *recovery) socketsToCome(r *snapshot.Snapshot) []*config.Socket {
	all := slices.Clone(c.config.active.Sockets)
	if next := r.Config(); next != nil {
		all = append(all, next.Sockets...)
	}
	if !c.options.Predecessor.Resumed {
		all = append(all, c.options.Config.Sockets...)
	}
	return all
}

// resume resumes all recovered instances.
func (c *recovery) resume(all []*instance.Recovered) {
	r, alive := c.options.Predecessor.Snapshot, 0
	recorded := c.recordedRuns(all)
	for _, a := range all {
		if v := a.Saved.Run; v != nil {
			a.RecordedBefore = recorded[v.ID]
		}
		if a.Recovered.Found != nil {
			alive++
		}
		a.Leftovers, a.Incomplete = c.leftovers[a.In.Name], r.Incomplete
		a.Resume()
		if a.In.Membership.Leaves() {
			c.resumeRetirement(a.In)
		}
		if a.Saved.Start != nil {
			a.In.Save()
		}
		a.In.UpdateSchedule()
		a.In.Node.Publish()
		if a.FDRenamed {
			a.In.Save()
		}
	}
	switch {
	case r.Superd.Ended && len(all) > 0:
		c.Log.Info("not started: stopped by the operator before superd ended", "instances", namesOf(all))
	case r.Existed && !r.Superd.Ended:
		c.Log.Info("took over from the predecessor", "instances", len(all), "processes", alive)
	}
	for _, key := range r.Obsolete {
		// These two are this supervisor's own by now
		if key != snapshot.SuperdKey && key != snapshot.ConfigKey(c.config.number) {
			c.recorder.Queue(key, nil)
		}
	}
	c.reaper.AcknowledgeUnclaimed()
}

// recordedRuns returns what the event log has of the resumed runs: superd may have been killed
// after it wrote to the event log and before it wrote to the journal.
func (c *recovery) recordedRuns(all []*instance.Recovered) map[string]eventlog.Recorded {
	if c.options.Events == nil || !slices.ContainsFunc(all, func(a *instance.Recovered) bool { return a.Saved.Run != nil }) {
		return nil
	}
	recorded, err := c.options.Events.RecordedRuns()
	if err != nil {
		c.Log.Warn("event log not read: starts and exits may be recorded twice", "error", err)
	}
	return recorded
}

func namesOf(all []*instance.Recovered) (names []string) {
	for _, a := range all {
		names = append(names, a.In.Name)
	}
	return names
}

// resumeRetirement resumes the removal of an instance.
func (c *recovery) resumeRetirement(in *instance.Instance) {
	if p := c.config.active.Program(config.ProgramOf(in.Name)); p != nil && c.replicas.configured(p, in.Name) {
		in.Membership.ReplaceBy(p)
	}
	by := in.Machine.Desired()
	if by.Up || by.By.Kind == fsm.ActorNone || by.By.Kind == fsm.ActorOther {
		in.Apply(in.Machine.WantDown(fsm.By(fsm.ActorRemoval), in.Conditions()))
	} else if in.Machine.State().AtRest() {
		c.onRest(in)
	}
}

// startMissing activates the configuration with which this superd was started, and creates the
// configured instances that do not exist yet. It creates them last: the newest configuration may
// not have them, or define them otherwise.
func (c *recovery) startMissing() {
	r := c.options.Predecessor.Snapshot
	if r == nil {
		c.sockets.Configure(c.config.active.Sockets)
		for _, in := range slices.Clone(c.registry.instances) {
			c.replicas.autostart(in)
		}
		return
	}
	if r.Incomplete {
		c.replicas.refuses = c.quarantined
		defer func() { c.replicas.refuses = nil }()
	}
	c.undoShutdown()
	// The predecessor was activating it
	if next := r.Config(); c.config.before != 0 && next != nil {
		diff := config.Compare(c.config.active, next)
		c.applier.addIntermediate(&diff, next)
		c.applier.applyWithoutExitPolicy(next, diff)
	}
	if next := c.options.Config; !c.options.Predecessor.Resumed && next != c.config.active {
		c.applier.applyWithoutExitPolicy(next, config.Compare(c.config.active, next))
	}
	// Not before: an older configuration may not have what the predecessor has opened
	c.sockets.Configure(c.config.active.Sockets)
	desired := map[string]*fsm.Target{}
	for _, program := range c.config.active.Programs {
		desired[program.Name] = c.replicas.desiredFor(program.Name)
	}
	c.replicas.createAllMissing(desired)
	c.replicas.removeAllSurplus()
	// The predecessor may have missed an end. The first one decides.
	bySince := func(a, b *instance.Instance) int { return cmp.Compare(a.Since(), b.Since()) }
	for _, in := range slices.SortedStableFunc(slices.Values(c.registry.instances), bySince) {
		if in.StaysDown() {
			c.exitPolicy.check(in)
		}
	}
	c.Schedules.DropSaved()
	c.exitPolicy.endIfAllEnded()
}

// quarantined quarantines a new instance if processes of it may live that the damaged journal does
// not have, and reports whether it did.
func (c *recovery) quarantined(in *instance.Instance) bool {
	leftovers := c.leftovers[in.Name]
	switch {
	case c.options.Predecessor.CleanEnd && !in.Program.KillMode.KillsTree(),
		len(leftovers) == 0 && in.Tree.Empty():
		return false
	case in.Program.Autostart:
		in.Machine.SetDesired(true, fsm.By(fsm.ActorConfiguration))
	}
	in.QuarantineWithScan(leftovers)
	return true
}

// undoShutdown restores the desired states before a shutdown that is not resumed.
func (c *recovery) undoShutdown() {
	undone := false
	for _, in := range slices.Clone(c.registry.instances) {
		m := &in.Machine
		before, known := m.DesiredBeforeShutdown()
		if m.Desired().By.Kind != fsm.ActorShutdown || !known || in.Membership.Leaves() {
			continue
		}
		undone = true
		if before.Up {
			in.Apply(m.WantUp(before.By, false, in.Conditions()))
		} else {
			m.SetDesired(false, before.By)
			in.Node.Publish()
			in.Save()
		}
	}
	if undone {
		c.Log.Warn("shutdown of the predecessor cancelled: starting its programs again")
	}
}

// logStoppedByOperator logs which instances are not started because an operator stopped them under
// a predecessor: that is easily forgotten.
func (c *recovery) logStoppedByOperator() {
	if c.options.Predecessor.Resumed { // no person started this superd
		return
	}
	var names []string
	for _, in := range c.registry.instances {
		if m := &in.Machine; !m.Desired().Up && m.Desired().By.Is(fsm.ActorOperator) && !in.Membership.Leaves() {
			names = append(names, in.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	more := ""
	if len(names) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(names)-maxNamed)
		names = names[:maxNamed]
	}
	c.Log.Warn("not started: stopped by the operator before", "instances", strings.Join(names, ", ")+more,
		"start_by", fmt.Sprintf("superd ctl --runtime-dir %s start NAME...", c.options.Paths.RuntimeDir))
}
