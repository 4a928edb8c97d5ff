package fsm

import (
	"fmt"
	"slices"
	"time"

	"superd/config"
)

// A Machine decides the life of one instance. It does no I/O: each method takes one request or
// occurrence and returns what to do. No other code writes its fields. The zero Machine is not
// valid; [New] makes one.
type Machine struct {
	program *config.Program // restart policy; immutable
	rules   *Table          // nil: those of [Rules]

	desired               Target
	desiredBeforeShutdown *Target // desired state before the shutdown; nil without a shutdown
	// Why superd ends the present run, which then counts as a failure; or none
	failureReason Reason

	// Consecutive restarts without a stable run: the exponent of the backoff
	restartAttempts int32
	restarts        int32           // automatic restarts since the operator's last start
	failures        []time.Duration // times of failures within the window of the start limit
	delay           time.Duration   // until RestartDue, for ArmRestart

	startReason Reason // why the present or next run starts
	exitReason  Reason // how the last run ended
	stateReason Reason // why the state is what it is

	state State
	// How the run ends once nothing of it is left, unless the desired state has changed by then
	outcome Event
	// The present run uses a superseded definition: it must end, whatever the desired state
	outdated       bool
	restartPending bool // a run that starts later than the present one is requested
	// For a program with a trigger: a run is due or under way, its retries included
	runPending    bool
	startLimitHit bool // the start limit was reached, and no run was stable since

	// Of the last run:
	notStarted bool // it ended before its main process existed
	// It failed, whatever its exit status: it never became ready, or superd ended it
	failed           bool
	resourceShortage bool // its start failed for want of a resource of the machine
}

// Conditions are what other instances mean for this one at the moment of a call.
type Conditions struct {
	AwaitsOthers bool // a program that it requires or is ordered after is not up yet
	// A requirement is down or restarts, so it can't stay up; implies AwaitsOthers
	Lost          bool
	HasDependents bool // live instances require it, or any are ordered after it
	// All dependents that must be down before it are down, as without any dependents
	DependentsDown bool
	Ordered        bool // it is ordered after other programs
	// A conflicting instance must be gone, or a socket opened, before its start
	Held bool
}

// New returns the machine of a new instance, which is stopped. rules is a table with planted
// defects; nil: the one of [Rules].
func New(program *config.Program, rules *Table) Machine {
	return Machine{program: program, rules: rules, stateReason: Reason{Kind: ReasonNotStarted}}
}

// State returns the state.
func (m *Machine) State() State { return m.state }

// Desired returns the desired state and its actor.
func (m *Machine) Desired() Target { return m.desired }

// DesiredBeforeShutdown returns the desired state from before the shutdown; false without a
// shutdown.
func (m *Machine) DesiredBeforeShutdown() (Target, bool) {
	if m.desiredBeforeShutdown == nil {
		return Target{}, false
	}
	return *m.desiredBeforeShutdown, true
}

// Outcome returns the outcome of the last run, or of the one under way as far as it is known.
func (m *Machine) Outcome() Event { return m.outcome }

// StateReason returns why the state is what it is.
func (m *Machine) StateReason() Reason { return m.stateReason }

// StartReason returns why the present or next run starts.
func (m *Machine) StartReason() Reason { return m.startReason }

// ExitReason returns how the last run ended; none before the first end.
func (m *Machine) ExitReason() Reason { return m.exitReason }

// FailureReason returns why superd ends the present run, which then counts as a failure; or none.
func (m *Machine) FailureReason() Reason { return m.failureReason }

// RestartAttempts returns the number of consecutive restarts without a stable run.
func (m *Machine) RestartAttempts() int { return int(m.restartAttempts) }

// Restarts returns the number of automatic restarts since the operator's last start.
func (m *Machine) Restarts() int { return int(m.restarts) }

// Failures returns the times of failures within the window of the start limit. The next step may
// overwrite them.
func (m *Machine) Failures() []time.Duration { return m.failures }

// Delay returns the time from the end of the run to RestartDue, for ArmRestart.
func (m *Machine) Delay() time.Duration { return m.delay }

// Outdated reports whether the present run uses a superseded definition.
func (m *Machine) Outdated() bool { return m.outdated }

// RestartPending reports whether a run that starts later than the present one is requested.
func (m *Machine) RestartPending() bool { return m.restartPending }

// RunPending reports whether a run for a trigger is due or under way.
func (m *Machine) RunPending() bool { return m.runPending }

// StartLimitHit reports whether the start limit was reached and no run was stable since.
func (m *Machine) StartLimitHit() bool { return m.startLimitHit }

// NotStarted reports whether the last run ended before its main process existed.
func (m *Machine) NotStarted() bool { return m.notStarted }

// Retries reports whether a failed instance is retried slowly.
func (m *Machine) Retries() bool { return m.state == Failed && m.outcome == RunEndedStartLimit }

// AwaitsTrigger reports whether no run may start before the next time of the program's schedule, or
// before its next connection.
func (m *Machine) AwaitsTrigger() bool { return m.program.Triggered() && !m.runPending }

// StartBlocked reports whether a start has to wait: for a conflicting instance or a socket, for
// requirements and orderings, for the trigger or, if a new run was requested, until the dependents
// are down.
func (m *Machine) StartBlocked(c Conditions) bool {
	return c.Held || c.AwaitsOthers || m.AwaitsTrigger() || m.restartPending && !c.DependentsDown
}

// MustEnd reports whether a run that exists, or is about to, has to end.
func (m *Machine) MustEnd(c Conditions) bool {
	return !m.desired.Up || m.restartPending || m.outdated || c.Lost
}

// Drains reports whether the run is stopped by a rolling restart: it has the drain time-out.
func (m *Machine) Drains() bool {
	return m.desired.By.Kind == ActorRoll && (m.restartPending || !m.desired.Up)
}

// stopLimit returns the key of the time-out of a stop, and its value.
func (m *Machine) stopLimit() (key string, limit time.Duration) {
	if m.Drains() && m.program.DrainTimeout != 0 {
		return "drain_timeout", m.program.DrainTimeout
	}
	return "stop_timeout", m.program.StopTimeout
}

// step applies e by the table. It panics on an event that the table does not have in this state:
// that is a bug.
func (m *Machine) step(e Event) Transition {
	r := m.rules.rule(m.state, e)
	if r == nil {
		panic(fmt.Sprintf("step machine of %s: no rule for %s in %s", m.program.Name, e, m.state.Name()))
	}
	from := m.state
	m.state = r.Next
	if slices.Contains(r.Effects, Spawn) {
		m.restartPending = false
	}
	if slices.Contains(r.Effects, EndRun) {
		m.outdated = false
	}
	return Transition{from, m.state, r.Effects}
}

// stay returns a transition that has effects and leaves the state as it is.
func (m *Machine) stay(effects []Effect) Transition {
	return Transition{m.state, m.state, effects}
}

// SetDesired records the desired state and its actor, without a step: during recovery the caller
// decides what follows. The first shutdown request saves the target before it; a request by any
// other actor clears that.
func (m *Machine) SetDesired(up bool, by Actor) {
	if by.Kind != ActorShutdown {
		m.desiredBeforeShutdown = nil
	} else if m.desired.By.Kind != ActorShutdown {
		m.desiredBeforeShutdown = new(m.desired)
	}
	m.desired = Target{up, by}
}

// startedBy returns the reason of a run that an actor requested.
func startedBy(by Actor) Reason { return Reason{ReasonStarted, by.String()} }

// WantUp requests a start. reset clears every limit and counter, as an operator's command does.
func (m *Machine) WantUp(by Actor, reset bool, c Conditions) Transition {
	m.SetDesired(true, by)
	if reset {
		m.resetFailed()
		m.runPending = m.runPending || !m.program.Accepts()
	}
	switch m.state {
	case Starting, Running:
	case StopPending:
		if m.MustEnd(c) {
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
	return m.step(m.unlessOrdered(WantUp, c))
}

// unlessBlocked returns e, which starts a run, or Wait where the start has to wait.
func (m *Machine) unlessBlocked(e Event, c Conditions) Event {
	if m.StartBlocked(c) && m.rules.rule(m.state, Wait) != nil {
		return Wait
	}
	return e
}

// unlessOrdered is unlessBlocked for a requested start. A program with orderings always waits until
// the turn's other work is done: the same request may start the programs it comes after, and only
// then is it known which of them it waits for.
func (m *Machine) unlessOrdered(e Event, c Conditions) Event {
	if c.Ordered && m.rules.rule(m.state, Wait) != nil {
		return Wait
	}
	return m.unlessBlocked(e, c)
}

// WantRestart requests a restart: in any state, a run that starts after this is requested. reset
// clears every limit and counter, as an operator's command does.
func (m *Machine) WantRestart(by Actor, reset bool, c Conditions) Transition {
	return m.wantRestart(by, startedBy(by), by.String(), reset, c)
}

// FileChanged requests a restart, as [Machine.WantRestart] without reset, since files have changed:
// which is text for people.
func (m *Machine) FileChanged(which string, c Conditions) Transition {
	by := By(ActorWatch)
	return m.wantRestart(by, ReasonFileChanged.With(which), by.String()+", file changed: "+which, false, c)
}

// wantRestart requests a restart. why is the reason of the new run, and request says what has
// requested it.
func (m *Machine) wantRestart(by Actor, why Reason, request string, reset bool, c Conditions) Transition {
	m.SetDesired(true, by)
	m.restartPending = true
	m.startReason = why
	if reset {
		m.resetFailed()
		m.runPending = m.runPending || !m.program.Accepts()
	} else { // a changed definition does not inherit the failures of the old one
		m.restartAttempts, m.failures, m.startLimitHit = 0, nil, false
	}
	switch m.state {
	case Starting, Running, StopPending, Stopping, Killing, TearingDown:
		m.stateReason = Reason{ReasonStoppingToRestart, request}
	case Spawning:
		m.stateReason = m.startReason
	default:
		// No run to end: only live dependents can delay the start
		m.restartPending = !c.DependentsDown
		m.stateReason = m.startReason
	}
	return m.end(m.unlessOrdered(Restart, c), c)
}

// WantDown requests a stop.
func (m *Machine) WantDown(by Actor, c Conditions) Transition {
	m.SetDesired(false, by)
	m.restartPending = false
	// Recovery may undo a shutdown; but a connection is lost
	m.runPending = m.runPending && by.Kind == ActorShutdown && !m.program.Accepts()
	switch {
	case m.state.HasRun():
		m.stateReason = Reason{ReasonStopping, by.String()}
	case m.exitReason.Kind != ReasonNone:
		m.stateReason = Reason{ReasonStopped, fmt.Sprintf("%s; before: %s", by, m.exitReason)}
	default:
		m.stateReason = Reason{ReasonStopped, by.String()}
	}
	return m.end(WantDown, c)
}

// end begins the end of a run, by WantDown or Restart. A ready run with dependents first waits
// until they are down. A run that is not ready does not wait: the dependents that still run were
// started with the run before, and already do without it.
func (m *Machine) end(e Event, c Conditions) Transition {
	if m.state == StopPending || m.state == Running && c.HasDependents {
		return m.step(DeferStop)
	}
	return m.step(e)
}

// cancelStop cancels a stop that has not begun: the run continues unchanged.
func (m *Machine) cancelStop() Transition {
	m.stateReason = Reason{Kind: ReasonStopCancelled}
	return m.step(WantUp)
}

// Trigger starts the run for a time of the schedule or a connection that has come, while the
// instance waits for that. why is the reason of the start.
func (m *Machine) Trigger(why Reason, c Conditions) Transition {
	m.runPending, m.restartAttempts, m.failures, m.startLimitHit = true, 0, nil, false
	m.startReason, m.stateReason = why, why
	return m.step(m.unlessBlocked(WantUp, c))
}

// Reconcile takes the step to which the conditions alone lead (level-triggered): a start that is no
// longer blocked, the end of a run that has lost a requirement, a pending stop. ok is false without
// such a step. lost returns which requirement is lost, and the reason of the restart once it is
// back.
func (m *Machine) Reconcile(c Conditions, lost func() (cause, why Reason)) (t Transition, ok bool) {
	switch m.state {
	case Waiting:
		if !m.StartBlocked(c) || m.restartPending && c.DependentsDown {
			return m.unblocked(c), true
		}
	case Spawning, Starting, Running:
		if c.Lost && m.desired.Up && !m.restartPending {
			m.stateReason, m.startReason = lost()
			return m.end(Restart, c), true // it stays wanted up
		}
	case StopPending:
		switch {
		case !m.MustEnd(c):
			return m.cancelStop(), true
		case c.DependentsDown:
			return m.StopNow(), true
		}
	}
	return Transition{}, false
}

// unblocked ends the wait for a start. Where the instance waited for its dependents to go down
// before a new run, it ends only that part of the wait.
func (m *Machine) unblocked(c Conditions) Transition {
	m.restartPending = false
	m.stateReason = m.startReason
	return m.step(m.unlessBlocked(WantUp, c))
}

// StopNow carries out a pending stop, whether the dependents are down or not.
func (m *Machine) StopNow() Transition {
	if m.desired.Up {
		return m.step(Restart)
	}
	return m.step(WantDown)
}

// SetWaitReason records what the instance waits for. The caller knows the blockers, and calls it
// after each transition to Waiting.
func (m *Machine) SetWaitReason(reason Reason) { m.stateReason = reason }

// Quarantine keeps back the start for the given reason: leftover processes of an earlier run may
// live. It is used in recovery, before a run is resumed. What the snapshot says of the run is void.
func (m *Machine) Quarantine(reason Reason) Transition {
	from := m.state
	m.state, m.outdated, m.failureReason, m.stateReason = Stopped, false, Reason{}, reason
	m.runPending = m.runPending && !m.program.Accepts() // the connection is lost
	return Transition{from, m.state, nil}
}

// QuarantineLifted records that the leftover processes of a quarantine are gone or don't matter.
func (m *Machine) QuarantineLifted() { m.stateReason = Reason{Kind: ReasonNotStarted} }

// EndQuarantine ends the leftover processes of a quarantine, at an operator's request. The caller
// makes a run for the teardown before.
func (m *Machine) EndQuarantine() Transition {
	from := m.state
	m.SetDesired(false, By(ActorOperator))
	m.restartPending, m.runPending = false, false
	m.state, m.outcome = TearingDown, RunEndedDown
	m.exitReason = Reason{Kind: ReasonLeftoversKilled}
	m.stateReason = Reason{ReasonStopping, m.desired.By.String()}
	return Transition{from, m.state, teardown}
}
