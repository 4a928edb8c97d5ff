package procs

import (
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/deps"
	"superd/procs/fsm"
	"superd/procs/host"
)

func testProgram() *config.Program {
	return &config.Program{
		Name:    "web",
		Command: []string{"/bin/web"},
		Settings: &config.Settings{
			Replicas:         1,
			Autostart:        true,
			Restart:          config.RestartAlways,
			SuccessExitCodes: []int{0},
			Backoff:          config.Backoff{Initial: 100 * time.Millisecond, Max: time.Minute, Factor: 2, ResetAfter: 10 * time.Second},
			StartTimeout:     30 * time.Second,
			StopSignal:       syscall.SIGTERM,
			StopTimeout:      10 * time.Second,
			KillMode:         config.KillTree,
		},
	}
}

// A noOwner has nodes of no instance.
type noOwner struct{}

func (noOwner) Status(*instance) deps.Status { return deps.Status{} }
func (noOwner) Changed(*instance)            {}
func (noOwner) DependentsDown(*instance)     {}

func testMachine(change func(*config.Program)) *machine {
	program := testProgram()
	if change != nil {
		change(program)
	}
	m := newMachine(program, rand.New(rand.NewPCG(1, 1)))
	m.node = new(node)
	deps.New[*instance](noOwner{}).Add(m.node, nil, program.Name, false, deps.Links{})
	return &m
}

var (
	exitZero    = pidfd.Exit{Known: true}
	exitThree   = pidfd.Exit{Known: true, Code: 3}
	exitKill    = pidfd.Exit{Known: true, Signal: syscall.SIGKILL}
	exitUnknown = pidfd.Exit{}
)

// TestFailedStartNotWanted: a failed start does not count if another one was requested before it
// failed.
func TestFailedStartNotWanted(t *testing.T) {
	m := testMachine(func(p *config.Program) {
		p.StartLimit = config.StartLimit{Failures: 2, Within: time.Minute}
	})
	m.wantUp(fsm.By(fsm.ActorConfiguration), false)
	m.wantRestart(fsm.By(fsm.ActorReload), false)
	m.spawnFailed(0, fsm.ReasonStartFailed.With("no such file"), host.FaultProgram, false)
	if m.state != fsm.Spawning {
		t.Fatalf("state %v, want starting, by the second request", m.state)
	}
	m.spawnFailed(0, fsm.ReasonStartFailed.With("no such file"), host.FaultProgram, false)
	if m.state != fsm.Backoff {
		t.Errorf("after the first failure: %v, %s; want backoff", m.state, m.stateReason)
	}
}

func TestRestartPolicy(t *testing.T) {
	tests := []struct {
		name    string
		restart config.Restart
		exit    pidfd.Exit
		want    fsm.State
	}{
		{"always restarts after success", config.RestartAlways, exitZero, fsm.Backoff},
		{"always restarts after failure", config.RestartAlways, exitThree, fsm.Backoff},
		{"always restarts after a signal", config.RestartAlways, exitKill, fsm.Backoff},
		{"on-failure stays down after success", config.RestartOnFailure, exitZero, fsm.Exited},
		{"on-failure restarts after failure", config.RestartOnFailure, exitThree, fsm.Backoff},
		{"on-failure restarts after a signal", config.RestartOnFailure, exitKill, fsm.Backoff},
		{"on-failure restarts after an unknown exit", config.RestartOnFailure, exitUnknown, fsm.Backoff},
		{"never is exited after success", config.RestartNever, exitZero, fsm.Exited},
		{"never is failed after failure", config.RestartNever, exitThree, fsm.Failed},
		{"never is failed after an unknown exit", config.RestartNever, exitUnknown, fsm.Failed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine(func(p *config.Program) { p.Restart = tt.restart })
			m.wantUp(fsm.By(fsm.ActorConfiguration), false)
			m.spawned(true)
			m.exited(time.Second, tt.exit, time.Millisecond, time.Millisecond, fsm.Reason{}, false)
			if m.state != tt.want {
				t.Errorf("after %v with restart = %v: state %v, want %v", tt.exit, tt.restart, m.state, tt.want)
			}
		})
	}
}

func TestBackoffGrowsAndResets(t *testing.T) {
	m := testMachine(nil)
	m.wantUp(fsm.By(fsm.ActorConfiguration), false)
	crash := func(ran time.Duration) time.Duration {
		m.spawned(true)
		m.exited(time.Hour, exitThree, ran, ran, fsm.Reason{}, false)
		delay := m.delay
		m.restartDue()
		return delay
	}
	for i, want := range []time.Duration{100, 200, 400, 800, 1600} {
		if got := crash(time.Second); got != want*time.Millisecond {
			t.Errorf("delay %d = %v, want %v", i+1, got, want*time.Millisecond)
		}
	}
	if got := crash(10 * time.Second); got != 100*time.Millisecond {
		t.Errorf("delay after a stable run = %v, want 100ms", got)
	}
	for range 20 {
		crash(0)
	}
	if got := crash(0); got != time.Minute {
		t.Errorf("delay after many failures = %v, want the maximum of 1m0s", got)
	}
	if m.restarts != 27 {
		t.Errorf("restarts = %d, want 27", m.restarts)
	}
	m.wantRestart(fsm.By(fsm.ActorOperator), true)
	if m.restarts != 0 || m.restartAttempts != 0 {
		t.Errorf("after the operator's restart: %d restarts, %d attempts; want none", m.restarts, m.restartAttempts)
	}
}

func TestJitterIsBounded(t *testing.T) {
	b := config.Backoff{Initial: time.Second, Max: 4 * time.Second, Factor: 2, Jitter: 0.1}
	rng := rand.New(rand.NewPCG(1, 2))
	for attempt := 1; attempt < 2000; attempt++ { // far beyond where Factor^attempt overflows
		base := min(time.Second<<min(attempt-1, 10), 4*time.Second)
		got := restartDelay(b, attempt, rng)
		if got < base || got >= base+base/10+1 {
			t.Fatalf("restartDelay(attempt %d) = %v, want within [%v, %v)", attempt, got, base, base+base/10)
		}
	}
}

func TestStartLimit(t *testing.T) {
	limited := func(retry time.Duration) *machine {
		m := testMachine(func(p *config.Program) {
			p.StartLimit = config.StartLimit{Failures: 3, Within: time.Minute, RetryAfter: retry}
		})
		m.wantUp(fsm.By(fsm.ActorConfiguration), false)
		return m
	}
	fail := func(m *machine, at time.Duration) {
		m.spawned(true)
		m.exited(at, exitThree, time.Millisecond, time.Millisecond, fsm.Reason{}, false)
	}
	t.Run("start limit, then a slow retry", func(t *testing.T) {
		m := limited(10 * time.Minute)
		for i := range 3 {
			fail(m, time.Duration(i)*time.Second)
			if i < 2 {
				m.restartDue()
			}
		}
		if m.state != fsm.Failed || m.delay != 10*time.Minute || !strings.Contains(m.stateReason.String(), "start limit hit: 3 failures") {
			t.Fatalf("after 3 failures: %v, delay %v, %q; want failed, 10m", m.state, m.delay, m.stateReason)
		}
		m.restartDue()
		fail(m, time.Hour)
		if m.state != fsm.Failed {
			t.Errorf("a slow retry that fails: %v, want failed at once", m.state)
		}
	})
	t.Run("failures outside of the window do not count", func(t *testing.T) {
		m := limited(0)
		for i := range 10 {
			fail(m, time.Duration(i)*31*time.Second)
			if m.state != fsm.Backoff {
				t.Fatalf("failure %d, 31s after the last: %v, want backoff", i+1, m.state)
			}
			m.restartDue()
		}
	})
	t.Run("without retry_after it stays failed", func(t *testing.T) {
		m := limited(0)
		for range 3 {
			m.spawnFailed(0, fsm.ReasonStartFailed.With("no such file"), host.FaultProgram, false)
			if m.state == fsm.Backoff {
				m.restartDue()
			}
		}
		if effects := rules[fsm.Spawning][fsm.RunEndedFinal].Effects; m.state != fsm.Failed || slices.Contains(effects, fsm.ArmRestart) {
			t.Errorf("state %v, effects %v; want failed without a timer", m.state, effects)
		}
	})
	t.Run("a resource shortage never counts", func(t *testing.T) {
		m := limited(0)
		for range 100 {
			m.spawnFailed(0, fsm.ReasonShortage.With("no processes left"), host.FaultResource, false)
			if m.state != fsm.Backoff {
				t.Fatalf("state %v, want backoff", m.state)
			}
			m.restartDue()
		}
	})
	t.Run("the operator's start resets the limit", func(t *testing.T) {
		m := limited(0)
		for range 3 {
			m.spawnFailed(0, fsm.ReasonStartFailed.With("no such file"), host.FaultProgram, false)
			if m.state == fsm.Backoff {
				m.restartDue()
			}
		}
		m.wantUp(fsm.By(fsm.ActorOperator), true)
		m.spawnFailed(0, fsm.ReasonStartFailed.With("no such file"), host.FaultProgram, false)
		if m.state != fsm.Backoff {
			t.Errorf("first failure after the operator's start: %v, want backoff", m.state)
		}
	})
}

func TestTargetChangesDuringSpawn(t *testing.T) {
	tests := []struct {
		name   string
		do     func(*machine)
		result func(*machine) []fsm.Effect
		want   fsm.State
	}{
		{"stop, then it spawned", func(m *machine) { m.wantDown(fsm.By(fsm.ActorOperator)) }, spawned, fsm.Stopping},
		{"stop, then it was cancelled", func(m *machine) { m.wantDown(fsm.By(fsm.ActorOperator)) }, func(m *machine) []fsm.Effect { return m.spawnCanceled(false) }, fsm.Stopped},
		{"stop, then it failed", func(m *machine) { m.wantDown(fsm.By(fsm.ActorOperator)) },
			func(m *machine) []fsm.Effect {
				return m.spawnFailed(0, fsm.ReasonStartFailed.With("no such file"), host.FaultProgram, false)
			}, fsm.Stopped},
		{"restart, then it spawned", func(m *machine) { m.wantRestart(fsm.By(fsm.ActorOperator), true) }, spawned, fsm.Stopping},
		{"restart, then it was cancelled", func(m *machine) { m.wantRestart(fsm.By(fsm.ActorOperator), true) }, func(m *machine) []fsm.Effect { return m.spawnCanceled(false) }, fsm.Spawning},
		{"stop and start, then it spawned",
			func(m *machine) { m.wantDown(fsm.By(fsm.ActorOperator)); m.wantUp(fsm.By(fsm.ActorOperator), true) }, spawned, fsm.Running},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine(nil)
			m.wantUp(fsm.By(fsm.ActorConfiguration), false)
			tt.do(m)
			tt.result(m)
			if m.state != tt.want {
				t.Errorf("state %v, want %v", m.state.Name(), tt.want.Name())
			}
		})
	}
}

func spawned(m *machine) []fsm.Effect { return m.spawned(true) }

// TestStarting: transitions of a program that is not ready, or that fails its checks.
func TestStarting(t *testing.T) {
	limit := config.StartLimit{Failures: 1, Within: time.Minute}
	tests := []struct {
		name    string
		program func(p *config.Program)
		steps   func(m *machine)
		want    fsm.State
		cause   string
	}{
		{"ready", nil, func(m *machine) { m.ready(time.Second) }, fsm.Running, "started by the configuration; ready after 1s"},
		{"success before readiness is a failure", func(p *config.Program) { p.Restart = config.RestartOnFailure },
			func(m *machine) { m.exited(0, exitZero, time.Second, 0, fsm.Reason{}, false) }, fsm.Backoff, "exit status 0 after 1s, before it was ready"},
		{"success before readiness is a failure without a restart, too", func(p *config.Program) { p.Restart = config.RestartNever },
			func(m *machine) { m.exited(0, exitZero, time.Second, 0, fsm.Reason{}, false) }, fsm.Failed, `exit status 0 after 1s, before it was ready; restart = "never"`},
		{"a start that takes too long backs off", nil, func(m *machine) {
			m.failRun(fsm.StartTimeout, fsm.ReasonStartTimeout.With("not ready after 30s"))
			m.exited(0, exitKill, time.Second, 0, fsm.Reason{}, false)
		}, fsm.Backoff, "not ready after 30s; ended by the stop signal (killed by SIGKILL after 1s)"},
		{"a teardown comes before the backoff", nil, func(m *machine) {
			m.failRun(fsm.StartTimeout, fsm.ReasonStartTimeout.With("not ready after 30s"))
			m.exited(0, exitKill, time.Second, 0, fsm.Reason{}, true)
		}, fsm.TearingDown, "not ready after 30s; ended by the stop signal (killed by SIGKILL after 1s)"},
		{"a start that takes too long counts for the start limit", func(p *config.Program) { p.StartLimit = limit }, func(m *machine) {
			m.failRun(fsm.StartTimeout, fsm.ReasonStartTimeout.With("not ready after 30s"))
			m.exited(0, exitKill, time.Second, 0, fsm.Reason{}, false)
		}, fsm.Failed, "not ready after 30s; ended by the stop signal (killed by SIGKILL after 1s); start limit hit: 1 failure within 1m; retry_after = 0: not retried"},
		{"it does not count if down is desired by then", func(p *config.Program) { p.StartLimit = limit }, func(m *machine) {
			m.failRun(fsm.StartTimeout, fsm.ReasonStartTimeout.With("not ready after 30s"))
			m.wantDown(fsm.By(fsm.ActorOperator))
			m.exited(0, exitKill, time.Second, 0, fsm.Reason{}, false)
		}, fsm.Stopped, "stopped by the operator: not ready after 30s; ended by the stop signal (killed by SIGKILL after 1s)"},
		{"a start by the operator needs no backoff", func(p *config.Program) { p.StartLimit = limit }, func(m *machine) {
			m.failRun(fsm.StartTimeout, fsm.ReasonStartTimeout.With("not ready after 30s"))
			m.wantUp(fsm.By(fsm.ActorOperator), true)
			m.exited(0, exitKill, time.Second, 0, fsm.Reason{}, false)
		}, fsm.Spawning, "started by the operator"},
		{"a watchdog time-out backs off", nil, func(m *machine) {
			m.ready(time.Second)
			m.failRun(fsm.WatchdogTimeout, fsm.ReasonWatchdogTimeout.With("no word"))
			m.stopTimeout()
			m.exited(0, exitKill, time.Second, 0, fsm.Reason{}, false)
		}, fsm.Backoff, "no word; killed after stop_timeout 10s (killed by SIGKILL after 1s)"},
		{"an unhealthy program backs off", nil, func(m *machine) {
			m.ready(time.Second)
			m.failRun(fsm.HealthFailed, fsm.ReasonUnhealthy.With("unhealthy"))
			m.exited(0, exitZero, time.Second, 0, fsm.Reason{}, false)
		}, fsm.Backoff, "unhealthy; ended by the stop signal (exit status 0 after 1s)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine(func(p *config.Program) {
				if tt.program != nil {
					tt.program(p)
				}
			})
			m.wantUp(fsm.By(fsm.ActorConfiguration), false)
			m.spawned(false)
			if m.state != fsm.Starting {
				t.Fatalf("state after the spawn: %s", m.state.Name())
			}
			tt.steps(m)
			if m.state != tt.want || m.stateReason.String() != tt.cause || m.failureReason.Kind != fsm.ReasonNone && tt.want != fsm.TearingDown {
				t.Errorf("state %s, reason %q, failure reason %q; want %s, %q", m.state.Name(), m.stateReason, m.failureReason, tt.want.Name(), tt.cause)
			}
		})
	}
}

// TestBackoffGrowsWithoutReadiness: only a run that was ready resets the backoff.
func TestBackoffGrowsWithoutReadiness(t *testing.T) {
	m := testMachine(func(*config.Program) {})
	m.wantUp(fsm.By(fsm.ActorConfiguration), false)
	for i := range 3 {
		m.spawned(false)
		m.failRun(fsm.StartTimeout, fsm.ReasonStartTimeout.With("not ready after 30s"))
		m.exited(0, exitKill, time.Hour, 0, fsm.Reason{}, false)
		if m.restartAttempts != i+1 {
			t.Fatalf("attempts %d after %d", m.restartAttempts, i+1)
		}
		m.restartDue()
	}
	m.spawned(false)
	m.ready(time.Second)
	m.exited(0, exitKill, time.Hour, time.Hour-time.Second, fsm.Reason{}, false)
	if m.restartAttempts != 1 {
		t.Errorf("attempts %d after a run that was ready for an hour", m.restartAttempts)
	}
}
