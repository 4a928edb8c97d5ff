package procs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
)

var rules = fsm.Rules()

// A machine decides the life of one instance. It does no I/O: each method handles one occurrence
// and returns the effects to perform. So production and simulation run the same code.
type machine struct {
	program *config.Program // definition with the restart policy; a reload replaces it
	rng     *rand.Rand      // draws the jitter

	node    *node // other programs
	desired fsm.Target
	// Desired state before the shutdown; nil without a shutdown
	desiredBeforeShutdown *fsm.Target
	// Why superd ends the current run as a failure; none otherwise
	failureReason fsm.Reason

	// Consecutive restarts without a stable run: the exponent of the backoff
	restartAttempts int
	failures        []time.Duration // times of failures within the window of the start limit
	restarts        int             // automatic restarts since the operator's last start
	delay           time.Duration   // until RestartDue, for ArmRestart

	startReason fsm.Reason // why the current or next run starts
	exitReason  fsm.Reason // how the last run ended
	stateReason fsm.Reason // why the state is what it is

	state fsm.State
	// Outcome of the run, applied after the teardown unless the desired state has changed by then
	outcome fsm.Event
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
	return machine{program: program, rng: rng, stateReason: fsm.Reason{Kind: fsm.ReasonNotStarted}}
}

// setDesired records the desired state and its actor. The first shutdown request saves the target
// before it; a request by any other actor clears that.
func (m *machine) setDesired(up bool, by fsm.Actor) {
	if by.Kind != fsm.ActorShutdown {
		m.desiredBeforeShutdown = nil
	} else if m.desired.By.Kind != fsm.ActorShutdown {
		m.desiredBeforeShutdown = new(m.desired)
	}
	m.desired = fsm.Target{Up: up, By: by}
}

// step applies e by the table and returns the effects. It panics if the table has no rule for e in
// this state: that is a bug.
func (m *machine) step(e fsm.Event) []fsm.Effect {
	r := rules[m.state][e]
	if r == nil {
		panic(fmt.Sprintf("step machine of %s: no rule for %s in %s", m.program.Name, e, m.state.Name()))
	}
	m.state = r.Next
	if slices.Contains(r.Effects, fsm.Spawn) {
		m.restartPending = false
	}
	if slices.Contains(r.Effects, fsm.EndRun) {
		m.outdated = false
	}
	return r.Effects
}

// startedBy returns the reason of a run that an actor requested.
func startedBy(by fsm.Actor) fsm.Reason { return fsm.ReasonStarted.With(by.String()) }

// wantUp requests a start. A start by the operator clears every limit and counter.
func (m *machine) wantUp(by fsm.Actor, operator bool) []fsm.Effect {
	m.setDesired(true, by)
	if operator {
		m.resetFailed()
		m.runPending = true
	}
	switch m.state {
	case fsm.Starting, fsm.Running:
	case fsm.StopPending:
		if m.mustEnd() {
			return m.step(fsm.DeferStop)
		}
		return m.cancelStop()
	case fsm.Stopping, fsm.Killing, fsm.TearingDown:
		m.outcome, m.failureReason = fsm.RunEndedRestart, fsm.Reason{}
		m.startReason = startedBy(by)
		m.stateReason = fsm.ReasonStoppingToStart.With(by.String())
	default:
		m.startReason = startedBy(by)
		m.stateReason = m.startReason
	}
	return m.step(m.unlessOrdered(fsm.WantUp))
}

// unlessBlocked returns e, which starts a run, or Wait if the start is blocked.
func (m *machine) unlessBlocked(e fsm.Event) fsm.Event {
	if m.startBlocked() && rules[m.state][fsm.Wait] != nil {
		return fsm.Wait
	}
	return e
}

// unlessOrdered is unlessBlocked for a requested start. A program with orderings always waits for
// the end of the turn's other work: the same request may start the programs that it is ordered
// after, and only then is it known which of them it waits for.
func (m *machine) unlessOrdered(e fsm.Event) fsm.Event {
	if m.node.Ordered() && rules[m.state][fsm.Wait] != nil {
		return fsm.Wait
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
	return !m.desired.Up || m.restartPending || m.outdated || m.node.Lost()
}

// unblocked starts a run that is not blocked any more. If the instance waited for its dependents to
// be down, other blockers may remain.
func (m *machine) unblocked() []fsm.Effect {
	m.restartPending = false
	m.stateReason = m.startReason
	return m.step(m.unlessBlocked(fsm.WantUp))
}

// requirementLost ends the run since a requirement is lost. The instance stays wanted up. cause is
// the reason of the stop, why the reason of the next start.
func (m *machine) requirementLost(cause, why fsm.Reason) []fsm.Effect {
	m.stateReason, m.startReason = cause, why
	return m.end(fsm.Restart)
}

// end begins the end of a run by e, WantDown or Restart. A ready run with dependents first waits
// until they are down. A run that is not ready does not wait: live dependents belong to the
// previous run.
func (m *machine) end(e fsm.Event) []fsm.Effect {
	if m.state == fsm.StopPending || m.state == fsm.Running && m.node.HasDependents() {
		return m.step(fsm.DeferStop)
	}
	return m.step(e)
}

// cancelStop cancels a pending stop: the run continues.
func (m *machine) cancelStop() []fsm.Effect {
	m.stateReason = fsm.Reason{Kind: fsm.ReasonStopCancelled}
	return m.step(fsm.WantUp)
}

// stopNow begins a pending stop, as the dependents are down.
func (m *machine) stopNow() []fsm.Effect {
	if m.desired.Up {
		return m.step(fsm.Restart)
	}
	return m.step(fsm.WantDown)
}

// wantRestart requests a restart: whatever the state, another run starts after this call. A restart
// by the operator resets all limits and counters.
func (m *machine) wantRestart(by fsm.Actor, operator bool) []fsm.Effect {
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
	case fsm.Starting, fsm.Running, fsm.StopPending, fsm.Stopping, fsm.Killing, fsm.TearingDown:
		m.stateReason = fsm.ReasonStoppingToRestart.With(by.String())
	case fsm.Spawning:
		m.stateReason = m.startReason
	default:
		// No run to end: only live dependents can delay the start
		m.restartPending = !m.node.DependentsDown()
		m.stateReason = m.startReason
	}
	return m.end(m.unlessOrdered(fsm.Restart))
}

// awaitsSchedule reports whether the next run starts only at the next time of the schedule.
func (m *machine) awaitsSchedule() bool { return m.program.Scheduled() && !m.runPending }

// scheduleDue starts the run for a due time of the schedule, for the reason why.
func (m *machine) scheduleDue(why fsm.Reason) []fsm.Effect {
	m.runPending, m.restartAttempts, m.failures, m.startLimitHit = true, 0, nil, false
	m.startReason, m.stateReason = why, why
	return m.step(m.unlessBlocked(fsm.WantUp))
}

// wantDown requests a stop.
func (m *machine) wantDown(by fsm.Actor) []fsm.Effect {
	m.setDesired(false, by)
	m.restartPending = false
	m.runPending = m.runPending && by.Kind == fsm.ActorShutdown // recovery may undo a shutdown
	switch {
	case m.state == fsm.Spawning || m.state.Lives() || m.state == fsm.TearingDown:
		m.stateReason = fsm.ReasonStopping.With(by.String())
	case m.exitReason.Kind != fsm.ReasonNone:
		m.stateReason = fsm.ReasonStopped.With(fmt.Sprintf("%s; before: %s", by, m.exitReason))
	default:
		m.stateReason = fsm.ReasonStopped.With(by.String())
	}
	return m.end(fsm.WantDown)
}

// resetFailed clears the start limit and all counters of failures and restarts.
func (m *machine) resetFailed() {
	m.restartAttempts, m.failures, m.startLimitHit, m.restarts = 0, nil, false, 0
}

// spawned handles the start of the main process. ready reports whether the start makes it ready.
func (m *machine) spawned(ready bool) []fsm.Effect {
	if m.mustEnd() {
		return m.step(fsm.SpawnedOutdated)
	}
	m.stateReason = m.startReason
	if !ready {
		return m.step(fsm.SpawnedUnready)
	}
	return m.step(fsm.Spawned)
}

// ready handles the readiness of the main process. after is the time since its start.
func (m *machine) ready(after time.Duration) []fsm.Effect {
	m.stateReason = m.startReason.And("; ready after " + durationText(roundDuration(after)))
	return m.step(fsm.Ready)
}

// failRun ends a run as failed for the given reason. e is StartTimeout, HealthFailed or
// WatchdogTimeout.
func (m *machine) failRun(e fsm.Event, reason fsm.Reason) []fsm.Effect {
	m.failureReason, m.stateReason = reason, reason
	return m.step(e)
}

// spawnFailed handles a failed start at now (monotonic). leftovers reports whether a teardown is
// needed after hooks.
func (m *machine) spawnFailed(
	now time.Duration, reason fsm.Reason, fault host.Fault, leftovers bool,
) []fsm.Effect {
	m.exitReason, m.stateReason, m.notStarted, m.resourceShortage = reason, reason, true, fault == host.FaultResource
	switch {
	case m.mustEnd():
		m.outcome = fsm.RunEndedRestart // the run is not wanted any more, so the failure does not count
	case fault == host.FaultResource:
		m.outcome = m.retry()
	case fault == host.FaultFinal || m.program.Restart == config.RestartNever:
		m.outcome = fsm.RunEndedFinal
	case m.overLimit(now):
		m.outcome = m.hitStartLimit()
	default:
		m.outcome = m.retry()
	}
	return m.endRun(leftovers)
}

// interrupted handles a start that the end of the previous superd interrupted before the main
// process existed. leftovers is as for spawnFailed.
func (m *machine) interrupted(leftovers bool) []fsm.Effect {
	m.exitReason = fsm.Reason{Kind: fsm.ReasonStartInterrupted}
	m.outcome, m.notStarted, m.resourceShortage = fsm.RunEndedRestart, true, false
	m.stateReason, m.startReason = m.exitReason, fsm.ReasonRestarted.With(m.exitReason.String())
	return m.endRun(leftovers)
}

// spawnCanceled handles a cancelled start. leftovers is as for spawnFailed.
func (m *machine) spawnCanceled(leftovers bool) []fsm.Effect {
	m.exitReason, m.outcome = fsm.Reason{Kind: fsm.ReasonStartCancelled}, fsm.RunEndedRestart
	return m.endRun(leftovers)
}

// exitReason returns the reason for an exit of a main process: "exit status 3".
func exitReason(exit pidfd.Exit) fsm.Reason {
	kind := fsm.ReasonExited
	switch {
	case !exit.Known:
		kind = fsm.ReasonExitUnknown
	case exit.Signal != 0:
		kind = fsm.ReasonKilledBySignal
	}
	return kind.With(exit.String())
}

// exited handles the exit of the main process at now (monotonic). ran is its run time, and stable
// how long it was ready, 0 if it never was. note is what else is known about the exit. leftovers
// reports whether a teardown is needed.
func (m *machine) exited(
	now time.Duration, exit pidfd.Exit, ran, stable time.Duration, note fsm.Reason, leftovers bool,
) []fsm.Effect {
	m.exitReason = exitReason(exit).And(" after " + durationText(roundDuration(ran)))
	m.notStarted, m.resourceShortage = false, false
	m.failed = m.state == fsm.Starting || m.failureReason.Kind != fsm.ReasonNone
	if note.Kind != fsm.ReasonNone {
		m.exitReason = m.exitReason.And(", " + note.String())
	}
	if note.Kind == fsm.ReasonOutOfMemory {
		m.exitReason.Kind = note.Kind
	}
	if stable >= m.program.Backoff.ResetAfter {
		m.restartAttempts, m.startLimitHit = 0, false
	}
	m.outcome = fsm.RunEndedRestart // a requested end: tornDown checks the desired state
	switch m.state {
	case fsm.Starting:
		if m.exitReason = m.exitReason.And(", before it was ready"); m.exitReason.Kind != fsm.ReasonOutOfMemory {
			m.exitReason.Kind = fsm.ReasonExitedBeforeReady
		}
		m.stateReason = m.exitReason
		m.outcome = m.afterFailure(now)
	case fsm.Running:
		m.stateReason = m.exitReason
		m.outcome = m.restartDecision(now, exit)
	case fsm.StopPending:
	case fsm.Killing:
		m.exitReason = fsm.ReasonStopTimeout.With(
			fmt.Sprintf("killed after stop_timeout %s (%s)", m.program.StopTimeout, m.exitReason))
	default:
		m.exitReason = fsm.ReasonStopSignal.With(fmt.Sprintf("ended by the stop signal (%s)", m.exitReason))
	}
	if m.failureReason.Kind != fsm.ReasonNone {
		m.exitReason = m.failureReason.And("; " + m.exitReason.String())
		// The failure of a run that must end anyway does not count
		if m.failureReason = (fsm.Reason{}); !m.mustEnd() {
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
	m.exitReason = fsm.ReasonWentToBackground.With(m.exitReason.String() + hint)
	if m.stateReason.Kind == was {
		m.stateReason = fsm.ReasonWentToBackground.With(m.stateReason.String() + hint)
	} else { // such as a start limit: that says more
		m.stateReason = m.stateReason.And(hint)
	}
}

// endRun ends the run, after a teardown if leftovers is set.
func (m *machine) endRun(leftovers bool) []fsm.Effect {
	if leftovers {
		return m.step(fsm.MainExited)
	}
	return m.tornDown()
}

// tornDown ends the run after the teardown.
func (m *machine) tornDown() []fsm.Effect {
	switch {
	case !m.desired.Up:
		m.stateReason = fsm.ReasonStopped.With(fmt.Sprintf("%s: %s", m.desired.By, m.exitReason))
		return m.step(fsm.RunEndedDown)
	case m.program.Scheduled() && (!m.runPending || !m.restartPending && m.outcome != fsm.RunEndedRetry && m.outcome != fsm.RunEndedRestart):
		return m.awaitNextTime()
	case m.restartPending || m.outcome == fsm.RunEndedRestart:
		if m.startBlocked() {
			return m.step(fsm.RunEndedWait)
		}
		m.stateReason = m.startReason
		return m.step(fsm.RunEndedRestart)
	}
	if m.outcome == fsm.RunEndedRetry {
		m.restartAttempts++
		m.delay = restartDelay(m.program.Backoff, m.restartAttempts, m.rng)
	}
	return m.step(m.outcome)
}

// stopTimeout handles the end of the stop time-out: SIGKILL follows.
func (m *machine) stopTimeout() []fsm.Effect {
	m.stateReason = fsm.ReasonKillSent.With(
		m.stateReason.String() + ": still alive after stop_timeout, SIGKILL sent")
	return m.step(fsm.StopTimeout)
}

// killTimeout handles a main process that survived SIGKILL.
func (m *machine) killTimeout() []fsm.Effect { return m.step(fsm.KillTimeout) }

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

// explainRun sets the actor and the reasons of a recovered run if its records lack them: only the
// start record may be left, or it is newer than the instance's record.
func (m *machine) explainRun() {
	if m.desired.By.Kind == fsm.ActorNone {
		m.desired.By = fsm.By(fsm.ActorOther)
	}
	if m.startReason.Kind == fsm.ReasonNone {
		m.startReason = startedBy(m.desired.By)
	}
	switch k := m.stateReason.Kind; {
	case k != fsm.ReasonNone && k != fsm.ReasonNotStarted:
	case m.desired.Up:
		m.stateReason = m.startReason
	default:
		m.stateReason = fsm.ReasonStopping.With(m.desired.By.String())
	}
}
