package fsm

import (
	"fmt"
	"time"

	"superd/internal/words"
)

// Spawned records that the main process was started. ready reports whether that makes it ready.
func (m *Machine) Spawned(ready bool, c Conditions) Transition {
	if m.MustEnd(c) {
		return m.step(SpawnedOutdated)
	}
	m.stateReason = m.startReason
	if !ready {
		return m.step(SpawnedUnready)
	}
	return m.step(Spawned)
}

// Ready records that the main process has become ready, at that time after its start.
func (m *Machine) Ready(after time.Duration) Transition {
	m.stateReason = m.startReason.And("; ready after " + words.Duration(words.Round(after)))
	return m.step(Ready)
}

// FailRun ends a run that has failed, for the given reason. e is StartTimeout, HealthFailed or
// WatchdogTimeout.
func (m *Machine) FailRun(e Event, reason Reason) Transition {
	m.failureReason, m.stateReason = reason, reason
	return m.step(e)
}

// StopTimedOut handles the end of the stop time-out: the signal of that name follows.
func (m *Machine) StopTimedOut(signal string) Transition {
	key, _ := m.stopLimit()
	m.stateReason = Reason{ReasonKillSent,
		fmt.Sprintf("%s: still alive after %s, %s sent", m.stateReason, key, signal)}
	return m.step(StopTimeout)
}

// KillTimedOut handles a process that SIGKILL did not end.
func (m *Machine) KillTimedOut() Transition { return m.step(KillTimeout) }
