package procs

import (
	"fmt"
	"slices"
	"superd/config"
	"superd/pidfd"
	"time"
)

// restartDecision returns the outcome of an exit that superd did not request.
func (m *machine) restartDecision(now time.Duration, exit pidfd.Exit) Event {
	success := exit.Known && exit.Signal == 0 && slices.Contains(m.program.SuccessExitCodes, exit.Code)
	switch {
	case success && m.program.Restart != config.RestartAlways:
		return RunEndedDone
	case success:
		return m.retry()
	}
	return m.afterFailure(now)
}

// afterFailure returns the outcome of a run that failed.
func (m *machine) afterFailure(now time.Duration) Event {
	switch {
	case m.program.Restart == config.RestartNever:
		m.stateReason = m.exitReason.and(`; restart = "never"`)
		return RunEndedFinal
	case m.overLimit(now):
		return m.hitStartLimit()
	}
	return m.retry()
}

// overLimit counts a failure at now and reports whether that hits the start limit.
func (m *machine) overLimit(now time.Duration) bool {
	limit := m.program.StartLimit
	if limit.Failures == 0 {
		return false
	}
	m.failures = append(slices.DeleteFunc(m.failures, func(at time.Duration) bool { return now-at > limit.Within }), now)
	return m.startLimitHit || len(m.failures) >= limit.Failures
}

// hitStartLimit records that the start limit is hit and returns the outcome: final, or a slow
// retry.
func (m *machine) hitStartLimit() Event {
	limit := m.program.StartLimit
	m.startLimitHit = true
	m.failures = nil
	m.startReason = Reason{Kind: ReasonSlowRetry}
	m.stateReason = Reason{ReasonStartLimit,
		fmt.Sprintf("%s; start limit hit: %s within %s", m.exitReason, plural(limit.Failures, "failure"), durationText(limit.Within))}
	return m.retrySlowly()
}

// retrySlowly sets the delay of the slow retry and returns the outcome, which is final if
// retry_after is 0.
func (m *machine) retrySlowly() Event {
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

// retry returns the outcome for a restart after the backoff.
func (m *machine) retry() Event {
	m.startReason = Reason{ReasonRestarted, m.exitReason.String()}
	return RunEndedRetry
}

// restartDue starts the next run when the delay has passed.
func (m *machine) restartDue() []Effect {
	m.restarts++
	m.stateReason = m.startReason
	return m.step(m.unlessBlocked(RestartDue))
}

// reevaluate repeats the restart decision after a change of the definition from before. success
// reports whether the main process ended with success.
func (m *machine) reevaluate(before *config.Program, success bool) {
	policy := m.program.Restart
	hitLimit := m.outcome == RunEndedStartLimit || m.outcome == RunEndedFinal && m.startLimitHit && before.Restart != config.RestartNever
	switch {
	// The restart policy does not decide these
	case m.outcome == RunEndedRestart, m.resourceShortage:
	case success && policy != config.RestartAlways:
		m.makeFinal(RunEndedDone)
	case policy == config.RestartNever:
		m.makeFinal(RunEndedFinal)
	case hitLimit && m.program.StartLimit.Failures > 0:
		m.outcome = m.retrySlowly()
	default:
		m.stateReason, m.outcome = m.exitReason, m.retry()
	}
}

// makeFinal makes the outcome final, if it is not, since the restart policy has changed. e is
// RunEndedDone or RunEndedFinal.
func (m *machine) makeFinal(e Event) {
	if m.outcome == e {
		return
	}
	m.outcome = e
	m.stateReason = m.exitReason.and(fmt.Sprintf("; restart is now %q", m.program.Restart))
}

// endBackoff ends the backoff without a restart, since the restart policy has changed. e is
// RunEndedDone or RunEndedFinal.
func (m *machine) endBackoff(e Event) []Effect {
	m.makeFinal(e)
	if m.program.Scheduled() {
		m.exitReason = m.stateReason
		m.clearPendingRun()
		return m.step(Wait)
	}
	return m.step(e)
}

// awaitNextTime ends the run, whatever its outcome, to wait for the next time of the schedule.
func (m *machine) awaitNextTime() []Effect {
	if m.outcome == RunEndedStartLimit || m.startLimitHit {
		limit := m.program.StartLimit
		m.exitReason = m.exitReason.and(fmt.Sprintf("; start limit hit: %s within %s",
			plural(limit.Failures, "failure"), durationText(limit.Within)))
	}
	m.clearPendingRun()
	return m.step(RunEndedWait)
}

// clearPendingRun cancels the pending run, and resets the counters of failures.
func (m *machine) clearPendingRun() {
	m.runPending, m.restartPending, m.restartAttempts, m.failures, m.startLimitHit = false, false, 0, nil, false
}
