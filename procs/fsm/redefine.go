package fsm

import (
	"fmt"
	"math/rand/v2"

	"superd/config"
)

// Unschedules reports whether a change removes the schedule of a one-shot.
func Unschedules(before, after *config.Program) bool {
	return before.Scheduled() && after.Schedule == "" && after.Type == config.TypeOneshot
}

// sameTrigger reports whether the runs of two definitions begin by the same kind of trigger.
func sameTrigger(a, b *config.Program) bool {
	return a.Scheduled() == b.Scheduled() && a.Accepts() == b.Accepts()
}

// keepsTrigger reports whether the runs of both definitions begin by the same kind of trigger.
func keepsTrigger(before, after *config.Program) bool {
	return after.Triggered() && sameTrigger(before, after)
}

// StartsByChange reports whether a changed definition starts a program that is not wanted up: it
// has autostart now by the configuration, or a schedule again. What an operator enables only starts
// with superd.
func (t Target) StartsByChange(before, after *config.Program) bool {
	gained := after.Autostart && !before.Autostart && before.Enablement == after.Enablement
	return !t.Up && (gained && !t.By.Is(ActorOperator) ||
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
// after a restart. A run under way is outdated in that case, unless it has a trigger: it goes on,
// and the run of the next trigger uses the new one. The caller then takes the step of
// [Machine.Reevaluate].
func (m *Machine) Redefine(program *config.Program, restarts bool) {
	// It has no meaning without a trigger, and no time of a schedule is a connection
	m.runPending = m.runPending && m.program.Triggered() && (m.program.Accepts() || !program.Accepts())
	m.outdated = m.outdated || restarts && m.state.HasRun() && !keepsTrigger(m.program, program)
	m.program = program
}

// A Change is a change of the definition that the machine has got by [Machine.Redefine].
type Change struct {
	Before   *config.Program // the definition before
	Restarts bool            // a run uses the new one only after a restart
	Rolls    bool            // a rolling restart does that later
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
	goesOn := ch.Restarts && m.state.HasRun() && (keepsTrigger(before, p) || ch.Rolls)
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
	if !sameTrigger(before, p) {
		if m.state == Waiting || m.state == Exited || m.state == Failed || m.state == Backoff && p.Accepts() {
			return start() // or wait for the new trigger
		}
		m.runPending = true // it has got a trigger while a run is under way
	}
	prevented := m.exitPrevented(ch.Exit, m.program)
	switch m.state {
	case TearingDown:
		requested := m.startReason
		if m.decideAgain(ch, success); m.restartPending {
			m.startReason = requested
		}
	case Backoff:
		switch {
		case m.resourceShortage: // retried under any policy
		case success && (!p.RestartsAfterSuccess() || prevented):
			return m.endRetries(RunEndedDone), true
		case p.Restart == config.RestartNever || prevented:
			return m.endRetries(RunEndedFinal), true
		case p.Backoff != before.Backoff:
			m.delay = restartDelay(p.Backoff, int(m.restartAttempts), rng)
			return m.stay(rearm), true
		}
	case Exited:
		if prevented {
			break
		}
		if p.RestartsAfterSuccess() || !success && p.Restart != config.RestartNever {
			return start()
		}
	case Failed:
		switch {
		case m.startLimitHit && success && (!p.RestartsAfterSuccess() || prevented):
			m.startLimitHit = false // the run does not count for the limit that it hit
			return m.endRetries(RunEndedDone), true
		case p.Restart == config.RestartNever || prevented:
			if m.Retries() {
				m.makeFinal(RunEndedFinal)
				return m.stay(disarm), true
			}
		case m.outcome == RunEndedFinal && !m.startLimitHit && m.exitPrevented(ch.Exit, before):
			return start()
		case before.Restart == config.RestartNever, m.startLimitHit && p.StartLimit.Failures == 0:
			return start()
		case m.startLimitHit && success && p.RestartsAfterSuccess():
			m.startLimitHit = false // as in decideAgain
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

// exitPrevented reports whether p is not restarted after the end of the last run. An end that
// followed from superd's signal does not count.
func (m *Machine) exitPrevented(exit Exit, p *config.Program) bool {
	switch m.exitReason.Kind {
	case ReasonExited, ReasonKilledBySignal, ReasonOutOfMemory, ReasonExitedBeforeReady, ReasonWentToBackground:
		return !m.notStarted && exit.isOne(p.NoRestartExitCodes)
	default:
		return false
	}
}

// decideAgain makes the restart decision again during the teardown. success reports whether the
// main process ended with success.
func (m *Machine) decideAgain(ch Change, success bool) {
	before, policy, prevented := ch.Before, m.program.Restart, m.exitPrevented(ch.Exit, m.program)
	hit := m.outcome == RunEndedStartLimit ||
		m.outcome == RunEndedFinal && m.startLimitHit && before.Restart != config.RestartNever
	switch {
	// The restart policy does not decide these
	case m.outcome == RunEndedRestart, m.resourceShortage:
	case success && (!m.program.RestartsAfterSuccess() || prevented):
		m.makeFinal(RunEndedDone)
	case policy == config.RestartNever || prevented:
		m.makeFinal(RunEndedFinal)
	case hit && success: // the run does not count for the limit that it hit
		m.startLimitHit = false
		m.stateReason, m.outcome = m.exitReason, m.retry()
	case hit && m.program.StartLimit.Failures > 0:
		m.outcome = m.retrySlowly()
	default:
		m.stateReason, m.outcome = m.exitReason, m.retry()
	}
}

// makeFinal makes the outcome final where it was not, since the definition has changed. e is
// RunEndedDone or RunEndedFinal.
func (m *Machine) makeFinal(e Event) {
	if m.outcome == e {
		return
	}
	m.outcome = e
	why := inNoRestartCodes
	switch policy := m.program.Restart; {
	case policy == config.RestartNever || e == RunEndedDone && policy == config.RestartOnFailure:
		why = fmt.Sprintf("; restart is now %q", policy)
	case e == RunEndedDone && !m.program.RestartsAfterSuccess():
		why = "; connections start it now"
	}
	m.stateReason = m.exitReason.And(why)
}

// endRetries ends the backoff, or the slow retry, without a restart, since the restart policy has
// changed, or what is a success. e is RunEndedDone or RunEndedFinal.
func (m *Machine) endRetries(e Event) Transition {
	m.makeFinal(e)
	if m.program.Triggered() {
		m.exitReason = m.stateReason
		m.clearPendingRun()
		return m.step(Wait)
	}
	return m.step(e)
}
