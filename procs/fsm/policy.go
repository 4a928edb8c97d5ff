package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"superd/config"
	"superd/internal/words"
)

// restartDecision returns the outcome of an exit that superd did not request.
func (m *Machine) restartDecision(end RunEnd) Event {
	success := end.Exit.Success(m.program.SuccessExitCodes)
	switch {
	case success && m.program.Restart != config.RestartAlways:
		return RunEndedDone
	case success:
		return m.retry()
	}
	return m.afterFailure(end.At)
}

// afterFailure returns the outcome of a run that failed at now.
func (m *Machine) afterFailure(now time.Duration) Event {
	switch {
	case m.program.Restart == config.RestartNever:
		m.stateReason = m.exitReason.And(`; restart = "never"`)
		return RunEndedFinal
	case m.overLimit(now):
		return m.hitStartLimit()
	}
	return m.retry()
}

// retry returns the outcome for another start after the backoff.
func (m *Machine) retry() Event {
	m.startReason = Reason{ReasonRestarted, m.exitReason.String()}
	return RunEndedRetry
}

// overLimit counts a failure at now and reports whether the start limit is reached.
func (m *Machine) overLimit(now time.Duration) bool {
	limit := m.program.StartLimit
	if limit.Failures == 0 {
		return false
	}
	m.failures = append(slices.DeleteFunc(m.failures, func(at time.Duration) bool { return now-at > limit.Within }), now)
	return m.startLimitHit || len(m.failures) >= limit.Failures
}

// hitStartLimit records that the start limit is reached and returns the outcome: final, or a slow
// retry.
func (m *Machine) hitStartLimit() Event {
	m.startLimitHit = true
	m.failures = nil
	m.startReason = Reason{Kind: ReasonSlowRetry}
	m.stateReason = Reason{ReasonStartLimit, m.exitReason.String() + "; " + m.limitText()}
	return m.retrySlowly()
}

// limitText returns the start limit as text: "start limit hit: 3 failures within 1m".
func (m *Machine) limitText() string {
	limit := m.program.StartLimit
	return fmt.Sprintf("start limit hit: %s within %s", words.Plural(limit.Failures, "failure"), words.Duration(limit.Within))
}

// retrySlowly sets the delay of the slow retry and returns the outcome: final where retry_after is
// 0.
func (m *Machine) retrySlowly() Event {
	m.delay = m.program.StartLimit.RetryAfter
	final := m.stateReason.Kind == ReasonStartLimitFinal
	switch {
	case m.delay != 0 && final:
		m.stateReason.Kind = ReasonStartLimit
	case m.delay == 0 && !final:
		m.stateReason = Reason{ReasonStartLimitFinal, m.stateReason.String()}
	}
	if m.delay == 0 {
		return RunEndedFinal
	}
	return RunEndedStartLimit
}

// resetFailed clears the start limit and all counters of failures and restarts.
func (m *Machine) resetFailed() {
	m.restartAttempts, m.failures, m.startLimitHit, m.restarts = 0, nil, false, 0
}

// RestartDue starts the next run when the delay has passed.
func (m *Machine) RestartDue(c Conditions) Transition {
	m.restarts++
	m.stateReason = m.startReason
	return m.step(m.unlessBlocked(RestartDue, c))
}

// awaitNextTime ends the run for a time of the schedule. Whatever its outcome, the next time is
// independent of it.
func (m *Machine) awaitNextTime() Transition {
	if m.outcome == RunEndedStartLimit || m.startLimitHit {
		m.exitReason = m.exitReason.And("; " + m.limitText())
	}
	m.clearPendingRun()
	return m.step(RunEndedWait)
}

// clearPendingRun cancels the pending run, and resets the counters of failures.
func (m *Machine) clearPendingRun() {
	m.runPending, m.restartPending, m.restartAttempts, m.failures, m.startLimitHit = false, false, 0, nil, false
}

// Unschedules reports whether a change removes the schedule of a one-shot.
func Unschedules(before, after *config.Program) bool {
	return before.Scheduled() && after.Schedule == "" && after.Type == config.TypeOneshot
}

// StartsByChange reports whether a changed definition starts a program that is not wanted up: it
// has autostart now, or a schedule again.
func (t Target) StartsByChange(before, after *config.Program) bool {
	return !t.Up && (after.Autostart && !before.Autostart && !t.By.Is(ActorOperator) ||
		after.Scheduled() && t.By.Is(ActorUnscheduled))
}

// AfterChange returns the target of an instance that takes the place of one with the target t, with
// a changed definition of its program.
func (t Target) AfterChange(before, after *config.Program) Target {
	switch {
	case t.Up && Unschedules(before, after):
		return Target{By: By(ActorUnscheduled)}
	case t.Up && len(before.Invalid) > 0 && !after.Autostart:
		return Target{By: By(ActorReload)}
	case t.StartsByChange(before, after):
		return Target{Up: true, By: By(ActorReload)}
	}
	return t
}

// Redefine replaces the program's definition. restarts reports whether a run uses the new one only
// after a restart. A run under way is outdated in that case. The caller then takes the step of
// [Machine.Reevaluate].
func (m *Machine) Redefine(program *config.Program, restarts bool) {
	m.runPending = m.runPending && m.program.Scheduled() // it has no meaning without a schedule
	m.outdated = m.outdated || restarts && m.state.HasRun()
	m.program = program
}

// A Change is a change of the definition that the machine has got by [Machine.Redefine].
type Change struct {
	Before   *config.Program // the definition before
	Restarts bool            // as for Redefine
	Exit     Exit            // of the last run; the zero value without one
}

// Reevaluate takes the step to which a changed definition leads, unless the instance is in
// quarantine. ok is false without one. A backoff goes on, by the new restart policy. What is to be
// down stays down. rng draws the jitter of a new delay.
//
// A transition by Disarm or RearmRestart leaves the state. After such a Disarm, a failed instance
// stays down.
func (m *Machine) Reevaluate(ch Change, c Conditions, rng *rand.Rand) (t Transition, ok bool) {
	before, p := ch.Before, m.program
	by := By(ActorReload)
	starts := m.desired.StartsByChange(before, p)
	// Only the next run uses the new definition
	goesOn := ch.Restarts && m.state.HasRun() && before.Scheduled() && p.Scheduled()
	switch {
	case m.desired.Up && m.state == Waiting && !m.runPending && Unschedules(before, p):
		return m.WantDown(By(ActorUnscheduled), c), true
	case starts && !ch.Restarts:
		return m.WantUp(by, false, c), true
	case !m.desired.Up && !starts:
		return Transition{}, false
	case !ch.Restarts || goesOn:
		return m.reevaluate(ch, c, rng)
	case len(before.Invalid) > 0 && !p.Autostart:
		return m.WantDown(by, c), true
	case m.state == Backoff:
		return m.reevaluate(ch, c, rng)
	}
	return m.WantRestart(by, false, c), true
}

// reevaluate makes the restart decision again, for an instance that is wanted up and whose run has
// ended.
func (m *Machine) reevaluate(ch Change, c Conditions, rng *rand.Rand) (t Transition, ok bool) {
	before, p := ch.Before, m.program
	success := !m.notStarted && !m.failed && ch.Exit.Success(p.SuccessExitCodes)
	start := func() (Transition, bool) { return m.WantUp(By(ActorReload), false, c), true }
	if before.Scheduled() != p.Scheduled() {
		if m.state == Waiting || m.state == Exited || m.state == Failed {
			return start() // or wait for the new schedule
		}
		m.runPending = true // it has got a schedule while a run is under way
	}
	switch m.state {
	case TearingDown:
		m.decideAgain(before, success)
	case Backoff:
		switch {
		case m.resourceShortage: // retried under any policy
		case success && p.Restart != config.RestartAlways:
			return m.endBackoff(RunEndedDone), true
		case p.Restart == config.RestartNever:
			return m.endBackoff(RunEndedFinal), true
		case p.Backoff != before.Backoff:
			m.delay = restartDelay(p.Backoff, int(m.restartAttempts), rng)
			return m.stay(rearm), true
		}
	case Exited:
		if p.Restart == config.RestartAlways || !success && p.Restart == config.RestartOnFailure {
			return start()
		}
	case Failed:
		switch {
		case p.Restart == config.RestartNever:
			if m.Retries() {
				m.makeFinal(RunEndedFinal)
				return m.stay(disarm), true
			}
		case before.Restart == config.RestartNever, m.startLimitHit && p.StartLimit.Failures == 0:
			return start()
		case m.startLimitHit && p.StartLimit.RetryAfter != before.StartLimit.RetryAfter:
			if m.outcome = m.retrySlowly(); m.outcome == RunEndedFinal {
				return m.stay(disarm), true
			}
			return m.stay(rearm), true
		}
	}
	return Transition{}, false
}

// decideAgain makes the restart decision again during the teardown. success reports whether the
// main process ended with success.
func (m *Machine) decideAgain(before *config.Program, success bool) {
	policy := m.program.Restart
	hit := m.outcome == RunEndedStartLimit ||
		m.outcome == RunEndedFinal && m.startLimitHit && before.Restart != config.RestartNever
	switch {
	// The restart policy does not decide these
	case m.outcome == RunEndedRestart, m.resourceShortage:
	case success && policy != config.RestartAlways:
		m.makeFinal(RunEndedDone)
	case policy == config.RestartNever:
		m.makeFinal(RunEndedFinal)
	case hit && m.program.StartLimit.Failures > 0:
		m.outcome = m.retrySlowly()
	default:
		m.stateReason, m.outcome = m.exitReason, m.retry()
	}
}

// makeFinal makes the outcome final where it was not, since the restart policy has changed. e is
// RunEndedDone or RunEndedFinal.
func (m *Machine) makeFinal(e Event) {
	if m.outcome == e {
		return
	}
	m.outcome = e
	m.stateReason = m.exitReason.And(fmt.Sprintf("; restart is now %q", m.program.Restart))
}

// endBackoff ends the backoff without a restart, since the restart policy has changed. e is
// RunEndedDone or RunEndedFinal.
func (m *Machine) endBackoff(e Event) Transition {
	m.makeFinal(e)
	if m.program.Scheduled() {
		m.exitReason = m.stateReason
		m.clearPendingRun()
		return m.step(Wait)
	}
	return m.step(e)
}
