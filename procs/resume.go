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
		if a.FdRenamed {
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
		if key != snapshot.SuperdKey && key != snapshot.ConfigKey(c.sup.config.number) {
			c.sup.recorder.Queue(key, nil)
		}
	}
	c.sup.reaper.AcknowledgeUnclaimed()
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
	if p := c.sup.config.active.Program(config.ProgramOf(in.Name)); p != nil && c.sup.replicas.configured(p, in.Name) {
		in.Membership.ReplaceBy(p)
	}
	by := in.Machine.Desired()
	if by.Up || by.By.Kind == fsm.ActorNone || by.By.Kind == fsm.ActorOther {
		in.Apply(in.Machine.WantDown(fsm.By(fsm.ActorRemoval), in.Conditions()))
	} else if in.Machine.State().AtRest() {
		c.sup.onRest(in)
	}
}

// startMissing creates the configured instances that do not exist yet, and activates the
// configuration with which this superd was started.
func (c *recovery) startMissing() {
	r := c.options.Predecessor.Snapshot
	if r == nil {
		for _, in := range slices.Clone(c.sup.registry.instances) {
			c.sup.replicas.autostart(in)
		}
		return
	}
	for _, program := range c.sup.config.active.Programs {
		for _, name := range c.sup.replicas.names(program) {
			switch in := c.sup.registry.byName[name]; {
			case in != nil:
			case !r.Incomplete || c.options.Predecessor.CleanEnd && !program.KillMode.KillsTree():
				c.sup.replicas.create(name, program, c.sup.replicas.desiredFor(program.Name))
			default:
				c.createUnlessQuarantined(name, program)
			}
		}
	}
	c.undoShutdown()
	// The predecessor was activating it
	if next := r.Config(); c.sup.config.before != 0 && next != nil {
		c.sup.reloads.applyWithoutExitPolicy(next, config.Compare(c.sup.config.active, next))
	}
	if next := c.options.Config; !c.options.Predecessor.Resumed && next != c.sup.config.active {
		c.sup.reloads.applyWithoutExitPolicy(next, config.Compare(c.sup.config.active, next))
	}
	c.sup.replicas.removeAllSurplus()
	// The predecessor may have missed an end. The first one decides.
	bySince := func(a, b *instance.Instance) int { return cmp.Compare(a.SinceAt, b.SinceAt) }
	for _, in := range slices.SortedStableFunc(slices.Values(c.sup.registry.instances), bySince) {
		if in.StaysDown() {
			c.sup.exitPolicy.check(in)
		}
	}
	c.Schedules.DropSaved()
	c.sup.exitPolicy.endIfAllEnded()
}

// createUnlessQuarantined creates an instance without a record. Processes of it that may live
// quarantine it.
func (c *recovery) createUnlessQuarantined(name string, program *config.Program) {
	in := c.sup.replicas.add(name, program)
	leftovers := c.leftovers[name]
	if len(leftovers) == 0 && in.Tree.Empty() {
		c.sup.replicas.autostart(in)
		return
	}
	if program.Autostart {
		in.Machine.SetDesired(true, fsm.By(fsm.ActorConfiguration))
	}
	in.QuarantineWithScan(leftovers)
}

// undoShutdown restores the desired states before a shutdown that is not resumed.
func (c *recovery) undoShutdown() {
	undone := false
	for _, in := range slices.Clone(c.sup.registry.instances) {
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
	for _, in := range c.sup.registry.instances {
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
