package procs

import (
	"errors"
	"slices"

	"superd/config"
	"superd/pidfd"
	"superd/procs/eventlog"
)

// goOn has everything that was taken up go on where the last superd left off.
func (s *Supervisor) goOn(all []*adoption) {
	r, lives := s.options.Recovery, 0
	told := s.told(all)
	for _, a := range all {
		if v := a.saved.Run; v != nil {
			a.told = told[v.ID]
		}
		if a.adoptee.Found != nil {
			lives++
		}
		a.resume()
		a.in.keepSchedule()
		a.in.publish()
		if a.rekept {
			a.in.save()
		}
	}
	switch {
	case r.self.Ended && len(all) > 0:
		s.log.Info("not started: the operator has stopped them before superd ended", "instances", namesOf(all))
	case r.existed && !r.self.Ended:
		s.log.Info("took over from the superd before", "instances", len(all), "processes", lives)
	}
	for _, key := range r.keys {
		if key != superdKey && key != configKey(s.configNumber) { // those are this superd's own by now
			s.queue(key, nil)
		}
	}
	for _, e := range s.options.Inherited.Exits {
		if s.adopted[processKey{e.Pid, e.Start}] == nil {
			s.keeper.Acknowledge(e.Pid, e.Start) // nobody waits for it
		}
	}
}

// told returns what the event log has of the runs that go on: superd may have been killed between the write to it and the one to the journal.
func (s *Supervisor) told(all []*adoption) map[string]eventlog.Told {
	if s.options.Events == nil || !slices.ContainsFunc(all, func(a *adoption) bool { return a.saved.Run != nil }) {
		return nil
	}
	told, err := s.options.Events.Told()
	if err != nil {
		s.log.Warn("starts and exits may be recorded twice: the event log can't be read", "error", err)
	}
	return told
}

func namesOf(all []*adoption) (names []string) {
	for _, a := range all {
		names = append(names, a.in.name)
	}
	return names
}

// resume has an instance go on in the state that it was in.
func (a *adoption) resume() {
	in := a.in
	if a.saved.Probes != "" { // a check may have been under way
		in.probes(a.saved.Probes).rid(func() {})
	}
	switch {
	case (a.lost || a.saved.Held) && len(in.sup.strays[in.name]) > 0, a.saved.Held && !in.tree.Empty():
		in.holdAnywhere(in.sup.strays[in.name])
	case a.saved.Held && in.machine.wanted.up:
		in.do(func() []Effect { return in.machine.wantUp(in.machine.wanted.by, false) })
	case a.saved.Run != nil:
		a.resumeRun()
	case a.saved.Due != nil:
		in.armRestart(*a.saved.Due - in.sup.loop.Now())
	case in.machine.state == Backoff: // of no superd's making
		in.armRestart(0)
	}
	if !a.heard {
		a.unheard()
	}
	if in.removed {
		in.leaveAgain()
	}
	if a.news {
		in.save()
	}
}

// resumeRun goes on with a run.
func (a *adoption) resumeRun() {
	in, v := a.in, a.saved.Run
	r := &run{
		in:      in,
		program: in.program, config: a.saved.Config, invocationID: v.ID, touched: v.Touched, startedAt: v.StartedAt, readyAt: v.ReadyAt, telling: &tellsNothing, group: int32(v.Group),
		oomKills: int32(v.OOMKills), envSum: v.EnvSum, stopDeadline: v.StopDeadline, clearBy: v.ClearBy, preStarted: v.PreStarted, postStopped: v.PostStopped,
	}
	r.scope.Open(&in.scope)
	if v.Table != nil {
		r.program = v.Table
	}
	if v.PrintsFrom != "" || v.StderrFrom != "" {
		r.tells().printsFrom = [...]string{v.PrintsFrom, v.StderrFrom}
	}
	r.told = a.told
	in.machine.stale = v.Stale || v.other
	in.run = r
	if r.touched && in.tree.OOMKills() < int(r.oomKills) {
		r.oomKills = int32(in.tree.OOMKills()) // they are counted anew
	}
	switch in.machine.state {
	case Spawning:
		a.resumeSpawning(r)
	case Starting, Running, Lingering, Stopping, Killing:
		if v.ended {
			a.endedUnseen(r)
			return
		}
		a.watchMain(r, v.Main)
		a.resumeStop(r)
		a.resumeReadiness(r)
	case Clearing:
		a.resumeClearing(r)
	}
}

// process returns the process of the adoption, be it alive or not, and the name under which the keeper has its pidfd.
func (a *adoption) process(saved *savedProcess) (p Process, id pidfd.Identity, kept string) {
	s := a.in.sup
	id = saved.identity()
	process := s.adopt(a.adoptee.Found, id)
	switch {
	case a.adoptee.Found == nil:
		s.letGo(saved.Kept)
		return process, id, ""
	case s.keeping.has(saved.Kept):
		return process, id, saved.Kept
	}
	a.rekept = true
	return process, id, s.keepProcess(process)
}

func (a *adoption) watchMain(r *run, saved *savedProcess) {
	process, id, kept := a.process(saved)
	a.in.watchMain(r, process, id, kept)
	a.hear(r)
}

// unheard lets go of what a main process tells superd by, where there is none to be heard.
func (a *adoption) unheard() {
	s, t := a.in.sup, a.adoptee
	s.system.CloseFD(t.NotifyFD)
	s.system.CloseFD(t.ReadyFD)
	if v := a.saved.Run; v != nil {
		s.letGo(v.Notify)
		s.letGo(v.Ready)
	}
}

// hear goes on hearing what a main process tells.
func (a *adoption) hear(r *run) {
	a.heard = true
	in, t, v := a.in, a.adoptee, a.saved.Run
	again := func(fd int, name string) string {
		if fd >= 0 && !in.sup.keeping.has(name) {
			a.rekept = true
			return in.sup.keep(fd, false)
		}
		return name
	}
	if notify, ready := again(t.NotifyFD, v.Notify), again(t.ReadyFD, v.Ready); notify != "" || ready != "" || v.StatusText != "" || v.Watchdog != 0 {
		told := r.tells()
		told.notifyKept, told.readyKept, told.statusText, told.watchdogPeriod = notify, ready, v.StatusText, v.Watchdog
	}
	in.letGoOfTold(r)
	r.savedHealth, r.stopLimit = v.Health, v.StopLimit
	in.hear(r, t.NotifyFD, t.ReadyFD)
	if in.machine.state != Running {
		return
	}
	if v.Reloading != nil {
		in.reloads(r, *v.Reloading)
	}
	if v.Leaving != nil {
		in.leaves(r, *v.Leaving)
	}
}

// resumeStop goes on with a stop of a main process, with what is left of its time.
func (a *adoption) resumeStop(r *run) {
	in := a.in
	switch in.machine.state {
	case Stopping:
		in.armStop(r.stopDeadline - in.sup.loop.Now())
		if in.isLogger() && in.goes() {
			in.endInput()
		}
	case Killing:
		if a.adoptee.Found != nil {
			in.signalKill()
		}
		in.perform(ArmKill)
	}
}

// resumeSpawning goes on with a start.
func (a *adoption) resumeSpawning(r *run) {
	in, v, m := a.in, a.saved.Run, &a.in.machine
	switch {
	case v.Hook != nil && (v.Hook.Process != nil || v.Hook.birth != nil):
		a.resumeHook(in.preStart(r), v.Hook)
		if m.unwanted() || m.hindered {
			r.hook.stop()
		}
	case v.birth != nil && v.birth.Process != nil:
		a.spawned(r, v.birth.Process)
	case v.birth != nil && in.isOneShot():
		// It may have run, and come to its end.
		a.spawned(r, &savedProcess{})
	case v.birth != nil && in.left(r):
		in.do(func() []Effect { return m.interrupted(true) })
	case m.unwanted(), m.blocked():
		// Things may have changed of which the journal doesn't tell: somebody may live beside whom it must not, or not be there for whom it waits.
		in.do(func() []Effect { return m.calledOff(in.left(r)) })
	case len(in.program.Invalid) > 0:
		in.spawnFailed(r, in.program.Invalid, faultFinal)
	case r.preStarted:
		if v.birth != nil { // something may have run under this one
			r.invocationID = in.sup.newInvocationID()
		}
		in.spawnMain(r)
	case v.Hook != nil:
		in.preStart(r).from(v.Hook.At).next()
	default:
		in.begin(r)
	}
}

// spawned goes on with a main process whose start is not recorded.
func (a *adoption) spawned(r *run, saved *savedProcess) {
	in := a.in
	if r.startedAt = a.saved.Run.birth.At; r.startedAt == 0 {
		r.startedAt = in.sup.loop.Now()
	}
	if saved.Pid == 0 {
		a.adoptee.Found = nil
	}
	a.watchMain(r, saved)
	if saved.Pid != 0 {
		in.recordStart()
	}
	in.spawnedMain(r)
	if r.readiness != nil {
		r.readiness.catchUp()
		in.save()
	}
}

// resumeHook goes on with a hook: one that ended meanwhile without a trace counts as one whose exit status is not known.
func (a *adoption) resumeHook(h *hookRun, saved *savedHook) {
	h.from(saved.At)
	h.due, h.stopped = saved.Due, saved.Stopped
	if saved.Failed != "" {
		h.failed = errors.New(saved.Failed)
	}
	if saved.Timeout > 0 {
		h.timeout = saved.Timeout
	}
	h.scope = h.run.scope.Child()
	p := saved.Process
	if p == nil {
		p = saved.birth.Process
	}
	if p == nil {
		p, a.adoptee.Found = &savedProcess{}, nil
	}
	now := h.in.sup.loop.Now()
	if h.due == 0 {
		h.due = now + h.timeout
	}
	process, id, kept := a.process(p)
	h.watch(process, id, kept)
	switch {
	case a.adoptee.Found == nil:
	case h.stopped:
		h.limit = h.scope.After(max(h.due-now, 0), h.kill)
	default:
		h.limit = h.scope.After(max(h.due-now, 0), h.timedOut)
	}
}

// resumeClearing goes on ending what is left of a run.
func (a *adoption) resumeClearing(r *run) {
	in, v := a.in, a.saved.Run
	switch {
	case v.Hook == nil:
		in.clearLeft(r, r.clearBy)
	case v.Hook.Process == nil && v.Hook.birth == nil:
		in.postStop(r).from(v.Hook.At).next()
	default:
		a.resumeHook(in.postStop(r), v.Hook)
	}
}

// endedUnseen goes on with the post_stop hook of a run whose main process has ended, of which there is no record.
func (a *adoption) endedUnseen(r *run) {
	in, m := a.in, &a.in.machine
	now := in.sup.loop.Now()
	in.lastExit = &ExitStatus{at: now}
	if r.startedAt == 0 {
		r.startedAt = now
	}
	in.sup.counts[m.state]--
	m.exited(now, pidfd.Exit{}, now-r.startedAt, r.stable(now), "", true)
	in.sup.counts[m.state]++
	a.resumeHook(in.postStop(r), a.saved.Run.Hook)
	in.save()
}

// leaveAgain goes on with the removal of an instance that is not in the configuration any more.
func (in *instance) leaveAgain() {
	if p := in.sup.config.Program(programOf(in.name)); p != nil && in.sup.has(p, in.name) {
		in.next = p
	}
	by := in.machine.wanted
	if by.up || by.by == "" {
		in.do(func() []Effect { return in.machine.wantDown(byRemoval) })
	} else if in.machine.state.AtRest() {
		in.sup.atRest(in)
	}
}

// startMissing starts what starts by itself and is not there yet, and puts the configuration in force that this superd was started with.
func (s *Supervisor) startMissing() {
	r := s.options.Recovery
	if r == nil {
		for _, in := range slices.Clone(s.instances) {
			s.autostart(in)
		}
		return
	}
	for _, program := range s.config.Programs {
		for _, name := range s.namesOf(program) {
			switch in := s.byName[name]; {
			case in != nil:
			case !r.Incomplete || r.Clean && program.KillMode != config.KillTree:
				s.bring(name, program, s.wishFor(program.Name))
			default:
				s.bringUnlessHeld(name, program)
			}
		}
	}
	s.voidShutdown()
	if next := r.Config(); s.configBefore != 0 && next != nil {
		s.apply(next) // the superd before was about to
	}
	if !s.options.Resumed && s.options.Config != s.config {
		s.apply(s.options.Config)
	}
	s.dropSurplus()
	for _, in := range slices.Clone(s.instances) {
		if in.endedForGood() {
			s.endedForGood(in) // the superd before may not have come to it
		}
	}
	for name := range s.leftSchedules {
		s.forgetSchedule(name)
	}
	s.endIfAllEnded()
}

// bringUnlessHeld adds an instance of which the journal tells nothing, although it may live.
func (s *Supervisor) bringUnlessHeld(name string, program *config.Program) {
	in := s.add(name, program)
	strays := s.strays[name]
	if len(strays) == 0 && in.tree.Empty() {
		s.autostart(in)
		return
	}
	if program.Autostart {
		in.machine.wish(true, theConfiguration)
	}
	in.holdAnywhere(strays)
}

// holdAnywhere is hold for processes that may live elsewhere than where the instance's would.
func (in *instance) holdAnywhere(strays []Stray) {
	if len(strays) > 0 && in.tree.Empty() {
		in.renewTree(anyPlace)
	}
	in.hold(strays)
}

// goOnShuttingDown goes on with a shutdown that the superd before has begun, or that was asked for before the start.
func (s *Supervisor) goOnShuttingDown() {
	s.notify.Stopping()
	s.shutdown.goesOn = true
	s.tellAllShutdown()
}

// voidShutdown has what a shutdown has stopped, or was to stop, that nobody goes on with be as it was wanted before.
func (s *Supervisor) voidShutdown() {
	voided := false
	for _, in := range slices.Clone(s.instances) {
		m := &in.machine
		if m.wanted.by != theShutdown || m.overruled == nil || in.removed {
			continue
		}
		voided = true
		before := *m.overruled
		if before.up {
			in.do(func() []Effect { return m.wantUp(before.by, false) })
		} else {
			m.wish(false, before.by)
			in.publish()
			in.save()
		}
	}
	if voided {
		s.log.Warn("the shutdown that the superd before had begun is void: its programs are started again")
	}
}
