package procs

import (
	"fmt"
	"slices"
	"superd/config"
	"superd/pidfd"
	"superd/procs/fsm"
	"time"
)

// restartDecision returns the outcome of an exit that superd did not request.
func (m *machine) restartDecision(now time.Duration, exit pidfd.Exit) fsm.Event {
	success := exit.Known && exit.Signal == 0 && slices.Contains(m.program.SuccessExitCodes, exit.Code)
	switch {
	case success && m.program.Restart != config.RestartAlways:
		return fsm.RunEndedDone
	case success:
		return m.retry()
	}
	return m.afterFailure(now)
}

// afterFailure returns the outcome of a run that failed.
func (m *machine) afterFailure(now time.Duration) fsm.Event {
	switch {
	case m.program.Restart == config.RestartNever:
		m.stateReason = m.exitReason.And(`; restart = "never"`)
		return fsm.RunEndedFinal
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
func (m *machine) hitStartLimit() fsm.Event {
	limit := m.program.StartLimit
	m.startLimitHit = true
	m.failures = nil
	m.startReason = fsm.Reason{Kind: fsm.ReasonSlowRetry}
	m.stateReason = fsm.ReasonStartLimit.With(
		fmt.Sprintf("%s; start limit hit: %s within %s", m.exitReason, plural(limit.Failures, "failure"), durationText(limit.Within)))
	return m.retrySlowly()
}

// retrySlowly sets the delay of the slow retry and returns the outcome, which is final if
// retry_after is 0.
func (m *machine) retrySlowly() fsm.Event {
	m.delay = m.program.StartLimit.RetryAfter
	final := m.stateReason.Kind == fsm.ReasonStartLimitFinal
	switch {
	case m.delay != 0 && final:
		m.stateReason.Kind = fsm.ReasonStartLimit
	case m.delay == 0 && !final:
		m.stateReason = fsm.ReasonStartLimitFinal.With(m.stateReason.String())
	}
	if m.delay == 0 {
		return fsm.RunEndedFinal
	}
	return fsm.RunEndedStartLimit
}

// retry returns the outcome for a restart after the backoff.
func (m *machine) retry() fsm.Event {
	m.startReason = fsm.ReasonRestarted.With(m.exitReason.String())
	return fsm.RunEndedRetry
}

// restartDue starts the next run when the delay has passed.
func (m *machine) restartDue() []fsm.Effect {
	m.restarts++
	m.stateReason = m.startReason
	return m.step(m.unlessBlocked(fsm.RestartDue))
}

// reevaluate repeats the restart decision after a change of the definition from before. success
// reports whether the main process ended with success.
func (m *machine) reevaluate(before *config.Program, success bool) {
	policy := m.program.Restart
	hitLimit := m.outcome == fsm.RunEndedStartLimit || m.outcome == fsm.RunEndedFinal && m.startLimitHit && before.Restart != config.RestartNever
	switch {
	// The restart policy does not decide these
	case m.outcome == fsm.RunEndedRestart, m.resourceShortage:
	case success && policy != config.RestartAlways:
		m.makeFinal(fsm.RunEndedDone)
	case policy == config.RestartNever:
		m.makeFinal(fsm.RunEndedFinal)
	case hitLimit && m.program.StartLimit.Failures > 0:
		m.outcome = m.retrySlowly()
	default:
		m.stateReason, m.outcome = m.exitReason, m.retry()
	}
}

// makeFinal makes the outcome final, if it is not, since the restart policy has changed. e is
// RunEndedDone or RunEndedFinal.
func (m *machine) makeFinal(e fsm.Event) {
	if m.outcome == e {
		return
	}
	m.outcome = e
	m.stateReason = m.exitReason.And(fmt.Sprintf("; restart is now %q", m.program.Restart))
}

// endBackoff ends the backoff without a restart, since the restart policy has changed. e is
// RunEndedDone or RunEndedFinal.
func (m *machine) endBackoff(e fsm.Event) []fsm.Effect {
	m.makeFinal(e)
	if m.program.Scheduled() {
		m.exitReason = m.stateReason
		m.clearPendingRun()
		return m.step(fsm.Wait)
	}
	return m.step(e)
}

// awaitNextTime ends the run, whatever its outcome, to wait for the next time of the schedule.
func (m *machine) awaitNextTime() []fsm.Effect {
	if m.outcome == fsm.RunEndedStartLimit || m.startLimitHit {
		limit := m.program.StartLimit
		m.exitReason = m.exitReason.And(fmt.Sprintf("; start limit hit: %s within %s",
			plural(limit.Failures, "failure"), durationText(limit.Within)))
	}
	m.clearPendingRun()
	return m.step(fsm.RunEndedWait)
}

// clearPendingRun cancels the pending run, and resets the counters of failures.
func (m *machine) clearPendingRun() {
	m.runPending, m.restartPending, m.restartAttempts, m.failures, m.startLimitHit = false, false, 0, nil, false
}
