package fsm

import (
	"slices"
	"testing"
	"time"

	"superd/config"
)

// TestReevaluate: what follows from a changed definition, by state and change.
func TestReevaluate(t *testing.T) {
	up := func(m *Machine) { m.WantUp(By(ActorConfiguration), false, free); m.Spawned(true, free) }
	crash := func(m *Machine) {
		up(m)
		m.Exited(RunEnd{Exit: exitThree, Stable: time.Millisecond}, free, testRand())
	}
	crashWithLeftovers := func(m *Machine) {
		up(m)
		m.Exited(RunEnd{Exit: exitThree, Stable: time.Millisecond, Leftovers: true}, free, testRand())
	}
	success := func(m *Machine) { up(m); m.Exited(RunEnd{Exit: exitZero}, free, testRand()) }
	codes := func(p *config.Program) { p.NoRestartExitCodes = []config.ExitStatus{3} }
	policy := func(r config.Restart) func(p *config.Program) { return func(p *config.Program) { p.Restart = r } }
	limit := func(retry time.Duration) func(p *config.Program) {
		return func(p *config.Program) {
			p.StartLimit = config.StartLimit{Failures: 1, Within: time.Minute, RetryAfter: retry}
		}
	}
	successByNow := func(p *config.Program) { limit(0)(p); p.SuccessExitCodes = []int{3} }
	schedule := func(p *config.Program) { p.Type, p.Schedule = config.TypeOneshot, "@daily" }
	oneshot := func(p *config.Program) { p.Type = config.TypeOneshot }
	noAutostart := func(p *config.Program) { p.Autostart = false }
	none := func(*config.Program) {}
	tests := []struct {
		name          string
		before, after func(p *config.Program)
		steps         func(m *Machine)
		restarts      bool
		exit          Exit
		state         State
		effects       []Effect
		reason        string
		follows       bool
	}{
		{"a running program takes it", none, none, up, false, exitThree, Running, nil, "started by the configuration", false},
		{"a running program restarts for it", none, none, up, true, exitThree, Stopping, []Effect{SignalStop, ArmStop},
			"restart requested by the configuration (changed)", true},
		{"what is stopped stays stopped", none, none, func(m *Machine) { m.WantDown(By(ActorOperator), free) }, true, Exit{},
			Stopped, nil, "stopped by the operator", false},
		{"autostart is new", noAutostart, none, func(*Machine) {}, false, Exit{}, Spawning, []Effect{Spawn},
			"started by the configuration (changed)", true},
		{"autostart is new, after the operator's stop", noAutostart, none, func(m *Machine) { m.WantDown(By(ActorOperator), free) },
			false, Exit{}, Stopped, nil, "stopped by the operator", false},
		{"backoff goes on", none, none, crash, true, exitThree, Backoff, nil, "exit status 3 after 0s", false},
		{"backoff has another delay", none, func(p *config.Program) { p.Backoff.Initial = time.Second }, crash, false, exitThree,
			Backoff, []Effect{RearmRestart}, "exit status 3 after 0s", true},
		{"backoff ends: never", none, policy(config.RestartNever), crash, false, exitThree, Failed, []Effect{Disarm},
			`exit status 3 after 0s; restart is now "never"`, true},
		{"backoff ends: success by now", none, func(p *config.Program) {
			p.Restart, p.SuccessExitCodes = config.RestartOnFailure, []int{3}
		}, crash, false, exitThree, Exited, []Effect{Disarm}, `exit status 3 after 0s; restart is now "on-failure"`, true},
		{"backoff after a shortage", none, policy(config.RestartNever), func(m *Machine) {
			m.WantUp(By(ActorConfiguration), false, free)
			m.SpawnFailed(StartFailure{Reason: Reason{ReasonShortage, "no memory"}, Fault: FaultResource}, free, testRand())
		}, false, Exit{}, Backoff, nil, "no memory", false},
		{"exited, now always", policy(config.RestartNever), none, success, false, exitZero, Spawning, []Effect{Spawn},
			"started by the configuration (changed)", true},
		{"exited, and stays", policy(config.RestartNever), policy(config.RestartOnFailure), success, false, exitZero, Exited, nil,
			"exit status 0 after 0s", false},
		{"failed, now always", policy(config.RestartNever), none, crash, false, exitThree, Spawning, []Effect{Disarm, Spawn},
			"started by the configuration (changed)", true},
		{"start limit hit, now without a limit", limit(0), none, crash, false, exitThree, Spawning, []Effect{Disarm, Spawn},
			"started by the configuration (changed)", true},
		{"start limit hit, now with a retry", limit(0), limit(time.Hour), crash, false, exitThree, Failed, []Effect{RearmRestart},
			"exit status 3 after 0s; start limit hit: 1 failure within 1m", true},
		{"start limit hit, now without a retry", limit(time.Hour), limit(0), crash, false, exitThree, Failed, []Effect{Disarm},
			"exit status 3 after 0s; start limit hit: 1 failure within 1m; retry_after = 0: not retried", true},
		{"start limit hit, now never", limit(time.Hour), policy(config.RestartNever), crash, false, exitThree, Failed, []Effect{Disarm},
			`exit status 3 after 0s; restart is now "never"`, true},
		{"failed for good, now never", limit(0), policy(config.RestartNever), crash, false, exitThree, Failed, nil,
			"exit status 3 after 0s; start limit hit: 1 failure within 1m; retry_after = 0: not retried", false},
		{"start limit hit, success by now", limit(0), successByNow, crash, false, exitThree, Spawning, []Effect{Disarm, Spawn},
			"started by the configuration (changed)", true},
		{"start limit hit, success by now, on failure", limit(time.Hour), func(p *config.Program) {
			limit(time.Hour)(p)
			p.Restart, p.SuccessExitCodes = config.RestartOnFailure, []int{3}
		}, crash, false, exitThree, Exited, []Effect{Disarm}, `exit status 3 after 0s; restart is now "on-failure"`, true},
		{"start limit hit, success by now, not retried", limit(0), func(p *config.Program) {
			p.Restart, p.SuccessExitCodes = config.RestartNever, []int{3}
		}, crash, false, exitThree, Exited, []Effect{Disarm}, `exit status 3 after 0s; restart is now "never"`, true},
		{"start limit hit, success by now, without restart", limit(time.Hour), func(p *config.Program) {
			codes(p)
			p.SuccessExitCodes = []int{3}
		}, crash, false, exitThree, Exited, []Effect{Disarm}, "exit status 3 after 0s; no_restart_exit_codes has it", true},
		{"start limit hit, no restart after this code", limit(time.Hour), codes, crash, false, exitThree, Failed, []Effect{Disarm},
			"exit status 3 after 0s; no_restart_exit_codes has it", true},
		{"start limit hit, success by now, during the teardown", limit(0), successByNow, crashWithLeftovers, false, exitThree,
			TearingDown, nil, "exit status 3 after 0s", false},
		{"during the teardown", none, policy(config.RestartNever), crashWithLeftovers, false, exitThree, TearingDown, nil,
			`exit status 3 after 0s; restart is now "never"`, false},
		{"backoff ends: no restart after this code", none, codes, crash, false, exitThree, Failed, []Effect{Disarm},
			"exit status 3 after 0s; no_restart_exit_codes has it", true},
		{"failed by its exit code, and stays", codes, codes, crash, false, exitThree, Failed, nil,
			"exit status 3 after 0s; no_restart_exit_codes has it", false},
		{"failed by its exit code, which is gone", codes, none, crash, false, exitThree, Spawning, []Effect{Disarm, Spawn},
			"started by the configuration (changed)", true},
		{"during the teardown, by its exit code", codes, codes, crashWithLeftovers, false, exitThree, TearingDown, nil,
			"exit status 3 after 0s; no_restart_exit_codes has it", false},
		{"unhealthy, with that code", codes, codes, func(m *Machine) {
			up(m)
			m.FailRun(HealthFailed, Reason{ReasonUnhealthy, "unhealthy"})
			m.Exited(RunEnd{Exit: exitThree, Leftovers: true}, free, testRand())
		}, false, exitThree, TearingDown, nil, "unhealthy; ended by the stop signal (exit status 3 after 0s)", false},
		{"unhealthy, and that code is new", none, codes, func(m *Machine) {
			up(m)
			m.FailRun(HealthFailed, Reason{ReasonUnhealthy, "unhealthy"})
			m.Exited(RunEnd{Exit: exitThree}, free, testRand())
		}, false, exitThree, Backoff, nil, "unhealthy; ended by the stop signal (exit status 3 after 0s)", false},
		{"it has got a schedule", none, schedule, success, false, exitZero, Backoff, nil, "exit status 0 after 0s", false},
		{"it has got a schedule, exited", policy(config.RestartNever), schedule, success, false, exitZero, Waiting, nil,
			"started by the configuration (changed)", true},
		{"it has lost its schedule", schedule, oneshot, func(m *Machine) { m.WantUp(By(ActorConfiguration), false, free) }, false, Exit{},
			Stopped, nil, "stopped by the configuration (schedule removed)", true},
		{"it has got its schedule again", oneshot, schedule, func(m *Machine) { m.WantDown(By(ActorUnscheduled), free) }, false, Exit{},
			Waiting, nil, "started by the configuration (changed)", true},
		{"a mistake is corrected, without autostart", func(p *config.Program) { p.Invalid = config.Errors{{Key: "x"}} }, noAutostart,
			func(m *Machine) {
				m.WantUp(By(ActorConfiguration), false, free)
				m.SpawnFailed(StartFailure{Reason: Reason{ReasonInvalid, "x"}, Fault: FaultFinal}, free, testRand())
			}, true, Exit{}, Stopped, []Effect{Disarm}, "stopped by the configuration (changed); before: x", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine(tt.before)
			tt.steps(m)
			before, after := m.program, testProgram()
			tt.after(after)
			m.Redefine(after, tt.restarts)
			got, follows := m.Reevaluate(Change{Before: before, Restarts: tt.restarts, Exit: tt.exit}, free, testRand())
			if m.state != tt.state || follows != tt.follows || !slices.Equal(got.Effects, tt.effects) {
				t.Errorf("%v, %v, follows %v; want %v, %v, follows %v",
					m.state.Name(), got.Effects, follows, tt.state.Name(), tt.effects, tt.follows)
			}
			if m.stateReason.String() != tt.reason {
				t.Errorf("reason %q, want %q", m.stateReason, tt.reason)
			}
			if success := tt.exit.Success(after.SuccessExitCodes); success && m.startLimitHit {
				t.Error("the start limit stays hit by a success")
			}
		})
	}
}

// TestReasonOfARequestedRestart: a restart requested during the teardown keeps its reason, whatever
// a reload makes of the exit.
func TestReasonOfARequestedRestart(t *testing.T) {
	m := testMachine(func(*config.Program) {})
	m.WantUp(By(ActorConfiguration), false, free)
	m.Spawned(true, free)
	m.Exited(RunEnd{Exit: exitThree, Leftovers: true}, free, testRand())
	m.WantRestart(By(ActorRoll), true, free)
	before, after := m.program, testProgram()
	after.StartTimeout = time.Hour
	m.Redefine(after, false)
	m.Reevaluate(Change{Before: before, Exit: exitThree}, free, testRand())
	m.TornDown(free, testRand())
	if want := "started by the rolling restart"; m.stateReason.String() != want || m.startReason.String() != want {
		t.Errorf("reasons %q and %q, want %q", m.stateReason, m.startReason, want)
	}
}

// TestSlowRetryChanges: the delay is that of the new definition, and the kind says whether it is
// retried.
func TestSlowRetryChanges(t *testing.T) {
	limit := config.StartLimit{Failures: 1, Within: time.Minute}
	m := testMachine(func(p *config.Program) { p.StartLimit = limit })
	m.WantUp(By(ActorConfiguration), false, free)
	notFound(m)
	for _, retry := range []time.Duration{time.Hour, 2 * time.Hour, 0, time.Minute} {
		before, after := m.program, testProgram()
		limit.RetryAfter = retry
		after.StartLimit = limit
		m.Redefine(after, false)
		m.Reevaluate(Change{Before: before}, free, testRand())
		kind := ReasonStartLimit
		if retry == 0 {
			kind = ReasonStartLimitFinal
		}
		if m.state != Failed || m.Retries() != (retry > 0) || m.delay != retry || m.stateReason.Kind != kind {
			t.Errorf("retry_after = %v: %v, retries %v after %v, %v", retry, m.state, m.Retries(), m.delay, m.stateReason.Kind)
		}
	}
}

// TestOutdatedRun: a run that needs a restart for a new definition ends once that is possible.
func TestOutdatedRun(t *testing.T) {
	m := testMachine(nil)
	m.WantUp(By(ActorConfiguration), false, free)
	m.Redefine(testProgram(), true)
	if m.Spawned(true, free); m.state != Stopping || !m.outdated {
		t.Errorf("spawned with the old definition: %v, outdated %v; want it stopping", m.state.Name(), m.outdated)
	}
	if m.Exited(RunEnd{Exit: exitKill}, free, testRand()); m.state != Spawning || m.outdated {
		t.Errorf("after that: %v, outdated %v; want another start", m.state.Name(), m.outdated)
	}
}

// TestTriggeredRunGoesOn: a run that a time of the schedule or a connection has started goes on
// with the old definition, also while it is spawned: the connection would be lost.
func TestTriggeredRunGoesOn(t *testing.T) {
	for name, triggered := range map[string]func(p *config.Program){
		"a schedule":   func(p *config.Program) { p.Type, p.Schedule = config.TypeOneshot, "@daily" },
		"a connection": func(p *config.Program) { p.Sockets = &config.ProgramSockets{OnConnect: true, Accept: true} },
	} {
		m := testMachine(triggered)
		m.WantUp(By(ActorConfiguration), false, free)
		m.Trigger(Reason{}, free)
		if m.State() != Spawning {
			t.Fatalf("%s: %v after the trigger, want spawning", name, m.state.Name())
		}
		before, after := m.program, testProgram()
		triggered(after)
		m.Redefine(after, true)
		if _, ok := m.Reevaluate(Change{Before: before, Restarts: true}, free, testRand()); ok || m.MustEnd(free) {
			t.Errorf("%s: a step %v, must end %v; want that it goes on", name, ok, m.MustEnd(free))
		}
		if m.Spawned(false, free); !m.State().Serves() {
			t.Errorf("%s: %v, want that it serves", name, m.state.Name())
		}
	}
}

// TestTargetAfterChange: what is wanted of an instance that takes the place of another one.
func TestTargetAfterChange(t *testing.T) {
	schedule := func(p *config.Program) { p.Type, p.Schedule = config.TypeOneshot, "@daily" }
	oneshot := func(p *config.Program) { p.Type = config.TypeOneshot }
	autostart := func(p *config.Program) { p.Autostart = true }
	manual := func(p *config.Program) { p.Autostart = false }
	tests := []struct {
		name          string
		is            Target
		before, after func(*config.Program)
		want          Target
	}{
		{"it gets autostart", Target{By: By(ActorConfiguration)}, manual, autostart, Target{true, By(ActorReload)}},
		{"the operator has stopped it", Target{By: By(ActorOperator)}, manual, autostart, Target{By: By(ActorOperator)}},
		{"it loses its schedule", Target{true, By(ActorConfiguration)}, schedule, oneshot, Target{By: By(ActorUnscheduled)}},
		{"it gets a schedule again", Target{By: By(ActorUnscheduled)}, oneshot, schedule, Target{true, By(ActorReload)}},
		{"it loses autostart", Target{true, By(ActorConfiguration)}, autostart, manual, Target{true, By(ActorConfiguration)}},
	}
	for _, tt := range tests {
		before, after := &config.Program{Settings: new(config.Settings)}, &config.Program{Settings: new(config.Settings)}
		tt.before(before)
		tt.after(after)
		if got := tt.is.AfterChange(before, after); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
