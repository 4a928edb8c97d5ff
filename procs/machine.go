package procs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/host"
)

// A target is a desired state of an instance and the actor that set it.
type target struct {
	up bool
	by Actor
}

// A machine decides the life of one instance. It does no I/O: each method handles one occurrence
// and returns the effects to perform. So production and simulation run the same code.
type machine struct {
	program *config.Program // definition with the restart policy; a reload replaces it
	rng     *rand.Rand      // draws the jitter

	node    *node // other programs
	desired target
	// Desired state before the shutdown; nil without a shutdown
	desiredBeforeShutdown *target
	// Why superd ends the current run as a failure; none otherwise
	failureReason Reason

	// Consecutive restarts without a stable run: the exponent of the backoff
	restartAttempts int
	failures        []time.Duration // times of failures within the window of the start limit
	restarts        int             // automatic restarts since the operator's last start
	delay           time.Duration   // until RestartDue, for ArmRestart

	startReason Reason // why the current or next run starts
	exitReason  Reason // how the last run ended
	stateReason Reason // why the state is what it is

	state State
	// Outcome of the run, applied after the teardown unless the desired state has changed by then
	outcome Event
	// The current run uses a superseded definition and must end, whatever the desired state
	outdated          bool
	blockedByConflict bool // a conflicting instance must be removed before the start
	restartPending    bool // another run is requested after the current one
	// Of a program with a schedule: a run is due or under way, including its retries
	runPending    bool
	startLimitHit bool // the start limit was hit, and no run was stable since

	notStarted bool // the last run ended before its main process existed
	// The last run counts as failed whatever its exit status: it never became ready, or superd
	// ended it as a failure
	failed           bool
	resourceShortage bool // the last start failed in a resource shortage
}

// newMachine returns the machine of a new instance, without links to other programs.
func newMachine(program *config.Program, rng *rand.Rand) machine {
	return machine{program: program, rng: rng, stateReason: Reason{Kind: ReasonNotStarted}}
}

// setDesired records the desired state and its actor. The first shutdown request saves the target
// before it; a request by any other actor clears that.
func (m *machine) setDesired(up bool, by Actor) {
	if by.Kind != ActorShutdown {
		m.desiredBeforeShutdown = nil
	} else if m.desired.by.Kind != ActorShutdown {
		m.desiredBeforeShutdown = new(m.desired)
	}
	m.desired = target{up, by}
}

// step applies e by the table and returns the effects. It panics if the table has no rule for e in
// this state: that is a bug.
func (m *machine) step(e Event) []Effect {
	r := rules[m.state][e]
	if r == nil {
		panic(fmt.Sprintf("step machine of %s: no rule for %s in %s", m.program.Name, e, stateNames[m.state]))
	}
	m.state = r.next
	if slices.Contains(r.effects, Spawn) {
		m.restartPending = false
	}
	if slices.Contains(r.effects, EndRun) {
		m.outdated = false
	}
	return r.effects
}

// startedBy returns the reason of a run that an actor requested.
func startedBy(by Actor) Reason { return Reason{ReasonStarted, by.String()} }

// wantUp requests a start. A start by the operator clears every limit and counter.
func (m *machine) wantUp(by Actor, operator bool) []Effect {
	m.setDesired(true, by)
	if operator {
		m.resetFailed()
		m.runPending = true
	}
	switch m.state {
	case Starting, Running:
	case StopPending:
		if m.mustEnd() {
			return m.step(DeferStop)
		}
		return m.cancelStop()
	case Stopping, Killing, TearingDown:
		m.outcome, m.failureReason = RunEndedRestart, Reason{}
		m.startReason = startedBy(by)
		m.stateReason = Reason{ReasonStoppingToStart, by.String()}
	default:
		m.startReason = startedBy(by)
		m.stateReason = m.startReason
	}
	return m.step(m.unlessOrdered(WantUp))
}

// unlessBlocked returns e, which starts a run, or Wait if the start is blocked.
func (m *machine) unlessBlocked(e Event) Event {
	if m.startBlocked() && rules[m.state][Wait] != nil {
		return Wait
	}
	return e
}

// unlessOrdered is unlessBlocked for a requested start. A program with orderings always waits for
// the end of the turn's other work: the same request may start the programs that it is ordered
// after, and only then is it known which of them it waits for.
func (m *machine) unlessOrdered(e Event) Event {
	if m.node.Ordered() && rules[m.state][Wait] != nil {
		return Wait
	}
	return m.unlessBlocked(e)
}

// startBlocked reports whether a start has to wait: for a conflicting instance, for requirements
// and orderings, for the schedule or, if a restart is pending, for the dependents to be down.
func (m *machine) startBlocked() bool {
	return m.blockedByConflict || m.node.Waiting() || m.awaitsSchedule() || m.restartPending && !m.node.DependentsDown()
}

// mustEnd reports whether a current or coming run has to end.
func (m *machine) mustEnd() bool {
	return !m.desired.up || m.restartPending || m.outdated || m.node.Lost()
}

// unblocked starts a run that is not blocked any more. If the instance waited for its dependents to
// be down, other blockers may remain.
func (m *machine) unblocked() []Effect {
	m.restartPending = false
	m.stateReason = m.startReason
	return m.step(m.unlessBlocked(WantUp))
}

// requirementLost ends the run since a requirement is lost. The instance stays wanted up. cause is
// the reason of the stop, why the reason of the next start.
func (m *machine) requirementLost(cause, why Reason) []Effect {
	m.stateReason, m.startReason = cause, why
	return m.end(Restart)
}

// end begins the end of a run by e, WantDown or Restart. A ready run with dependents first waits
// until they are down. A run that is not ready does not wait: live dependents belong to the
// previous run.
func (m *machine) end(e Event) []Effect {
	if m.state == StopPending || m.state == Running && m.node.HasDependents() {
		return m.step(DeferStop)
	}
	return m.step(e)
}

// cancelStop cancels a pending stop: the run continues.
func (m *machine) cancelStop() []Effect {
	m.stateReason = Reason{Kind: ReasonStopCancelled}
	return m.step(WantUp)
}

// stopNow begins a pending stop, as the dependents are down.
func (m *machine) stopNow() []Effect {
	if m.desired.up {
		return m.step(Restart)
	}
	return m.step(WantDown)
}

// wantRestart requests a restart: whatever the state, another run starts after this call. A restart
// by the operator resets all limits and counters.
func (m *machine) wantRestart(by Actor, operator bool) []Effect {
	m.setDesired(true, by)
	m.restartPending = true
	m.startReason = startedBy(by)
	if operator {
		m.resetFailed()
		m.runPending = true
	} else { // a changed definition does not inherit the failures of the old one
		m.restartAttempts, m.failures, m.startLimitHit = 0, nil, false
	}
	switch m.state {
	case Starting, Running, StopPending, Stopping, Killing, TearingDown:
		m.stateReason = Reason{ReasonStoppingToRestart, by.String()}
	case Spawning:
		m.stateReason = m.startReason
	default:
		// No run to end: only live dependents can delay the start
		m.restartPending = !m.node.DependentsDown()
		m.stateReason = m.startReason
	}
	return m.end(m.unlessOrdered(Restart))
}

// awaitsSchedule reports whether the next run starts only at the next time of the schedule.
func (m *machine) awaitsSchedule() bool { return m.program.Scheduled() && !m.runPending }

// scheduleDue starts the run for a due time of the schedule, for the reason why.
func (m *machine) scheduleDue(why Reason) []Effect {
	m.runPending, m.restartAttempts, m.failures, m.startLimitHit = true, 0, nil, false
	m.startReason, m.stateReason = why, why
	return m.step(m.unlessBlocked(WantUp))
}

// wantDown requests a stop.
func (m *machine) wantDown(by Actor) []Effect {
	m.setDesired(false, by)
	m.restartPending = false
	m.runPending = m.runPending && by.Kind == ActorShutdown // recovery may undo a shutdown
	switch {
	case m.state == Spawning || m.state.lives() || m.state == TearingDown:
		m.stateReason = Reason{ReasonStopping, by.String()}
	case m.exitReason.Kind != ReasonNone:
		m.stateReason = Reason{ReasonStopped, fmt.Sprintf("%s; before: %s", by, m.exitReason)}
	default:
		m.stateReason = Reason{ReasonStopped, by.String()}
	}
	return m.end(WantDown)
}

// resetFailed clears the start limit and all counters of failures and restarts.
func (m *machine) resetFailed() {
	m.restartAttempts, m.failures, m.startLimitHit, m.restarts = 0, nil, false, 0
}

// spawned handles the start of the main process. ready reports whether the start makes it ready.
func (m *machine) spawned(ready bool) []Effect {
	if m.mustEnd() {
		return m.step(SpawnedOutdated)
	}
	m.stateReason = m.startReason
	if !ready {
		return m.step(SpawnedUnready)
	}
	return m.step(Spawned)
}

// ready handles the readiness of the main process. after is the time since its start.
func (m *machine) ready(after time.Duration) []Effect {
	m.stateReason = m.startReason.and("; ready after " + durationText(roundDuration(after)))
	return m.step(Ready)
}

// failRun ends a run as failed for the given reason. e is StartTimeout, HealthFailed or
// WatchdogTimeout.
func (m *machine) failRun(e Event, reason Reason) []Effect {
	m.failureReason, m.stateReason = reason, reason
	return m.step(e)
}

// spawnFailed handles a failed start at now (monotonic). leftovers reports whether a teardown is
// needed after hooks.
func (m *machine) spawnFailed(
	now time.Duration, reason Reason, fault host.Fault, leftovers bool,
) []Effect {
	m.exitReason, m.stateReason, m.notStarted, m.resourceShortage = reason, reason, true, fault == host.FaultResource
	switch {
	case m.mustEnd():
		m.outcome = RunEndedRestart // the run is not wanted any more, so the failure does not count
	case fault == host.FaultResource:
		m.outcome = m.retry()
	case fault == host.FaultFinal || m.program.Restart == config.RestartNever:
		m.outcome = RunEndedFinal
	case m.overLimit(now):
		m.outcome = m.hitStartLimit()
	default:
		m.outcome = m.retry()
	}
	return m.endRun(leftovers)
}

// interrupted handles a start that the end of the previous superd interrupted before the main
// process existed. leftovers is as for spawnFailed.
func (m *machine) interrupted(leftovers bool) []Effect {
	m.exitReason = Reason{Kind: ReasonStartInterrupted}
	m.outcome, m.notStarted, m.resourceShortage = RunEndedRestart, true, false
	m.stateReason, m.startReason = m.exitReason, Reason{ReasonRestarted, m.exitReason.String()}
	return m.endRun(leftovers)
}

// spawnCanceled handles a cancelled start. leftovers is as for spawnFailed.
func (m *machine) spawnCanceled(leftovers bool) []Effect {
	m.exitReason, m.outcome = Reason{Kind: ReasonStartCancelled}, RunEndedRestart
	return m.endRun(leftovers)
}

// exitReason returns the reason for an exit of a main process: "exit status 3".
func exitReason(exit pidfd.Exit) Reason {
	kind := ReasonExited
	switch {
	case !exit.Known:
		kind = ReasonExitUnknown
	case exit.Signal != 0:
		kind = ReasonKilledBySignal
	}
	return Reason{kind, exit.String()}
}

// exited handles the exit of the main process at now (monotonic). ran is its run time, and stable
// how long it was ready, 0 if it never was. note is what else is known about the exit. leftovers
// reports whether a teardown is needed.
func (m *machine) exited(
	now time.Duration, exit pidfd.Exit, ran, stable time.Duration, note Reason, leftovers bool,
) []Effect {
	m.exitReason = exitReason(exit).and(" after " + durationText(roundDuration(ran)))
	m.notStarted, m.resourceShortage = false, false
	m.failed = m.state == Starting || m.failureReason.Kind != ReasonNone
	if note.Kind != ReasonNone {
		m.exitReason = m.exitReason.and(", " + note.String())
	}
	if note.Kind == ReasonOutOfMemory {
		m.exitReason.Kind = note.Kind
	}
	if stable >= m.program.Backoff.ResetAfter {
		m.restartAttempts, m.startLimitHit = 0, false
	}
	m.outcome = RunEndedRestart // a requested end: tornDown checks the desired state
	switch m.state {
	case Starting:
		if m.exitReason = m.exitReason.and(", before it was ready"); m.exitReason.Kind != ReasonOutOfMemory {
			m.exitReason.Kind = ReasonExitedBeforeReady
		}
		m.stateReason = m.exitReason
		m.outcome = m.afterFailure(now)
	case Running:
		m.stateReason = m.exitReason
		m.outcome = m.restartDecision(now, exit)
	case StopPending:
	case Killing:
		m.exitReason = Reason{ReasonStopTimeout,
			fmt.Sprintf("killed after stop_timeout %s (%s)", m.program.StopTimeout, m.exitReason)}
	default:
		m.exitReason = Reason{ReasonStopSignal, fmt.Sprintf("ended by the stop signal (%s)", m.exitReason)}
	}
	if m.failureReason.Kind != ReasonNone {
		m.exitReason = m.failureReason.and("; " + m.exitReason.String())
		// The failure of a run that must end anyway does not count
		if m.failureReason = (Reason{}); !m.mustEnd() {
			m.stateReason = m.exitReason
			m.outcome = m.afterFailure(now)
		}
	}
	return m.endRun(leftovers)
}

// wentToBackground records that a main process exited with success early and left processes behind.
func (m *machine) wentToBackground() {
	const hint = `; it left processes behind: a program must stay in the foreground; look for an option such as -D, -F, --foreground or "daemonize no"`
	was := m.exitReason.Kind
	m.exitReason = Reason{ReasonWentToBackground, m.exitReason.String() + hint}
	if m.stateReason.Kind == was {
		m.stateReason = Reason{ReasonWentToBackground, m.stateReason.String() + hint}
	} else { // such as a start limit: that says more
		m.stateReason = m.stateReason.and(hint)
	}
}

// endRun ends the run, after a teardown if leftovers is set.
func (m *machine) endRun(leftovers bool) []Effect {
	if leftovers {
		return m.step(MainExited)
	}
	return m.tornDown()
}

// tornDown ends the run after the teardown.
func (m *machine) tornDown() []Effect {
	switch {
	case !m.desired.up:
		m.stateReason = Reason{ReasonStopped, fmt.Sprintf("%s: %s", m.desired.by, m.exitReason)}
		return m.step(RunEndedDown)
	case m.program.Scheduled() && (!m.runPending || !m.restartPending && m.outcome != RunEndedRetry && m.outcome != RunEndedRestart):
		return m.awaitNextTime()
	case m.restartPending || m.outcome == RunEndedRestart:
		if m.startBlocked() {
			return m.step(RunEndedWait)
		}
		m.stateReason = m.startReason
		return m.step(RunEndedRestart)
	}
	if m.outcome == RunEndedRetry {
		m.restartAttempts++
		m.delay = restartDelay(m.program.Backoff, m.restartAttempts, m.rng)
	}
	return m.step(m.outcome)
}

// stopTimeout handles the end of the stop time-out: SIGKILL follows.
func (m *machine) stopTimeout() []Effect {
	m.stateReason = Reason{ReasonKillSent,
		m.stateReason.String() + ": still alive after stop_timeout, SIGKILL sent"}
	return m.step(StopTimeout)
}

// killTimeout handles a main process that survived SIGKILL.
func (m *machine) killTimeout() []Effect { return m.step(KillTimeout) }

// roundDuration returns d with three digits or, from a minute on, in whole seconds.
func roundDuration(d time.Duration) time.Duration {
	if d >= time.Minute {
		return d.Round(time.Second)
	}
	digit := time.Duration(1)
	for d/digit >= 1000 {
		digit *= 10
	}
	return d.Round(digit)
}
