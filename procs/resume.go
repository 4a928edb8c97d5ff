package procs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"superd/config"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/snapshot"
)

// resume resumes all recovered instances.
func (c *recovery) resume(all []*recoveredInstance) {
	r, alive := c.options.Predecessor.Snapshot, 0
	recorded := c.recordedRuns(all)
	for _, a := range all {
		if v := a.saved.Run; v != nil {
			a.recordedBefore = recorded[v.ID]
		}
		if a.recovered.Found != nil {
			alive++
		}
		a.resume()
		a.in.updateSchedule()
		a.in.publish()
		if a.fdRenamed {
			a.in.save()
		}
	}
	switch {
	case r.Superd.Ended && len(all) > 0:
		c.log.Info("not started: stopped by the operator before superd ended", "instances", namesOf(all))
	case r.Existed && !r.Superd.Ended:
		c.log.Info("took over from the predecessor", "instances", len(all), "processes", alive)
	}
	for _, key := range r.Obsolete {
		// These two are this supervisor's own by now
		if key != snapshot.SuperdKey && key != snapshot.ConfigKey(c.sup.config.number) {
			c.sup.recorder.queue(key, nil)
		}
	}
	c.sup.reaper.acknowledgeUnclaimed()
}

// recordedRuns returns what the event log has of the resumed runs: superd may have been killed
// after it wrote to the event log and before it wrote to the journal.
func (c *recovery) recordedRuns(all []*recoveredInstance) map[string]eventlog.Recorded {
	if c.options.Events == nil || !slices.ContainsFunc(all, func(a *recoveredInstance) bool { return a.saved.Run != nil }) {
		return nil
	}
	recorded, err := c.options.Events.RecordedRuns()
	if err != nil {
		c.log.Warn("event log not read: starts and exits may be recorded twice", "error", err)
	}
	return recorded
}

func namesOf(all []*recoveredInstance) (names []string) {
	for _, a := range all {
		names = append(names, a.in.name)
	}
	return names
}

// resume resumes an instance in its recorded state.
func (a *recoveredInstance) resume() {
	in := a.in
	if a.saved.Probes != "" { // a check may have been running
		in.probes(a.saved.Probes).cleanUp(func() {})
	}
	switch {
	case (a.processMissing || a.saved.Quarantined || a.unrecorded()) && len(in.sup.recovery.leftovers[in.name]) > 0, a.saved.Quarantined && !in.tree.Empty():
		in.quarantineWithScan(in.sup.recovery.leftovers[in.name])
	case a.saved.Quarantined && in.machine.Desired().Up && !in.membership.Leaves():
		in.apply(in.machine.WantUp(in.machine.Desired().By, false, in.conditions()))
	case a.saved.Run != nil:
		a.resumeRun()
	case a.saved.Due != nil:
		in.armRestart(*a.saved.Due - in.sup.loop.Now())
	case in.machine.State() == fsm.Backoff, in.machine.Retries():
		// No supervisor writes such a record
		in.armRestart(0)
	}
	if !a.notifyResumed {
		a.releaseNotifyFDs()
	}
	if in.membership.Leaves() {
		in.resumeRetirement()
	}
	if a.saved.Start != nil {
		in.save()
	}
}

func (a *recoveredInstance) resumeRun() {
	in, v := a.in, a.saved.Run
	r := in.restoreRun(a.saved.Config, v)
	r.recordedBefore = a.recordedBefore
	switch in.machine.State() {
	case fsm.Spawning:
		a.resumeSpawning(r)
	case fsm.Starting, fsm.Running, fsm.StopPending, fsm.Stopping, fsm.Killing:
		if a.saved.MainExited {
			a.resumeUnrecordedExit(r)
			return
		}
		a.resumeMain(r, v.Main)
		a.resumeStop(r)
		a.resumeReadiness(r)
	case fsm.TearingDown:
		a.resumeTeardown(r)
	}
}

// process returns the adopted process, alive or not, its identity and the name of its pidfd in the
// descriptor store.
func (a *recoveredInstance) process(saved *snapshot.Process) (p host.Process, id pidfd.Identity, storedName string) {
	s := a.in.sup
	id = restoreIdentity(saved)
	process := s.reaper.adopt(a.recovered.Found, id)
	switch {
	case a.recovered.Found == nil:
		s.fds.release(saved.FDName)
		return process, id, ""
	case s.fds.has(saved.FDName):
		return process, id, saved.FDName
	}
	a.fdRenamed = true
	return process, id, s.fds.storeProcess(process)
}

func (a *recoveredInstance) resumeMain(r *run, saved *snapshot.Process) {
	process, id, storedName := a.process(saved)
	a.in.setFirstMain(r, process, id, storedName)
	a.resumeNotify(r)
}

// releaseNotifyFDs closes and releases the notify socket and the readiness pipe if there is no main
// process.
func (a *recoveredInstance) releaseNotifyFDs() {
	s, recovered := a.in.sup, a.recovered
	s.host.CloseFD(recovered.NotifyFD)
	s.host.CloseFD(recovered.ReadyFD)
	if v := a.saved.Run; v != nil {
		s.fds.release(v.Notify)
		s.fds.release(v.Ready)
	}
}

// resumeNotify resumes the handling of a main process's notifications.
func (a *recoveredInstance) resumeNotify(r *run) {
	a.notifyResumed = true
	in, recovered, v := a.in, a.recovered, a.saved.Run
	restore := func(fd int, name string) string {
		if fd >= 0 && !in.sup.fds.has(name) {
			a.fdRenamed = true
			return in.sup.fds.storeFD(fd, false)
		}
		return name
	}
	r.restoreNotify(v, restore(recovered.NotifyFD, v.Notify), restore(recovered.ReadyFD, v.Ready))
	in.releaseNotifyFDs(r)
	in.listenForNotify(r, recovered.NotifyFD, recovered.ReadyFD)
	in.restoreAnnouncements(r, v)
}

// resumeStop resumes the stop of a main process, with the same deadline.
func (a *recoveredInstance) resumeStop(r *run) {
	in := a.in
	switch in.machine.State() {
	case fsm.Stopping:
		in.armStop(r.stopDeadline - in.sup.loop.Now())
		if in.isLogger() && in.neverStartsAgain() {
			in.endInput()
		}
	case fsm.Killing:
		if a.recovered.Found != nil {
			in.signalKill()
		}
		in.perform(fsm.ArmKill)
	}
}

func (a *recoveredInstance) resumeSpawning(r *run) {
	in, v, m, start := a.in, a.saved.Run, &a.in.machine, a.mainStart()
	if in.membership.Leaves() && m.Desired().Up { // nothing of a retired instance is started
		m.SetDesired(false, fsm.By(fsm.ActorRemoval))
	}
	switch {
	case v.Hook != nil && (v.Hook.Process != nil || a.saved.Start != nil):
		a.resumeHook(in.preStart(r), v.Hook)
		if in.mustEnd() || in.conflict != nil {
			r.hook.stop()
		}
	case start != nil && start.Process != nil:
		a.spawned(r, start.Process)
	case start != nil && in.isOneShot():
		// It may have run and ended
		a.spawned(r, &snapshot.Process{})
	case start != nil && in.hasLeftovers(r):
		in.apply(m.Interrupted(true, in.conditions()))
	case in.mustEnd(), m.StartBlocked(in.conditions()):
		// Something may have changed without a record: a conflicting instance may live, or a
		// requirement may be lost.
		in.apply(m.SpawnCanceled(in.hasLeftovers(r), in.conditions()))
	case len(in.program.Invalid) > 0:
		in.spawnFailed(r, fsm.ReasonInvalid.With(in.program.Invalid.Error()), host.FaultFinal)
	case r.preStarted:
		if start != nil { // a process may have run with this id
			r.invocationID = in.sup.newInvocationID()
		}
		in.spawnMain(r)
	case v.Hook != nil:
		in.preStart(r).from(v.Hook.At).next()
	default:
		in.begin(r)
	}
}

// spawned resumes a main process of which only the start record is known.
func (a *recoveredInstance) spawned(r *run, saved *snapshot.Process) {
	in := a.in
	if r.startedAt = a.saved.Start.At; r.startedAt == 0 {
		r.startedAt = in.sup.loop.Now()
	}
	if saved.Pid == 0 {
		a.recovered.Found = nil
	}
	a.resumeMain(r, saved)
	if saved.Pid != 0 {
		in.recordStart()
	}
	in.spawnedMain(r)
	if r.readiness != nil {
		r.readiness.allowOneCheck()
		in.save()
	}
}

// resumeHook resumes a hook. If it has ended and nothing has its exit status, that is unknown.
func (a *recoveredInstance) resumeHook(h *hookRun, saved *snapshot.Hook) {
	h.restore(saved)
	h.scope = h.run.scope.Child()
	p := a.saved.Process()
	if p == nil {
		p, a.recovered.Found = &snapshot.Process{}, nil
	}
	now := h.in.sup.loop.Now()
	if h.due == 0 {
		h.due = now + h.timeout
	}
	process, id, storedName := a.process(p)
	h.watch(process, id, storedName)
	switch {
	case a.recovered.Found == nil:
	case h.stopped:
		h.timer = h.scope.After(max(h.due-now, 0), h.kill)
	default:
		h.timer = h.scope.After(max(h.due-now, 0), h.timedOut)
	}
}

func (a *recoveredInstance) resumeTeardown(r *run) {
	in, v := a.in, a.saved.Run
	switch {
	case v.Hook == nil:
		in.killLeftovers(r, r.teardownDeadline)
	case v.Hook.Process == nil && a.saved.Start == nil:
		in.postStop(r).from(v.Hook.At).next()
	default:
		a.resumeHook(in.postStop(r), v.Hook)
	}
}

// resumeUnrecordedExit resumes the post_stop hook of a run whose main process has ended without a
// record.
func (a *recoveredInstance) resumeUnrecordedExit(r *run) {
	in, m := a.in, &a.in.machine
	now := in.sup.loop.Now()
	in.lastExit = &ExitStatus{at: now}
	if r.startedAt == 0 {
		r.startedAt = now
	}
	end := fsm.RunEnd{At: now, Ran: now - r.startedAt, Stable: r.stable(now), Leftovers: true}
	m.Exited(end, in.conditions(), in.sup.rng)
	in.sup.registry.setState(in)
	a.resumeHook(in.postStop(r), a.saved.Run.Hook)
	in.save()
}

// resumeRetirement resumes the removal of an instance.
func (in *instance) resumeRetirement() {
	if p := in.sup.config.active.Program(config.ProgramOf(in.name)); p != nil && in.sup.replicas.configured(p, in.name) {
		in.setReplacement(p)
	}
	by := in.machine.Desired()
	if by.Up || by.By.Kind == fsm.ActorNone || by.By.Kind == fsm.ActorOther {
		in.apply(in.machine.WantDown(fsm.By(fsm.ActorRemoval), in.conditions()))
	} else if in.machine.State().AtRest() {
		in.sup.onRest(in)
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
	bySince := func(a, b *instance) int { return cmp.Compare(a.sinceAt, b.sinceAt) }
	for _, in := range slices.SortedStableFunc(slices.Values(c.sup.registry.instances), bySince) {
		if in.staysDown() {
			c.sup.exitPolicy.check(in)
		}
	}
	for name := range c.sup.schedules.saved {
		c.sup.schedules.drop(name)
	}
	c.sup.exitPolicy.endIfAllEnded()
}

// createUnlessQuarantined creates an instance without a record. Processes of it that may live
// quarantine it.
func (c *recovery) createUnlessQuarantined(name string, program *config.Program) {
	in := c.sup.replicas.add(name, program)
	leftovers := c.leftovers[name]
	if len(leftovers) == 0 && in.tree.Empty() {
		c.sup.replicas.autostart(in)
		return
	}
	if program.Autostart {
		in.machine.SetDesired(true, fsm.By(fsm.ActorConfiguration))
	}
	in.quarantineWithScan(leftovers)
}

// quarantineWithScan quarantines the instance for processes that may live outside its own tree.
func (in *instance) quarantineWithScan(leftovers []host.Leftover) {
	if len(leftovers) > 0 && in.tree.Empty() {
		in.renewTree(host.ScanPath)
	}
	in.setQuarantine(leftovers)
}

// undoShutdown restores the desired states before a shutdown that is not resumed.
func (c *recovery) undoShutdown() {
	undone := false
	for _, in := range slices.Clone(c.sup.registry.instances) {
		m := &in.machine
		before, known := m.DesiredBeforeShutdown()
		if m.Desired().By.Kind != fsm.ActorShutdown || !known || in.membership.Leaves() {
			continue
		}
		undone = true
		if before.Up {
			in.apply(m.WantUp(before.By, false, in.conditions()))
		} else {
			m.SetDesired(false, before.By)
			in.publish()
			in.save()
		}
	}
	if undone {
		c.log.Warn("shutdown of the predecessor cancelled: starting its programs again")
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
		if m := &in.machine; !m.Desired().Up && m.Desired().By.Is(fsm.ActorOperator) && !in.membership.Leaves() {
			names = append(names, in.name)
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
	c.log.Warn("not started: stopped by the operator before", "instances", strings.Join(names, ", ")+more,
		"start_by", fmt.Sprintf("superd ctl --runtime-dir %s start NAME...", c.options.Paths.RuntimeDir))
}
