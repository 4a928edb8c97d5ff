package procs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance"
	"superd/procs/instance/teardown"
)

// A model is what an observer without knowledge of the state machine expects of an instance.
type model struct {
	wantUp bool
	since  time.Duration // time of the last change of wantUp

	in       instanceView // observed instance; another one resets the model
	state    fsm.State    // state after the turn before
	stateAt  time.Duration
	run      instance.RunView
	endedRun instance.RunView // last run whose end was observed
	lastRun  string           // invocation id of the last run; empty: unknown
	// Invocation id of a run that must be followed by another one, whatever its outcome
	outdatedRun string
	// Whether the operator requested that restart, so that a stop cancels it
	restartRequested bool
	// Consecutive restarts without a stable run or a command of the operator
	retries int
	// Failures since the operator's last command or the last start limit hit
	failures      []time.Duration
	startLimitHit bool // the start limit was hit since then, and no run was stable since
	graph         graphModel
	retrying      bool // whether a slow retry is pending
	exitStatus    int  // Superd's exit status if the last run decides it

	outcomeUncertain bool // whether the run in teardown may count as a failure
	// Whether it was reported unkillable, or waited for a spawn that is too late to cancel
	excused         bool
	excusedAt       time.Duration      // when excused was last true
	reportJustified bool               // whether a report as unkillable, if any, is true
	justifiedAt     time.Duration      // when reportJustified was last true
	killing         *teardown.Teardown // teardown that has reached SIGKILL
	killAt          time.Duration      // when the teardown began SIGKILL
	hook            instance.HookView  // hook under way
	hookAt          int
	hookDue         time.Duration // of its last hook
	hookBegan       time.Duration // when the current hook began
	runFailed       bool          // whether superd itself ends the run
	unknownMain     bool          // only a start record tells of its main process
	// Whether the last run failed, whatever its exit status: superd ended it, or it never became
	// ready
	failed        bool
	endedBySuperd bool   // whether superd ended the last run because of a failure
	sandboxRun    string // run of which superd has shown what its sandbox lacks

	schedule scheduleModel
}

func (m *model) resetFailed() { m.retries, m.failures, m.startLimitHit = 0, nil, false }

// check checks the invariants that hold at each turn.
func (h *history) check() {
	h.now = h.v.Now()
	h.observeShutdown()
	h.graph.refresh(h)
	h.graph.checked = true
	for i, in := range h.graph.instances {
		if i == len(h.observed) {
			h.observed = append(h.observed, observedInstance{})
		}
		w := &h.observed[i]
		if w.in != in {
			m := h.models[in.name()]
			if h.rolling.drawn {
				h.wasExtra(in.name())
			}
			if m == nil || m.in != in && inspect(h.sup).isExtra(in.name()) && !in.leaves() {
				h.want(in.name(), in.target().Up) // a roll has created it
			}
			*w = observedInstance{in: in, model: h.models[in.name()], processes: h.kernel.CountOf(in.name())}
		}
		if w.graph != h.graph.number {
			w.graph = h.graph.number
			w.requires, w.after = h.dependencies(in)
		}
		w.state, w.target, w.run, w.unkillable = in.state(), in.target(), in.Run(), in.unkillable() != ""
		h.observeExcuse(in, w)
		h.checkState(in, w)
		h.checkGraph(in, w)
		h.observe(in, w.model)
		h.checkSchedule(in, w)
		if w.run.Exists() {
			h.checkHook(in, w.model)
			if h.drawsOutput {
				h.checkLogOptions(in, w.run)
			}
		}
		if h.files.drawn {
			h.checkFiles(in)
		}
		if h.drawsStops {
			h.checkSpared(in, w)
			h.checkSandbox(in, w)
		}
		if w.run.Exists() || w.unkillable || !w.model.reportJustified {
			h.checkUnkillable(in, w.model)
		}
		h.checkWaiters(in)
	}
	h.graph.checked = false
	h.checkConnections()
	h.checkExecutions()
	h.checkOrphans()
	h.checkPolicy()
	h.observeRolls()
	h.journal.check()
}

// An observedInstance is an instance with its model and counts, cached to save look-ups in each
// turn.
type observedInstance struct {
	in        instanceView
	model     *model
	processes *hosttest.ProcessCount

	// At the end of this turn:
	state      fsm.State
	target     fsm.Target
	run        instance.RunView
	unkillable bool

	graph           int // number of the graph from which the two below come
	requires, after [][]instanceView
}

func (h *history) checkState(in instanceView, w *observedInstance) {
	h.checkMain(in)
	main, others := w.processes.Main, w.processes.Others
	switch w.state {
	case fsm.Starting, fsm.Running, fsm.StopPending, fsm.Stopping, fsm.Killing:
		if !w.run.HasProcess() {
			h.fail("%s is %s without a process", in.name(), w.state)
		}
	case fsm.Spawning, fsm.TearingDown:
		if !w.run.Exists() {
			h.fail("%s is %s without a run", in.name(), w.state)
		} else {
			h.checkHung(in.name(), w.run, w.unkillable)
		}
	default:
		if w.run.Exists() || main > 0 {
			h.fail("%s is %s with a run", in.name(), w.state)
		}
		if others > 0 && !h.kernel.Spares(in.name()) {
			h.fail("%s is %s while %d of its processes are alive", in.name(), w.state, others)
		}
	}
	if (w.state == fsm.Backoff) != in.RetryPending() && w.state != fsm.Failed {
		h.fail("%s is %s, restart pending: %v", in.name(), w.state, in.RetryPending())
	}
	if in.leaves() {
		return
	}
	if w.state == fsm.Failed {
		h.checkSlowRetry(in)
	}
	model := w.model
	if w.target.Up != model.wantUp && !in.awaitsStop() {
		if h.listens.drawn {
			h.allowConnection(in, w.target)
		}
		if w.target.Up {
			h.allowStartForDependent(in)
		}
		if w.target.Up != model.wantUp {
			h.fail("%s: wanted up = %v, want %v", in.name(), w.target.Up, model.wantUp)
		}
	}
	if !w.target.Up && !w.state.AtRest() {
		h.checkBound(in, w)
	}
}

// checkSlowRetry checks that a failed instance is retried exactly if the active configuration says
// so.
func (h *history) checkSlowRetry(in instanceView) {
	limit := in.program().StartLimit
	slowly := in.program().Restart != config.RestartNever && limit.Failures > 0 && limit.RetryAfter > 0
	finally := in.program().Restart == config.RestartNever || limit.Failures > 0 && limit.RetryAfter == 0 ||
		h.mayPrevent(in)
	if retry := in.RetryPending(); retry && !slowly || !retry && !finally {
		h.fail("%s is failed, retry pending: %v: restart %v, %+v: %s", in.name(), retry, in.program().Restart, limit, in.reason())
	}
}

const (
	margin     = 5 * time.Second  // for what takes little time
	maxTimeout = 30 * time.Second // longest start time-out
)

// checkBound checks that a stop under way ends in bounded time: hooks, stop time-out, teardown,
// hooks again. If a process is unkillable, the bound applies to the report of that.
func (h *history) checkBound(in instanceView, w *observedInstance) {
	model := w.model
	stop := max(in.program().StopTimeout, in.program().DrainTimeout)
	bound := time.Duration(0)
	if r := w.run; r.Exists() {
		stop = max(stop, r.Program().StopTimeout, r.Program().DrainTimeout)
		hooks := len(r.Program().PostStop)
		if r.Hook().Exists() {
			hooks = max(hooks, 1) // of a definition that was never written
			model.hookDue = max(model.hookDue, r.Hook().Due())
		}
		// Hooks may have begun with another time-out
		bound = min(max(model.hookDue-max(model.since, model.excusedAt), 0), maxTimeout)
		bound += time.Duration(hooks)*(r.Program().StartTimeout+host.KillPause+margin) + h.kernel.Mix.SlowSpawn + stop + host.KillPause
	}
	bound += stop + host.KillPause + margin
	if since := h.now - max(model.since, model.excusedAt, h.reloadedAt); since > bound {
		h.fail("%s should be down for %v and is still %s", in.name(), since, w.state.Name())
	}
}

// observeExcuse records whether the instance waits for something that superd has reported, which
// excuses a delay.
func (h *history) observeExcuse(in instanceView, w *observedInstance) {
	model := w.model
	if model.graph.turnsKillable++; w.unkillable {
		model.graph.turnsKillable = 0
	}
	// A pending stop waits for other instances to end, each in bounded time.
	excused := w.unkillable || h.outlivesStop(w) || w.state == fsm.StopPending || w.run.Exists() && h.forking(w.run) || h.checkForking(in)
	if excused || model.excused {
		model.excusedAt = h.now
	}
	model.excused = excused
}

// orphanReapTimeout is much longer than an unknown zombie waits to be reaped: it waits for its
// turn, and for the results of spawns whose children have ended.
const orphanReapTimeout = 30 * time.Second

// checkOrphans checks that zombies are reaped: unknown ones, and those that superd has started.
func (h *history) checkOrphans() {
	if len(h.kernel.Zombies()) == 0 {
		return
	}
	for _, z := range h.kernel.Zombies() {
		if since := h.now - z.EndedAt; z.Role.Spawned() && z.Known() && since > orphanReapTimeout {
			h.fail("%d of %s ended %v ago and is not reaped", z.Pid, z.Instance, since)
		}
	}
	// In the order of their ends: the first is the oldest.
	if z := h.kernel.Zombies()[0]; !z.Role.Spawned() && h.v.Now()-h.kernel.EndedAt(z.Pid) > orphanReapTimeout {
		h.fail("orphan %d ended %v ago and is not reaped", z.Pid, h.v.Now()-h.kernel.EndedAt(z.Pid))
	}
}

// checkHung checks what follows the start time-out of a spawn that is too late to cancel: a child
// that hangs before its exec is killed, and a spawn that hangs before its fork is reported.
func (h *history) checkHung(name string, r instance.RunView, reported bool) {
	s := h.committed(r)
	if s == nil || s.Hung == nil && !s.Stalled || s.Hung != nil && s.Hung.Dying {
		return
	}
	limit := r.Program().StartTimeout
	if r.Hook().Exists() {
		limit = r.Hook().Timeout()
	}
	// A reload may have lowered the time-out
	late := h.now - max(s.CommittedAt, h.reloadedAt) - limit - host.KillPause - margin
	switch since := h.now - s.CommittedAt; {
	case late > 0 && s.Hung != nil:
		h.fail("%s: %d hangs before its exec for %v and is not killed", name, s.Hung.Pid, since)
	case late > host.KillPause && s.Hung == nil && !reported:
		h.fail("%s hangs before its fork for %v and is not reported", name, since)
	}
}

// forking reports whether the run waits for a spawn that is too late to cancel, within the time
// allowed for that.
func (h *history) forking(r instance.RunView) bool {
	s := h.committed(r)
	return s != nil && h.now-s.CommittedAt <= r.Program().StartTimeout+host.KillPause+margin
}

// checkForking is forking for an exec check.
func (h *history) checkForking(in instanceView) bool {
	s, ok := in.probeSpawn().(*hosttest.PendingSpawn)
	return ok && s.Committed && h.now-s.CommittedAt <= 2*time.Second+host.KillPause+margin
}

// committed returns the spawn of the run that is too late to cancel; nil: none.
func (h *history) committed(r instance.RunView) *hosttest.PendingSpawn {
	if s, ok := r.Spawn().(*hosttest.PendingSpawn); ok && s.Committed {
		return s
	}
	return nil
}

// checkHook checks that a hook ends in bounded time, or is reported as unkillable.
func (h *history) checkHook(in instanceView, model *model) {
	hook := in.Run().Hook()
	if !hook.Exists() {
		model.hook = instance.HookView{}
		return
	}
	if hook != model.hook || hook.Number() != model.hookAt {
		model.hook, model.hookAt, model.hookBegan = hook, hook.Number(), h.now
	}
	from := max(model.hookBegan, model.excusedAt, h.reloadedAt)
	// A hook that an earlier superd started keeps its time-out
	if since := h.now - from; since > min(max(hook.Timeout(), hook.Due()-from), maxTimeout)+host.KillPause+margin {
		h.fail("%s runs a hook for %v, time-out %v", in.name(), since, hook.Timeout())
	}
}

// checkUnkillable checks that superd reports processes as unkillable if, and only if, they are.
func (h *history) checkUnkillable(in instanceView, model *model) {
	now := h.now
	justified := in.unkillable() == "" || in.Run().Exists() && h.committed(in.Run()) != nil ||
		in.probeSpawn() != nil || h.executes.starts(in.name())
	if !justified {
		for p := range h.kernel.Processes() {
			justified = justified || (p.Instance == in.name() || p.Instance == in.name()+host.ProbeSuffix) && p.Dying && !p.Zombie
		}
	}
	if justified || model.reportJustified {
		model.justifiedAt = now // superd learns of a change late
	}
	model.reportJustified = justified
	if now-model.justifiedAt > margin {
		h.fail("%s is reported as unkillable without such a process: %s", in.name(), in.unkillable())
	}
	teardown := in.Run().Teardown()
	if teardown == nil {
		return
	}
	living, killing := teardown.Living()
	if !killing {
		return
	}
	if model.killing != teardown {
		model.killing, model.killAt = teardown, now
	}
	for pid := range living {
		p := h.kernel.Process(pid)
		if p == nil || !p.Dying || p.Zombie || now-max(p.DyingAt, model.killAt) <= host.KillPause+margin {
			continue
		}
		if !strings.Contains(in.unkillable(), fmt.Sprintf("process %d ", pid)) {
			h.fail("%s: %d got SIGKILL %v ago, is alive and not reported: %q", in.name(), pid, now-p.DyingAt, in.unkillable())
		}
	}
}

// checkWaiters checks that each waiter is answered when its condition holds or can't hold any more.
func (h *history) checkWaiters(in instanceView) {
	if !in.hasWaiters() {
		return
	}
	for _, w := range in.waiters() {
		switch state := in.state(); {
		case in.leaves() && w.op != OpStop: // waits for the replacement
		case in.unkillable() != "":
			h.fail("%s is unkillable, and its %s is not answered: %s", in.name(), w.op, in.unkillable())
		// It waits for its dependents to be down
		case in.Machine().RestartPending() && state == fsm.Waiting && len(h.dependents(in)) > 0:
		// The stop may still come
		case w.dependent && state == fsm.Running && (in.answerPending() || in.MustEnd()):
		case state.AtRest(), state == fsm.Running && !in.isOneShot(), in.awaitsSchedule() && !in.answerPending() && !in.inConflict():
			h.fail("%s is %s, and its %s is not answered", in.name(), state, w.op)
		}
	}
}

// checkRest checks what must hold long after the last fault.
func (h *history) checkRest() {
	for in := range inspect(h.sup).instances() {
		if in.isOneShot() && in.state() == fsm.Running || in.state() == fsm.Waiting && in.isComing() || h.staysAlive(in) {
			h.pending -= len(in.waiters()) // these wait for an end that does not come here
		}
	}
	h.checkRollsAtRest()
	if h.pending > 0 {
		h.fail("%d commands were never answered", h.pending)
	}
	if begun := inspect(h.sup).shutdownBegun(); begun != h.ended && !(begun && h.anyInstance(h.staysAlive)) {
		h.fail("shutdown: begun %v, complete %v", begun, h.ended)
	}
	for _, p := range inspect(h.sup).config().Programs {
		for _, name := range h.instanceNames(p) {
			if !inspect(h.sup).instance(name).exists() && !inspect(h.sup).shutdownBegun() {
				h.fail("%s is missing", name)
			}
		}
	}
	mains, living := 0, 0
	for p := range h.kernel.Processes() {
		if !p.Zombie {
			living++
		}
	}
	for in := range inspect(h.sup).instances() {
		m, p := in.Machine(), in.program()
		if definition := inspect(h.sup).config().Program(p.Name); definition != nil {
			p = definition // of the active configuration
		}
		main, others := h.kernel.CountLiving(in.name())
		mains += main
		if definition := inspect(h.sup).config().Program(p.Name); in.Run().Exists() && definition != nil && h.kernel.Definition(in.Run().ID()) != nil && !h.staysAlive(in) {
			// A program with a schedule continues its run; the next run has the new
			// definition.
			if c := config.CompareProgram(h.kernel.Definition(in.Run().ID()), definition); c.Restarts() && !definition.Scheduled() && !h.rolling.failed[p.Name] && inspect(h.sup).rolls()[p.Name].Stage == "" {
				h.fail("%s runs with an older definition: %v", in.name(), c.Keys)
			}
		}
		limited := p.StartLimit.Failures > 0 && p.StartLimit.RetryAfter == 0
		switch {
		case h.staysAlive(in):
		case in.leaves():
			h.fail("%s was removed and still exists: %s", in.name(), m.State())
		// A shutdown ignores reloads
		case !inspect(h.sup).shutdownBegun() && !h.belongs(in) && !inspect(h.sup).isExtra(in.name()):
			h.fail("%s exists, beyond the replicas of its program", in.name())
		case !m.Desired().Up && (main > 0 || !m.State().AtRest()):
			h.fail("%s should be down: %s with %d processes", in.name(), m.State(), main)
		case !m.Desired().Up && others > 0 && !h.kernel.Spares(in.name()):
			h.fail("%s should be down: %d processes are left", in.name(), others)
		case !m.Desired().Up:
		case m.State() == fsm.Waiting && h.mayWait(in):
		case m.State() == fsm.Running && main == 1:
		case p.Scheduled() && in.awaitsSchedule():
		case m.State() == fsm.Exited && (!p.RestartsAfterSuccess() || h.mayPrevent(in)):
		case m.State() == fsm.Failed && (p.Restart == config.RestartNever || limited || h.mayPrevent(in)):
		default:
			h.fail("%s should be up: %s with %d processes, reason %q", in.name(), m.State(), main, in.reason())
		}
	}
	if zombies := h.kernel.Zombies(); len(zombies) > 0 {
		h.fail("%d zombies are left, the first is %d of %q, in role %d, ended %v ago", len(zombies), zombies[0].Pid, zombies[0].Instance, zombies[0].Role, h.v.Now()-h.kernel.EndedAt(zombies[0].Pid))
	}
	if k := h.kernel; k.Started() != k.Reaped()+living {
		h.fail("%d processes were started, %d reaped, %d are alive", k.Started(), k.Reaped(), living)
	}
	h.checkStore()
	h.checkListening()
	h.checkTmps()
	h.checkExits()
	checks, leftovers := 0, 0
	for in := range inspect(h.sup).instances() {
		if in.Probe().Busy && in.Probe().Process {
			checks++
		}
		if t := in.Run().Teardown(); t != nil && h.staysAlive(in) {
			living, _ := t.Living()
			for range living {
				leftovers++
			}
		}
	}
	if fds, want := h.v.OpenFDs(), mains+leftovers+h.kernel.NotifyFDs()+checks+len(h.kernel.Listening())+h.executes.known(); fds != want {
		h.fail("%d descriptors are open: %d main processes, %d for notifications", fds, mains, h.kernel.NotifyFDs())
	}
}

// belongs reports whether the configuration has the instance.
func (h *history) belongs(in instanceView) bool {
	p := inspect(h.sup).config().Program(in.program().Name)
	return p != nil && slices.Contains(h.instanceNames(p), in.name())
}
