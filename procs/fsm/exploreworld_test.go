package fsm

import (
	"fmt"
	"slices"
)

// A world is what exists outside a machine: what its effects have made and what has not ended yet.
// Occurrences follow from it and not from the state, so that an effect that is left out shows.
type world struct {
	run, spawn, canceled, main, teardown bool
	awaited, monitored                   bool // readiness; health and watchdog
	signaled, killed, reported           bool
	stopTimer, killTimer, restartTimer   bool
	quarantined                          bool
}

// exits ends the main process, with its timers.
func exits(w *world) { *w = world{run: w.run} }

// perform applies the effects of a transition. It returns what is wrong with them; empty: nothing.
func (w *world) perform(t Transition) string {
	for _, effect := range t.Effects {
		wrong := false
		switch effect {
		case Spawn:
			wrong = w.run || w.spawn
			w.run, w.spawn, w.canceled = true, true, false
		case CancelSpawn:
			wrong, w.canceled = !w.spawn, true
		case AwaitReady:
			wrong, w.awaited = !w.main, true
		case StartMonitoring:
			wrong, w.monitored = !w.main, true
		case Teardown:
			wrong, w.teardown = !w.run || w.spawn || w.main || w.teardown, true
		case SignalStop, SignalAbort:
			wrong, w.signaled = !w.main || w.signaled, true
		case SignalKill:
			wrong, w.killed, w.stopTimer = !w.main, true, false
		case ArmStop:
			wrong, w.stopTimer = !w.main, true
		case ArmKill:
			wrong, w.killTimer = !w.main, true
		case ReportUnkillable:
			wrong, w.reported = !w.killed, true
		case EndRun:
			wrong = !w.run || w.spawn || w.main || w.teardown
			*w = world{}
		case ArmRestart, RearmRestart:
			wrong, w.restartTimer = w.run || effect == ArmRestart && w.restartTimer, true
		case Disarm:
			w.restartTimer = false
		}
		if wrong {
			return fmt.Sprintf("%s is wrong now", effect)
		}
	}
	w.awaited = w.awaited && t.To == Starting
	w.monitored = w.monitored && t.To == Running
	return ""
}

// invariant returns what must never be in a state, and is; empty: nothing.
func (n *node) invariant() string {
	m, s, w := &n.m, n.m.state, n.world
	is := func(states ...State) bool { return slices.Contains(states, s) }
	up := m.desired.Up
	for _, rule := range []struct {
		wrong bool
		text  string
	}{
		{w.run != s.HasRun(), "a run and no state of a run, or the other way round"},
		{w.spawn != is(Spawning), "a spawn is under way and the state is not spawning, or the other way round"},
		{w.main != s.Lives(), "a main process lives and the state has none, or the other way round"},
		{w.teardown != is(TearingDown), "a teardown is under way and the state is another, or the other way round"},
		{is(Starting) && !w.awaited, "readiness is not awaited"},
		{is(Running) && !w.monitored, "a running program is not monitored"},
		{w.signaled != is(Stopping, Killing), "the stop signal was sent and nothing stops, or the other way round"},
		{is(Stopping) && !w.stopTimer, "the stop time-out is not armed"},
		{w.killed != is(Killing), "SIGKILL was sent and the state is another, or the other way round"},
		{is(Killing) && !w.killTimer, "the end of SIGKILL is not awaited"},
		{w.restartTimer != (is(Backoff) || m.Retries()), "the restart timer is pending without a retry, or the other way round"},
		{is(Spawning) && (!up || m.restartPending) && !w.canceled, "a start that is no longer wanted is not cancelled"},
		{!up && !m.state.HasRun() && !is(Stopped), "it is to be down, nothing of it lives, and it is not stopped"},
		{!up && is(Starting, Running), "it is to be down, and is neither down nor stopping"},
		{up && is(Stopped) && !w.quarantined, "it is to be up and is stopped"},
		{w.quarantined && !is(Stopped), "it is in quarantine and not stopped"},
		{is(Backoff) && m.outcome != RunEndedRetry, "backoff without a retry"},
		{is(Exited) && m.outcome != RunEndedDone, "exited without success"},
		{is(Failed) && m.outcome != RunEndedFinal && m.outcome != RunEndedStartLimit, "failed without a failure"},
		{is(Exited, Failed) && m.program.Triggered(), "a program with a trigger stays down"},
		{is(TearingDown) && (m.outcome < RunEndedRetry || m.outcome > RunEndedWait), "a teardown without an outcome"},
		{m.restartPending && !s.HasRun() && !is(Waiting) && !w.quarantined, "a restart is pending, without a run that ends"},
		{m.restartPending && is(Starting, Running), "a restart is pending, and the run does not end"},
		{m.failureReason.Kind != ReasonNone && !is(Stopping, Killing), "a run has failed that is not ended"},
		{m.outdated && !s.HasRun(), "an outdated run without a run"},
		{m.stateReason.empty(), "no reason for the state"},
		{(s.HasRun() && up || is(Backoff)) && m.startReason.empty(), "no reason for the start"},
		{is(TearingDown, Backoff, Exited, Failed) && m.exitReason.empty(), "no reason for the end"},
	} {
		if rule.wrong {
			return rule.text
		}
	}
	return ""
}

// empty reports whether the reason has no kind or no text.
func (r Reason) empty() bool {
	return r.Kind == ReasonNone || r.Detail == "" && (phrases[r.Kind] == "" || r.Kind == ReasonStarted)
}

// spec returns what must never be in a transition, and is; empty: nothing.
func (o *op) spec(t Transition, m *Machine, c Conditions) string {
	switch {
	case slices.Contains(t.Effects, Spawn) && (c.AwaitsOthers || c.Held || m.AwaitsTrigger()):
		return "it is started while its start is blocked"
	case slices.Contains(t.Effects, Spawn) && m.program.Accepts() && t.From != Waiting:
		return "a connection has a second run"
	case t.From != Waiting && t.To == Waiting && !m.StartBlocked(c) && !c.Ordered:
		return "it waits for nothing"
	case t.From == Running && t.To == Stopping && c.HasDependents && !o.fails:
		return "it is stopped before its dependents"
	case t.To == StopPending && t.From != StopPending && (t.From != Running || !m.MustEnd(c) || !c.HasDependents):
		return "a stop is pending for no reason"
	}
	return ""
}
