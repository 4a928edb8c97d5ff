package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"superd/config"
	"superd/internal/words"
)

// An Exit says how a main process ended. The zero Exit is an unknown one.
type Exit struct {
	Known  bool   // false: how it ended is unknown; the other fields are zero
	Code   int    // exit status, 0 to 255; valid when Signal is 0
	Signal int    // signal that killed it; 0 if it exited by itself
	Text   string // as text: "killed by SIGSEGV"; empty: made from the other fields
}

// Success reports whether the exit means success where codes are the success exit codes.
func (e Exit) Success(codes []int) bool {
	return e.Known && e.Signal == 0 && slices.Contains(codes, e.Code)
}

// isOne reports whether the process has ended in one of these ways.
func (e Exit) isOne(of []config.ExitStatus) bool {
	status := config.ExitStatus(e.Code)
	if e.Signal != 0 {
		status = config.KilledBy(syscall.Signal(e.Signal))
	}
	return e.Known && slices.Contains(of, status)
}

// String returns the text for people: "exit status 3", "exit status unknown".
func (e Exit) String() string {
	switch {
	case e.Text != "":
		return e.Text
	case !e.Known:
		return "exit status unknown"
	case e.Signal != 0:
		return fmt.Sprintf("killed by signal %d", e.Signal)
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Reason returns how a main process ended: "exit status 3".
func (e Exit) Reason() Reason {
	kind := ReasonExited
	switch {
	case !e.Known:
		kind = ReasonExitUnknown
	case e.Signal != 0:
		kind = ReasonKilledBySignal
	}
	return Reason{kind, e.String()}
}

// A RunEnd is the end of a main process.
type RunEnd struct {
	At     time.Duration // when it ended; monotonic
	Exit   Exit
	Ran    time.Duration // run time of the main process
	Stable time.Duration // how long it was ready; 0: never
	Note   Reason        // what else is known of the exit; or none
	// A teardown is needed before the run is over
	Leftovers bool
	Command   bool // stop_command was begun, and no stop signal was sent
}

// A Fault says how a failed start counts.
type Fault uint8

// The faults of a start.
const (
	FaultProgram  Fault = iota // a fault of the program: counts as a failure
	FaultResource              // a resource shortage: retried without limit
	FaultFinal                 // a retry is pointless until the configuration changes
)

// A StartFailure is a start that failed before the main process existed.
type StartFailure struct {
	At     time.Duration // when it failed; monotonic
	Reason Reason
	Fault  Fault
	// Hooks have left something, so that a teardown is needed before the run is over
	Leftovers bool
}

// SpawnFailed records a failed start. rng draws the jitter of a retry.
func (m *Machine) SpawnFailed(f StartFailure, c Conditions, rng *rand.Rand) Transition {
	m.exitReason, m.stateReason = f.Reason, f.Reason
	m.notStarted, m.resourceShortage = true, f.Fault == FaultResource
	switch {
	case m.MustEnd(c):
		m.outcome = RunEndedRestart // the run is no longer wanted, so the failure does not count
	case f.Fault == FaultResource && !m.program.Accepts():
		m.outcome = m.retry()
	case f.Fault == FaultFinal || m.neverRestarts():
		m.outcome = RunEndedFinal
	case m.overLimit(f.At):
		m.outcome = m.hitStartLimit()
	default:
		m.outcome = m.retry()
	}
	return m.endRun(f.Leftovers, c, rng)
}

// Interrupted records a start that the end of superd cut short before the main process existed.
// leftovers reports whether a teardown is needed.
func (m *Machine) Interrupted(leftovers bool, c Conditions) Transition {
	m.exitReason = Reason{Kind: ReasonStartInterrupted}
	m.outcome, m.notStarted, m.resourceShortage = RunEndedRestart, true, false
	m.stateReason, m.startReason = m.exitReason, Reason{ReasonRestarted, m.exitReason.String()}
	return m.endRun(leftovers, c, nil)
}

// SpawnCanceled records a start that was cancelled. leftovers reports whether a teardown is needed.
func (m *Machine) SpawnCanceled(leftovers bool, c Conditions) Transition {
	m.exitReason, m.outcome = Reason{Kind: ReasonStartCancelled}, RunEndedRestart
	return m.endRun(leftovers, c, nil)
}

// Exited records the end of the main process. rng draws the jitter of a retry.
func (m *Machine) Exited(end RunEnd, c Conditions, rng *rand.Rand) Transition {
	m.exitReason = end.Exit.Reason().And(" after " + words.Duration(words.Round(end.Ran)))
	m.notStarted, m.resourceShortage = false, false
	m.failed = m.state == Starting || m.failureReason.Kind != ReasonNone
	if end.Note.Kind != ReasonNone {
		m.exitReason = m.exitReason.And(", " + end.Note.String())
	}
	if end.Note.Kind == ReasonOutOfMemory {
		m.exitReason.Kind = end.Note.Kind
	}
	if end.Stable >= m.program.Backoff.ResetAfter {
		m.restartAttempts, m.startLimitHit = 0, false
	}
	m.outcome = RunEndedRestart // a requested end: TornDown checks the desired state
	switch m.state {
	case Starting:
		if m.exitReason = m.exitReason.And(", before it was ready"); m.exitReason.Kind != ReasonOutOfMemory {
			m.exitReason.Kind = ReasonExitedBeforeReady
		}
		m.stateReason = m.exitReason
		m.outcome = m.afterFailure(end.At, end.Exit)
	case Running:
		m.stateReason = m.exitReason
		m.outcome = m.restartDecision(end)
	case StopPending:
	case Killing:
		key, limit := m.stopLimit()
		m.exitReason = Reason{ReasonStopTimeout,
			fmt.Sprintf("killed after %s %s (%s)", key, limit, m.exitReason)}
	default:
		by := "the stop signal"
		if end.Command {
			by = "stop_command"
		}
		m.exitReason = Reason{ReasonStopSignal, fmt.Sprintf("ended by %s (%s)", by, m.exitReason)}
	}
	if m.failureReason.Kind != ReasonNone {
		m.exitReason = m.failureReason.And("; " + m.exitReason.String())
		// A failure of a run that is no longer wanted does not count
		if m.failureReason = (Reason{}); !m.MustEnd(c) {
			m.stateReason = m.exitReason
			m.outcome = m.afterFailure(end.At, Exit{}) // the exit follows from superd's signal
		}
	}
	return m.endRun(end.Leftovers, c, rng)
}

// restartDecision returns the outcome of an exit that superd did not request.
func (m *Machine) restartDecision(end RunEnd) Event {
	success := end.Exit.Success(m.program.SuccessExitCodes)
	switch {
	case success && !m.program.RestartsAfterSuccess():
		return RunEndedDone
	case success && end.Exit.isOne(m.program.NoRestartExitCodes):
		m.stateReason = m.exitReason.And(inNoRestartCodes)
		return RunEndedDone
	case success:
		return m.retry()
	}
	return m.afterFailure(end.At, end.Exit)
}

// neverRestarts reports whether no run follows another by itself. A connection has one run.
func (m *Machine) neverRestarts() bool {
	return m.program.Restart == config.RestartNever || m.program.Accepts()
}

// inNoRestartCodes follows an exit after which the program is not restarted.
const inNoRestartCodes = "; no_restart_exit_codes has it"

// afterFailure returns the outcome of a run that failed at now. exit is the zero value where it
// does not matter.
func (m *Machine) afterFailure(now time.Duration, exit Exit) Event {
	switch {
	case m.program.Accepts():
		return RunEndedFinal
	case m.program.Restart == config.RestartNever:
		m.stateReason = m.exitReason.And(`; restart = "never"`)
		return RunEndedFinal
	case exit.isOne(m.program.NoRestartExitCodes):
		m.stateReason = m.exitReason.And(inNoRestartCodes)
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

// WentToBackground records that a main process exited with success at once and left processes
// behind.
func (m *Machine) WentToBackground() {
	const hint = `; it left processes behind: a program must stay in the foreground; look for an option such as -D, -F, --foreground or "daemonize no", or set type = "forking"`
	was := m.exitReason.Kind
	m.exitReason = Reason{ReasonWentToBackground, m.exitReason.String() + hint}
	if m.stateReason.Kind == was {
		m.stateReason = Reason{ReasonWentToBackground, m.stateReason.String() + hint}
	} else { // such as a start limit: that says more
		m.stateReason = m.stateReason.And(hint)
	}
}

// LeftoversKilled records which leftover processes the teardown had to kill, as text.
func (m *Machine) LeftoversKilled(processes string) {
	m.exitReason = m.exitReason.And("; leftover processes killed: " + processes)
}

// endRun ends the run, at once or after the teardown.
func (m *Machine) endRun(leftovers bool, c Conditions, rng *rand.Rand) Transition {
	if leftovers {
		return m.step(MainExited)
	}
	return m.TornDown(c, rng)
}

// TornDown ends the run when nothing of it is left. rng draws the jitter of a retry.
func (m *Machine) TornDown(c Conditions, rng *rand.Rand) Transition {
	restarts := m.restartPending || m.outcome == RunEndedRestart
	switch {
	case !m.desired.Up:
		m.stateReason = Reason{ReasonStopped, fmt.Sprintf("%s: %s", m.desired.By, m.exitReason)}
		return m.step(RunEndedDown)
	case m.program.Accepts(), m.program.Scheduled() && (!m.runPending || !restarts && m.outcome != RunEndedRetry):
		return m.awaitTrigger()
	case restarts:
		if m.StartBlocked(c) {
			return m.step(RunEndedWait)
		}
		m.stateReason = m.startReason
		return m.step(RunEndedRestart)
	}
	if m.outcome == RunEndedRetry {
		m.restartAttempts++
		m.delay = restartDelay(m.program.Backoff, int(m.restartAttempts), rng)
	}
	return m.step(m.outcome)
}

// resetFailed clears the start limit and all counters of failures and restarts.
func (m *Machine) resetFailed() {
	m.restartAttempts, m.failures, m.startLimitHit, m.restarts = 0, nil, false, 0
}

// ResetFailed is what an operator's start resets, for a program that is not started.
func (m *Machine) ResetFailed() { m.resetFailed() }

// RestartDue starts the next run when the delay has passed.
func (m *Machine) RestartDue(c Conditions) Transition {
	m.restarts++
	m.stateReason = m.startReason
	return m.step(m.unlessBlocked(RestartDue, c))
}

// awaitTrigger ends the run for a time of the schedule or a connection. Whatever its outcome, the
// next one is independent of it.
func (m *Machine) awaitTrigger() Transition {
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
