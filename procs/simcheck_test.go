package procs

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"superd/config"
)

// A model is what an observer who does not know the machine expects of an instance.
type model struct {
	wantUp bool
	since  time.Duration // when wantUp was said last

	in       *instance // the one observed; another one begins anew
	state    State     // after the turn before
	stateAt  time.Duration
	run      *run
	over     *run            // the last one whose end was seen
	last     string          // invocation id of the last one; empty: not known
	anew     string          // of a run that a change of the program has overtaken: another one follows, whatever comes of it
	retries  int             // ends in a row that were followed by a restart, without a stable run or the operator between
	failures []time.Duration // bad ends since the operator's last command, or the last time it was given up
	gaveUp   bool            // since then, without a stable run between
	graph    graphModel
	retrying bool // it has given up and is to be tried again slowly
	status   int  // that its last end gives superd, if that was for good

	unsure    bool          // whether the end that is being cleared up is among the failures
	held      bool          // it was named as stuck, or waited for a fork that is too late to call off
	freeAt    time.Duration // when it was so last
	right     bool          // it is not named as stuck, or rightly so
	rightAt   time.Duration // when that was so last
	killing   *clearing     // that has come to SIGKILL
	killAt    time.Duration // when it had
	hook      *hookRun      // under way
	hookAt    int
	hookDue   time.Duration // of the last one of its life
	hookOn    time.Duration // when that began
	condemned bool          // superd itself ends the run
	amiss     bool          // the last run was so ended, or was never ready: whatever its exit status, it has failed

	schedule scheduleModel
}

func (m *model) forgive() { m.retries, m.failures, m.gaveUp = 0, nil, false }

// check holds the invariants of every moment.
func (h *history) check() {
	h.observeShutdown()
	h.graph.renew(h)
	h.graph.checked = true
	for i := 0; i < len(h.sup.instances); i++ {
		in := h.sup.instances[i]
		if i == len(h.watched) {
			h.watched = append(h.watched, watched{})
		}
		w := &h.watched[i]
		if w.in != in {
			*w = watched{in: in, model: h.models[in.name], living: h.kernel.livingOf(in.name)}
		}
		if w.graph != h.graph.number {
			w.graph = h.graph.number
			w.requires, w.after = h.named(in)
		}
		h.observeHeld(in, w.model)
		h.checkState(in, w)
		h.checkGraph(in, w)
		h.observe(in, w.model)
		h.checkSchedule(in, w.model)
		h.checkHook(in, w.model)
		h.checkStuck(in, w.model)
		h.checkWaiters(in)
	}
	h.graph.checked = false
	h.checkPolicy()
	h.journal.check()
}

// A watched is an instance with what the observer has of it, so that he need not look for that in each turn.
type watched struct {
	in     *instance
	model  *model
	living *living

	graph           int // the number of that of which these are
	requires, after [][]*instance
}

func (h *history) checkState(in *instance, w *watched) {
	h.checkMain(in)
	m := &in.machine
	process := in.run != nil && in.run.process != nil
	main, others := w.living.main, w.living.others
	switch m.state {
	case Starting, Running, Lingering, Stopping, Killing:
		if !process {
			h.fail("%s is %s without a process", in.name, m.state)
		}
	case Spawning, Clearing:
		if in.run == nil {
			h.fail("%s is %s without a run", in.name, m.state)
		}
	default:
		if in.run != nil || main > 0 {
			h.fail("%s is %s with a run", in.name, m.state)
		}
		if others > 0 && !h.kernel.spares(in.name) {
			h.fail("%s is %s while %d processes of it live", in.name, m.state, others)
		}
	}
	if (m.state == Backoff) != (in.restartTimer != nil) && m.state != Failed {
		h.fail("%s is %s, restart pending: %v", in.name, m.state, in.restartTimer != nil)
	}
	if in.removed {
		return
	}
	h.checkPatience(in)
	model := w.model
	untold := h.sup.telling() && slices.Contains(h.sup.shutdown.untold, in)
	if m.wanted.up && !model.wantUp && !untold {
		h.calledUp(in)
	}
	if m.wanted.up != model.wantUp && !untold {
		h.fail("%s: wanted up = %v, but it should be %v", in.name, m.wanted.up, model.wantUp)
	}
	h.checkBound(in, model)
}

// checkPatience holds that who has failed is tried again exactly if the table that is in force says so, whenever that has come.
func (h *history) checkPatience(in *instance) {
	limit := in.program.StartLimit
	slowly := in.program.Restart != config.RestartNever && limit.Failures > 0 && limit.RetryAfter > 0
	finally := in.program.Restart == config.RestartNever || limit.Failures > 0 && limit.RetryAfter == 0
	if retry := in.restartTimer != nil; in.machine.state == Failed && (retry && !slowly || !retry && !finally) {
		h.fail("%s is failed, retry pending: %v: restart %v, %+v: %s", in.name, retry, in.program.Restart, limit, in.reason())
	}
}

const (
	margin     = 5 * time.Second  // for what takes no time to speak of
	maxTimeout = 30 * time.Second // no start time-out is longer
)

// checkBound holds that what is to be down is down in bounded time: hooks, stop time-out, what is left, hooks again. Where somebody doesn't
// die, it is bounded until he is named.
func (h *history) checkBound(in *instance, model *model) {
	m, now := &in.machine, h.v.Now()
	if m.wanted.up || m.state.AtRest() {
		return
	}
	stop := in.program.StopTimeout
	bound := time.Duration(0)
	if r := in.run; r != nil {
		stop = max(stop, r.program.StopTimeout)
		hooks := len(r.program.PostStop)
		if r.hook != nil {
			hooks = max(hooks, 1) // of a table that was never written
			model.hookDue = max(model.hookDue, r.hook.due)
		}
		bound = min(max(model.hookDue-max(model.since, model.freeAt), 0), maxTimeout) // hooks were perhaps begun with another time-out
		bound += time.Duration(hooks)*(r.program.StartTimeout+killPause+margin) + h.kernel.mix.slowSpawn + stop + killPause
	}
	bound += stop + killPause + margin
	if since := now - max(model.since, model.freeAt, h.reloadedAt); since > bound {
		h.fail("%s is to be down since %v and still %s", in.name, since, stateNames[m.state])
	}
}

// observeHeld notes what keeps superd from going on with the instance, and is on record.
func (h *history) observeHeld(in *instance, model *model) {
	if in.stuck == "" {
		model.graph.unstuck++
	} else {
		model.graph.unstuck = 0
	}
	// One that lingers waits for others to end, each in bounded time.
	held := in.stuck != "" || in.machine.state == Lingering || in.run != nil && h.forking(in.run) || h.checkForking(in)
	if held || model.held {
		model.freeAt = h.v.Now()
	}
	model.held = held
}

// forking reports whether the run waits for the result of a fork that is too late to call off, and has not done so for too long.
func (h *history) forking(r *run) bool {
	s := h.committed(r)
	return s != nil && h.v.Now()-s.committedAt <= r.program.StartTimeout+killPause+margin
}

// checkForking is forking for a check.
func (h *history) checkForking(in *instance) bool {
	if in.site == nil || in.site.check == nil {
		return false
	}
	s, ok := in.site.check.pending.(*simSpawn)
	return ok && s.committed && h.v.Now()-s.committedAt <= 2*time.Second+killPause+margin
}

// committed returns the fork of the run that is too late to call off; nil if there is none.
func (h *history) committed(r *run) *simSpawn {
	pending := r.pending
	if r.hook != nil {
		pending = r.hook.pending
	}
	if s, ok := pending.(*simSpawn); ok && s.committed {
		return s
	}
	return nil
}

// checkHook holds that a hook ends in bounded time, or is named as one that doesn't die.
func (h *history) checkHook(in *instance, model *model) {
	if in.run == nil || in.run.hook == nil {
		model.hook = nil
		return
	}
	hook := in.run.hook
	if hook != model.hook || hook.at != model.hookAt {
		model.hook, model.hookAt, model.hookOn = hook, hook.at, h.v.Now()
	}
	from := max(model.hookOn, model.freeAt, h.reloadedAt)
	// One that an earlier superd has begun keeps the time-out that it had then.
	if since := h.v.Now() - from; since > min(max(hook.timeout, hook.due-from), maxTimeout)+killPause+margin {
		h.fail("%s is in a hook since %v, time-out %v", in.name, since, hook.timeout)
	}
}

// checkStuck holds that superd names those that don't die, and nobody else.
func (h *history) checkStuck(in *instance, model *model) {
	now := h.v.Now()
	right := in.stuck == "" || in.run != nil && h.committed(in.run) != nil || in.site != nil && in.site.check != nil && in.site.check.pending != nil
	if !right {
		for _, p := range h.kernel.byPid {
			right = right || (p.instance == in.name || p.instance == in.name+probeSuffix) && p.dying && !p.zombie
		}
	}
	if right || model.right {
		model.rightAt = now // a change is noticed in a while
	}
	model.right = right
	if now-model.rightAt > margin {
		h.fail("%s is still stuck, but there is nobody: %s", in.name, in.stuck)
	}
	if in.run == nil || in.run.clearing == nil || !in.run.clearing.killing {
		return
	}
	if model.killing != in.run.clearing {
		model.killing, model.killAt = in.run.clearing, now
	}
	for pid := range in.run.clearing.living {
		p := h.kernel.byPid[pid]
		if p == nil || !p.dying || p.zombie || now-max(p.dyingAt, model.killAt) <= killPause+margin {
			continue
		}
		if !strings.Contains(in.stuck, fmt.Sprintf("process %d ", pid)) {
			h.fail("%s: %d got SIGKILL %v ago, lives, and is not named: %q", in.name, pid, now-p.dyingAt, in.stuck)
		}
	}
}

// checkWaiters holds that nobody waits for what has come, or what can't come.
func (h *history) checkWaiters(in *instance) {
	for _, w := range in.waiters {
		switch state := in.machine.state; {
		case in.removed && w.op != OpStop: // for what takes its place
		case in.stuck != "":
			h.fail("%s is stuck and somebody waits for its %s: %s", in.name, w.op, in.stuck)
		case in.machine.again && state == Waiting && len(h.dependents(in)) > 0: // for them to be down
		case state.AtRest(), state == Running && !in.isOneShot(), in.awaitsSchedule() && !in.asked && !in.touched && !in.machine.hindered:
			h.fail("%s is %s and somebody waits for its %s", in.name, state, w.op)
		}
	}
}

// observe follows an instance from turn to turn and compares what it does after an end with what its configuration says.
func (h *history) observe(in *instance, model *model) {
	if model.in != in {
		*model = model.renewed(in)
	}
	if planted := h.defect.program; planted != nil && in.machine.program == in.program {
		crooked := in.program.Clone()
		planted(crooked)
		in.machine.program = crooked
	}
	if h.defect.turn != nil {
		h.defect.turn(in)
	}
	before, after := model.state, in.machine.state
	if in.run != model.run && model.run != nil && !model.run.scope.Closed() {
		h.fail("%s has begun a run while the scope of the one before is open", in.name)
	}
	if last := model.run; last != nil && last != in.run && last != model.over {
		model.over = last
		ran := h.kernel.mains[last.invocationID]
		var at time.Duration
		if in.lastExit != nil {
			at = in.lastExit.at
		}
		if ran != nil && last.stable(at) >= in.program.Backoff.ResetAfter {
			model.retries, model.gaveUp = 0, false
		}
	}
	if in.run != nil {
		if model.run != in.run {
			model.condemned = false
		}
		model.run, model.last, h.policy.begun = in.run, in.run.invocationID, true
	}
	h.checkReady(in, model)
	if before == after {
		if after != Killing {
			return
		}
		since := max(model.stateAt, h.sup.startedAt)
		if main := h.kernel.mains[model.last]; main != nil {
			since = max(since, main.mainAt)
		}
		if late := h.v.Now() - since; late > killPause+time.Second && in.stuck == "" {
			h.fail("%s got SIGKILL %v ago, lives, and is not named", in.name, late)
		}
		return
	}
	endedAt := h.v.Now()
	if before == Clearing {
		endedAt = model.stateAt
	}
	model.state, model.stateAt = after, h.v.Now()
	if before != Clearing && before != Backoff && !before.AtRest() {
		model.amiss = model.condemned || model.run != nil && model.run.readyAt == 0
	}
	if (before == Running || before == Lingering) && (after == Stopping || after == Killing) && in.machine.blame == "" { // else it is like a crash
		h.checkStop(in, before)
	}
	if after != Backoff && after != Failed && after != Exited && (after != Waiting || before.AtRest() || !in.machine.awaitsSchedule()) {
		return
	}
	if after == Waiting && in.machine.verdict == EndAgain {
		model.forgive()
		return // it was asked for
	}
	model.retrying = after == Failed && in.restartTimer != nil
	if before == Backoff {
		h.observeJudgement(in, model)
		return
	}
	p, ran := in.program, h.kernel.mains[model.last]
	if e := in.lastExit; ran != nil && e.Known && (e.Code != ran.exit.Code || e.signal != int(ran.exit.Signal)) {
		h.fail("%s ended with %v, superd says %v", in.name, ran.exit, *e)
	}
	if ran != nil && !in.lastExit.Known && !ran.foreign && !h.kernel.socketOf(ran.run).lost { // else it may not know which one is the main process
		h.fail("%s: superd does not know how its own child ended", in.name)
	}
	h.checkVerdict(in, model, ran, endedAt)
	if after == Waiting {
		model.forgive()
	}
	if after != Backoff && after != Waiting && in.restartTimer == nil {
		h.endedForGood(in, ran)
	}
	if after == Backoff {
		model.retries++
		want := min(float64(p.Backoff.Initial)*math.Pow(p.Backoff.Factor, float64(model.retries-1)), float64(p.Backoff.Max))
		got := float64(in.restartTimer.Due() - h.v.Now())
		// The clock may creep a little between the end and this look.
		if got > want*(1+p.Backoff.Jitter)+float64(time.Millisecond) || got < want-float64(50*time.Millisecond) {
			h.fail("%s: restart %d in %v, want %v", in.name, model.retries, time.Duration(got), time.Duration(want))
		}
	}
}

// observeJudgement holds that an instance whose policy was changed while it waited for its next start is in the state in which an
// end by that policy would have left it.
func (h *history) observeJudgement(in *instance, model *model) {
	if model.last == "" { // superd was killed since
		if model.status = in.exitStatus(); in.endedForGood() {
			h.decides(in, model)
		}
		return
	}
	p, ran := in.program, h.kernel.mains[model.last]
	success := h.succeeded(in, model, ran)
	switch {
	case in.machine.state == Exited:
		h.expect(in, success && p.Restart != config.RestartAlways, "in back-off")
	case in.machine.state == Failed:
		h.expect(in, !success && p.Restart == config.RestartNever, "in back-off")
	case in.machine.state == Waiting:
		h.expect(in, p.Scheduled() && (success || p.Restart == config.RestartNever), "in back-off")
		model.forgive()
		return
	}
	if in.restartTimer == nil {
		h.endedForGood(in, ran)
	}
}

// belongs reports whether the instance is one that its program is to have.
func (h *history) belongs(in *instance) bool {
	p := h.sup.config.Program(in.program.Name)
	return p != nil && slices.Contains(h.instanceNames(p), in.name)
}

// checkVerdict holds what state follows an end, by the restart policy alone. ran is the main process; nil if the start failed.
func (h *history) checkVerdict(in *instance, model *model, ran *simProcess, endedAt time.Duration) {
	p, got, retry := in.program, in.machine.state, in.restartTimer != nil
	success, unsure := h.succeeded(in, model, ran), model.unsure
	model.unsure = false
	switch {
	case model.anew == model.last: // it is not judged any more; that its program has a schedule by now means that it waits for that
		h.expect(in, got == Waiting && p.Scheduled(), "started anew")
	case ran == nil && h.kernel.shortages[model.last]: // tried again whatever the policy
		h.expect(in, got == Backoff, "in back-off")
	case p.Scheduled() && (success || p.Restart == config.RestartNever):
		h.expect(in, got == Waiting && !retry, "waiting for the next time")
	case success && p.Restart != config.RestartAlways:
		h.expect(in, got == Exited && !retry, "exited after success")
	case success:
		h.expect(in, got == Backoff, "in back-off")
		if unsure { // a reload has changed what success is
			model.failures = slices.Clone(in.machine.failures)
		}
	case p.Restart == config.RestartNever:
		h.expect(in, got == Failed && !retry, "failed for good")
	default:
		surely, perhaps := model.overLimit(p.StartLimit, endedAt)
		if unsure {
			surely, perhaps = false, true
			model.failures = slices.Clone(in.machine.failures)
		}
		gaveUp := got == Failed && retry == (p.StartLimit.RetryAfter > 0)
		if p.Scheduled() {
			gaveUp = got == Waiting && !retry
		}
		switch {
		case surely:
			h.expect(in, gaveUp, "given up")
		case perhaps:
			h.expect(in, gaveUp || got == Backoff, "in back-off, or given up")
		default:
			h.expect(in, got == Backoff, "in back-off, below its limit")
		}
		if got == Failed {
			model.gaveUp, model.failures = true, nil
		}
	}
}

func (h *history) expect(in *instance, ok bool, what string) {
	if !ok {
		h.fail("%s is %s, retry pending: %v, want it %s: restart %v, limit %d: %s",
			in.name, in.machine.state, in.restartTimer != nil, what, in.program.Restart, in.program.StartLimit.Failures, in.reason())
	}
}

// succeeded reports whether the last run has ended well. ran is its main process; nil if the start failed.
func (h *history) succeeded(in *instance, model *model, ran *simProcess) bool {
	return ran != nil && in.lastExit.Known && !model.amiss && ran.exit.Signal == 0 && slices.Contains(in.program.SuccessExitCodes, ran.exit.Code)
}

// overLimit notes a failure and reports whether it reaches the start limit. At the edge of the window it is not sure: the clock creeps.
func (m *model) overLimit(limit config.StartLimit, at time.Duration) (surely, perhaps bool) {
	if limit.Failures == 0 {
		return false, false
	}
	const edge = 10 * time.Millisecond
	m.failures = append(m.failures, at)
	certain, possible := 0, 0
	for _, failed := range m.failures {
		if at-failed < limit.Within-edge {
			certain++
		}
		if at-failed < limit.Within+edge {
			possible++
		}
	}
	return m.gaveUp || certain >= limit.Failures, m.gaveUp || possible >= limit.Failures
}

func (m *model) renewed(in *instance) model {
	return model{wantUp: m.wantUp, since: m.since, in: in}
}

// checkRest holds what must be true when the faults have ceased long ago.
func (h *history) checkRest() {
	for _, in := range h.sup.instances {
		if in.isOneShot() && in.machine.state == Running || in.machine.state == Waiting && in.level() == coming {
			h.pending -= len(in.waiters) // it, or what it waits for, runs for ever here
		}
	}
	if h.pending > 0 {
		h.fail("%d commands never came to an end", h.pending)
	}
	if begun := h.sup.shutdown != nil; begun != h.ended {
		h.fail("shutdown: begun %v, complete %v", begun, h.ended)
	}
	for _, p := range h.sup.config.Programs {
		for _, name := range h.instanceNames(p) {
			if h.sup.byName[name] == nil && h.sup.shutdown == nil {
				h.fail("%s is not there", name)
			}
		}
	}
	mains, living := 0, 0
	for _, p := range h.kernel.byPid {
		if !p.zombie {
			living++
		}
	}
	for _, in := range h.sup.instances {
		m, p := &in.machine, in.program
		if table := h.sup.config.Program(p.Name); table != nil {
			p = table // what the configuration says, whatever the instance goes by
		}
		main, others := h.kernel.living(in.name)
		mains += main
		if table := h.sup.config.Program(p.Name); in.run != nil && table != nil && h.kernel.tables[in.run.invocationID] != nil {
			// A run of what has a schedule by now goes on; the next one is by the new table.
			if c := config.CompareProgram(h.kernel.tables[in.run.invocationID], table); c.Restarts() && !table.Scheduled() {
				h.fail("%s runs by an older table: %v", in.name, c.Keys)
			}
		}
		limited := p.StartLimit.Failures > 0 && p.StartLimit.RetryAfter == 0
		switch {
		case in.removed:
			h.fail("%s was removed and is still there: %s", in.name, m.state)
		case h.sup.shutdown == nil && !h.belongs(in): // a shutdown under way goes on, and nothing of a reload does
			h.fail("%s is there, which its program is not to have", in.name)
		case !m.wanted.up && (main > 0 || !m.state.AtRest()):
			h.fail("%s is to be down: %s with %d processes", in.name, m.state, main)
		case !m.wanted.up && others > 0 && !h.kernel.spares(in.name):
			h.fail("%s is to be down: %d processes are left", in.name, others)
		case !m.wanted.up:
		case m.state == Waiting && h.rightlyWaits(in):
		case m.state == Running && main == 1:
		case p.Scheduled() && in.awaitsSchedule():
		case m.state == Exited && p.Restart != config.RestartAlways:
		case m.state == Failed && (p.Restart == config.RestartNever || limited):
		default:
			h.fail("%s is to be up: %s with %d processes, reason %q", in.name, m.state, main, in.reason())
		}
	}
	if zombies := h.kernel.zombies; len(zombies) > 0 {
		h.fail("%d zombies are left, the first is %d of %q, in role %d, ended %v ago", len(zombies), zombies[0].pid, zombies[0].instance, zombies[0].role, h.v.Now()-h.kernel.endedAt[zombies[0].pid])
	}
	if k := h.kernel; k.spawned != k.reaped+living {
		h.fail("%d processes were born, %d reaped, %d live", k.spawned, k.reaped, living)
	}
	checks := 0
	for _, in := range h.sup.instances {
		if in.probing() && in.site.check != nil && in.site.check.process != nil {
			checks++
		}
	}
	if fds, want := h.v.OpenFDs(), mains+len(h.kernel.told)+checks; fds != want {
		h.fail("%d descriptors are open, of %d main processes and %d that they tell superd by", fds, mains, len(h.kernel.told))
	}
}
