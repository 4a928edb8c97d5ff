package fsm

import (
	"slices"
	"testing"
	"time"

	"superd/config"
)

// TestConditions: what other instances mean for a start, a run and a stop.
func TestConditions(t *testing.T) {
	blocked, conflict := Conditions{AwaitsOthers: true, DependentsDown: true}, Conditions{Held: true, DependentsDown: true}
	lost, ordered := Conditions{AwaitsOthers: true, Lost: true, DependentsDown: true}, Conditions{Ordered: true, DependentsDown: true}
	start := func(c Conditions) func(m *Machine) {
		return func(m *Machine) { m.WantUp(By(ActorConfiguration), false, c) }
	}
	run := func(m *Machine) { start(free)(m); spawned(m) }
	reconcile := func(c Conditions) func(m *Machine) Transition {
		return func(m *Machine) Transition { got, _ := m.Reconcile(c, lostReasons); return got }
	}
	stop := func(c Conditions) func(m *Machine) Transition {
		return func(m *Machine) Transition { return m.WantDown(By(ActorOperator), c) }
	}
	restart := func(c Conditions) func(m *Machine) Transition {
		return func(m *Machine) Transition { return m.WantRestart(By(ActorOperator), true, c) }
	}
	exits := func(c Conditions) func(m *Machine) Transition {
		return func(m *Machine) Transition { return m.Exited(RunEnd{Exit: exitThree}, c, testRand()) }
	}
	pending := func(m *Machine) { run(m); restart(needed)(m) }
	tests := []struct {
		name  string
		steps func(m *Machine)
		last  func(m *Machine) Transition
		want  State
		some  Effect // one of the effects; 0 (Spawn) is checked by the state
	}{
		{"a blocked start waits", start(blocked), reconcile(blocked), Waiting, 0},
		{"a start with a conflict waits", start(conflict), reconcile(conflict), Waiting, 0},
		{"a blocked start begins when it is free", start(blocked), reconcile(free), Spawning, 0},
		{"a start with orderings waits for the turn", start(ordered), reconcile(ordered), Spawning, Spawn},
		{"a start whose requirement is lost is cancelled", start(free), reconcile(lost), Spawning, CancelSpawn},
		{"a run whose requirement is lost ends", run, reconcile(lost), Stopping, SignalStop},
		{"a spawn whose requirement is lost ends", start(free), func(m *Machine) Transition { return m.Spawned(true, lost) }, Stopping, SignalStop},
		{"a stop without dependents begins at once", run, stop(free), Stopping, SignalStop},
		{"a stop waits for dependents", run, stop(needed), StopPending, 0},
		{"a stop waits while dependents live", pending, reconcile(needed), StopPending, 0},
		{"a stop begins when dependents are down", pending, reconcile(free), Stopping, SignalStop},
		{"a stop in a hurry does not wait", pending, (*Machine).StopNow, Stopping, SignalStop},
		{"a start cancels a stop that waits", func(m *Machine) { run(m); stop(needed)(m) },
			func(m *Machine) Transition { return m.WantUp(By(ActorOperator), true, free) }, Running, StartMonitoring},
		{"a start does not cancel a restart that waits", pending,
			func(m *Machine) Transition { return m.WantUp(By(ActorOperator), true, free) }, StopPending, 0},
		{"a lost requirement that is back cancels the stop",
			func(m *Machine) {
				run(m)
				m.Reconcile(Conditions{AwaitsOthers: true, Lost: true, HasDependents: true}, lostReasons)
			}, reconcile(free), Running, StartMonitoring},
		{"a restart of a stopped program waits for live dependents", func(*Machine) {}, restart(needed), Waiting, 0},
		{"it waits no longer", func(m *Machine) { restart(needed)(m) }, reconcile(free), Spawning, Spawn},
		{"it waits for its requirement then", func(m *Machine) { restart(needed)(m) }, reconcile(blocked), Waiting, 0},
		{"a run that ends while its stop waits restarts", pending, exits(free), Spawning, EndRun},
		{"it waits for dependents that still live", pending, exits(needed), Waiting, EndRun},
		{"a retry waits for its requirement", func(m *Machine) { run(m); exits(free)(m) },
			func(m *Machine) Transition { return m.RestartDue(blocked) }, Waiting, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine(nil)
			tt.steps(m)
			got := tt.last(m)
			if m.state != tt.want || tt.some != 0 && !slices.Contains(got.Effects, tt.some) {
				t.Errorf("%v, %v; want %v, with %v", m.state.Name(), got.Effects, tt.want.Name(), tt.some)
			}
		})
	}
}

// TestSchedule: a program with a schedule runs once for each time, its retries included.
func TestSchedule(t *testing.T) {
	m := testMachine(func(p *config.Program) {
		p.Type, p.Schedule, p.Restart = config.TypeOneshot, "@daily", config.RestartOnFailure
		p.StartLimit = config.StartLimit{Failures: 2, Within: time.Minute}
	})
	due := Reason{ReasonScheduleDue, "noon"}
	if m.WantUp(By(ActorConfiguration), false, free); m.state != Waiting || !m.AwaitsTrigger() {
		t.Fatalf("at first %v, awaits its schedule: %v", m.state.Name(), m.AwaitsTrigger())
	}
	if _, ok := m.Reconcile(free, lostReasons); ok {
		t.Error("it is started before the time has come")
	}
	m.Trigger(due, free)
	spawned(m)
	if m.Exited(RunEnd{Exit: exitThree}, free, testRand()); m.state != Backoff || m.AwaitsTrigger() {
		t.Fatalf("after a failure %v, awaits its schedule: %v", m.state.Name(), m.AwaitsTrigger())
	}
	m.RestartDue(free)
	spawned(m)
	m.Exited(RunEnd{Exit: exitThree}, free, testRand())
	if want := "exit status 3 after 0s; start limit hit: 2 failures within 1m"; m.state != Waiting || m.exitReason.String() != want || m.startLimitHit {
		t.Errorf("after the last retry %v, %q, start limit hit: %v; want waiting, %q", m.state.Name(), m.exitReason, m.startLimitHit, want)
	}
	m.Trigger(due, free)
	spawned(m)
	if m.Exited(RunEnd{Exit: exitZero}, free, testRand()); m.state != Waiting || m.outcome != RunEndedDone || !m.AwaitsTrigger() {
		t.Errorf("after success %v, %v, awaits its schedule: %v", m.state.Name(), m.outcome, m.AwaitsTrigger())
	}
}

// TestShutdown: the desired state before the first of several shutdowns is remembered.
func TestShutdown(t *testing.T) {
	m := testMachine(nil)
	m.WantUp(By(ActorOperator), true, free)
	m.WantDown(By(ActorShutdown), free)
	m.WantDown(By(ActorShutdown), free)
	want := Target{true, By(ActorOperator)}
	if before, ok := m.DesiredBeforeShutdown(); !ok || before != want {
		t.Errorf("before the shutdown %v, %v; want %v", before, ok, want)
	}
	m.WantDown(By(ActorOperator), free)
	if before, ok := m.DesiredBeforeShutdown(); ok {
		t.Errorf("after another request, before the shutdown %v; want none", before)
	}
}

// TestQuarantine: a start is kept back until the leftover processes are gone, or an operator ends
// them.
func TestQuarantine(t *testing.T) {
	quarantined := func() *Machine {
		m := testMachine(nil)
		m.WantUp(By(ActorConfiguration), false, free)
		spawned(m)
		m.FailRun(HealthFailed, Reason{ReasonUnhealthy, "unhealthy"})
		m.WantRestart(By(ActorOperator), true, free)
		if got := m.Quarantine(Reason{ReasonQuarantined, "7 is alive"}); got.From != Stopping || got.To != Stopped || m.StateReason().Kind != ReasonQuarantined {
			t.Fatalf("quarantine: %+v", got)
		}
		return m
	}
	t.Run("an operator ends them", func(t *testing.T) {
		m := quarantined()
		if got := m.EndQuarantine(); got.To != TearingDown || !slices.Equal(got.Effects, []Effect{Teardown}) {
			t.Errorf("%+v", got)
		}
		if m.TornDown(free, testRand()); m.state != Stopped || m.stateReason.String() != "stopped by the operator: leftover processes of an earlier run ended" {
			t.Errorf("%v, %q", m.state.Name(), m.stateReason)
		}
		if m.restartPending || m.runPending {
			t.Errorf("stopped, a restart is pending: %v, a run is: %v", m.restartPending, m.runPending)
		}
	})
	t.Run("they are gone", func(t *testing.T) {
		m := quarantined()
		m.QuarantineLifted()
		m.WantUp(m.desired.By, false, free)
		spawned(m)
		m.Exited(RunEnd{Exit: exitZero, Stable: time.Minute}, free, testRand())
		if m.failed || m.exitReason.String() != "exit status 0 after 0s" {
			t.Errorf("the next run failed: %v, %q; the failure is of the run before", m.failed, m.exitReason)
		}
	})
}
