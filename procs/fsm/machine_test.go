package fsm

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"superd/config"
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

func testMachine(change func(*config.Program)) *Machine {
	program := testProgram()
	if change != nil {
		change(program)
	}
	m := New(program, nil)
	return &m
}

// notFound ends a start that fails by a fault of the program.
func notFound(m *Machine) Transition {
	return m.SpawnFailed(StartFailure{Reason: Reason{ReasonStartFailed, "no such file"}}, free, testRand())
}

// spawned ends a start with a ready main process.
func spawned(m *Machine) Transition { return m.Spawned(true, free) }

func testRand() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }

var (
	free   = Conditions{DependentsDown: true}
	needed = Conditions{HasDependents: true} // by live dependents

	lostReasons = func() (cause, why Reason) {
		return Reason{ReasonDependencyLost, "db"}, Reason{ReasonDependencyBack, "db is ready again"}
	}

	exitZero  = Exit{Known: true}
	exitThree = Exit{Known: true, Code: 3}
	exitKill  = Exit{Known: true, Signal: 9, Text: "killed by SIGKILL"}
	exitLost  = Exit{}
)

// TestSize: each instance has a machine.
func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(Machine{}); size > 216 {
		t.Errorf("a machine has %d bytes, want at most 216", size)
	}
}

// TestFailedStartNotWanted: a start that fails after another one was requested does not count.
func TestFailedStartNotWanted(t *testing.T) {
	m := testMachine(func(p *config.Program) {
		p.StartLimit = config.StartLimit{Failures: 2, Within: time.Minute}
	})
	m.WantUp(By(ActorConfiguration), false, free)
	m.WantRestart(By(ActorReload), false, free)
	notFound(m)
	if m.state != Spawning {
		t.Fatalf("state %v, want starting: the other one", m.state)
	}
	notFound(m)
	if m.state != Backoff {
		t.Errorf("after the first failure: %v, %s; want backoff", m.state, m.stateReason)
	}
}

func TestRestartDecision(t *testing.T) {
	tests := []struct {
		name    string
		restart config.Restart
		exit    Exit
		want    State
	}{
		{"always restarts after success", config.RestartAlways, exitZero, Backoff},
		{"always restarts after failure", config.RestartAlways, exitThree, Backoff},
		{"always restarts after a signal", config.RestartAlways, exitKill, Backoff},
		{"on-failure stays down after success", config.RestartOnFailure, exitZero, Exited},
		{"on-failure restarts after failure", config.RestartOnFailure, exitThree, Backoff},
		{"on-failure restarts after a signal", config.RestartOnFailure, exitKill, Backoff},
		{"on-failure restarts after an unknown end", config.RestartOnFailure, exitLost, Backoff},
		{"never is exited after success", config.RestartNever, exitZero, Exited},
		{"never is failed after failure", config.RestartNever, exitThree, Failed},
		{"never is failed after an unknown end", config.RestartNever, exitLost, Failed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine(func(p *config.Program) { p.Restart = tt.restart })
			m.WantUp(By(ActorConfiguration), false, free)
			m.Spawned(true, free)
			m.Exited(RunEnd{At: time.Second, Exit: tt.exit, Ran: time.Millisecond, Stable: time.Millisecond}, free, testRand())
			if m.state != tt.want {
				t.Errorf("after %v with restart = %v: state %v, want %v", tt.exit, tt.restart, m.state, tt.want)
			}
		})
	}
}

// TestSuccessOnConnect: what connections start waits for the next one after a success, and is
// restarted after a failure.
func TestSuccessOnConnect(t *testing.T) {
	for exit, want := range map[Exit]State{exitZero: Exited, exitThree: Backoff} {
		m := testMachine(func(p *config.Program) { p.Sockets = &config.ProgramSockets{OnConnect: true} })
		m.WantUp(By(ActorConnection), false, free)
		m.Spawned(true, free)
		m.Exited(RunEnd{At: time.Second, Exit: exit, Ran: time.Millisecond, Stable: time.Millisecond}, free, testRand())
		if m.state != want {
			t.Errorf("after %v: state %v, want %v", exit, m.state, want)
		}
	}
}

// TestNoRestartExitCodes: a code or a signal that prevents a restart, by restart policy, and before
// readiness.
func TestNoRestartExitCodes(t *testing.T) {
	tests := []struct {
		name    string
		restart config.Restart
		ready   bool
		exit    Exit
		want    State
	}{
		{"a failure stays down", config.RestartAlways, true, exitThree, Failed},
		{"a failure before readiness stays down", config.RestartAlways, false, exitThree, Failed},
		{"success stays down", config.RestartAlways, true, exitZero, Exited},
		{"on-failure, too", config.RestartOnFailure, true, exitThree, Failed},
		{"another code restarts", config.RestartAlways, true, Exit{Known: true, Code: 4}, Backoff},
		{"a signal stays down", config.RestartAlways, true, Exit{Known: true, Signal: 15}, Failed},
		{"another signal restarts", config.RestartAlways, true, Exit{Known: true, Signal: 3}, Backoff},
		{"its number as a code restarts", config.RestartAlways, true, Exit{Known: true, Code: 15}, Backoff},
		{"an unknown exit restarts", config.RestartAlways, true, Exit{}, Backoff},
	}
	codes := []config.ExitStatus{config.KilledBy(15), 0, 3}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine(func(p *config.Program) { p.Restart, p.NoRestartExitCodes = tt.restart, codes })
			m.WantUp(By(ActorConfiguration), false, free)
			m.Spawned(tt.ready, free)
			m.Exited(RunEnd{Exit: tt.exit}, free, testRand())
			if m.state != tt.want {
				t.Errorf("%v with restart = %v: %v, want %v", tt.exit, tt.restart, m.state, tt.want)
			}
		})
	}
	m := testMachine(func(p *config.Program) { p.NoRestartExitCodes = []config.ExitStatus{3} })
	m.WantUp(By(ActorConfiguration), false, free)
	m.Spawned(true, free)
	m.FailRun(HealthFailed, Reason{ReasonUnhealthy, "unhealthy"})
	if m.Exited(RunEnd{Exit: exitThree}, free, testRand()); m.state != Backoff {
		t.Errorf("unhealthy: %v, want a restart: the exit follows from superd's signal", m.state)
	}
}

func TestBackoffGrowsUntilStable(t *testing.T) {
	m := testMachine(nil)
	m.WantUp(By(ActorConfiguration), false, free)
	crash := func(ran time.Duration) time.Duration {
		m.Spawned(true, free)
		m.Exited(RunEnd{At: time.Hour, Exit: exitThree, Ran: ran, Stable: ran}, free, testRand())
		delay := m.delay
		m.RestartDue(free)
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
	m.WantRestart(By(ActorOperator), true, free)
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
	limited := func(retry time.Duration) *Machine {
		m := testMachine(func(p *config.Program) {
			p.StartLimit = config.StartLimit{Failures: 3, Within: time.Minute, RetryAfter: retry}
		})
		m.WantUp(By(ActorConfiguration), false, free)
		return m
	}
	fail := func(m *Machine, at time.Duration) {
		m.Spawned(true, free)
		m.Exited(RunEnd{At: at, Exit: exitThree, Ran: time.Millisecond, Stable: time.Millisecond}, free, testRand())
	}
	t.Run("start limit, then a slow retry", func(t *testing.T) {
		m := limited(10 * time.Minute)
		for i := range 3 {
			fail(m, time.Duration(i)*time.Second)
			if i < 2 {
				m.RestartDue(free)
			}
		}
		if m.state != Failed || m.delay != 10*time.Minute || !strings.Contains(m.stateReason.String(), "start limit hit: 3 failures") {
			t.Fatalf("after 3 failures: %v, delay %v, %q; want failed, 10m", m.state, m.delay, m.stateReason)
		}
		m.RestartDue(free)
		fail(m, time.Hour)
		if m.state != Failed {
			t.Errorf("a slow retry that fails: %v, want failed at once", m.state)
		}
	})
	t.Run("failures outside of the window do not count", func(t *testing.T) {
		m := limited(0)
		for i := range 10 {
			fail(m, time.Duration(i)*31*time.Second)
			if m.state != Backoff {
				t.Fatalf("failure %d, 31s after the last: %v, want backoff", i+1, m.state)
			}
			m.RestartDue(free)
		}
	})
	t.Run("without retry_after it stays failed", func(t *testing.T) {
		m := limited(0)
		for range 3 {
			notFound(m)
			if m.state == Backoff {
				m.RestartDue(free)
			}
		}
		if m.state != Failed || m.Retries() {
			t.Errorf("state %v, retries %v; want failed for good", m.state, m.Retries())
		}
	})
	t.Run("a shortage of the machine never counts", func(t *testing.T) {
		m := limited(0)
		for range 100 {
			m.SpawnFailed(StartFailure{Reason: Reason{ReasonShortage, "no processes left"}, Fault: FaultResource}, free, testRand())
			if m.state != Backoff {
				t.Fatalf("state %v, want backoff", m.state)
			}
			m.RestartDue(free)
		}
	})
	t.Run("the operator's start clears it", func(t *testing.T) {
		m := limited(0)
		for range 3 {
			notFound(m)
			if m.state == Backoff {
				m.RestartDue(free)
			}
		}
		m.WantUp(By(ActorOperator), true, free)
		notFound(m)
		if m.state != Backoff {
			t.Errorf("first failure after the operator's start: %v, want backoff", m.state)
		}
	})
}

func TestRequestsDuringSpawn(t *testing.T) {
	tests := []struct {
		name   string
		do     func(*Machine)
		result func(*Machine) Transition
		want   State
	}{
		{"stop, then it spawned", func(m *Machine) { m.WantDown(By(ActorOperator), free) }, spawned, Stopping},
		{"stop, then it was cancelled", func(m *Machine) { m.WantDown(By(ActorOperator), free) }, func(m *Machine) Transition { return m.SpawnCanceled(false, free) }, Stopped},
		{"stop, then it failed", func(m *Machine) { m.WantDown(By(ActorOperator), free) },
			notFound, Stopped},
		{"restart, then it spawned", func(m *Machine) { m.WantRestart(By(ActorOperator), true, free) }, spawned, Stopping},
		{"restart, then it was cancelled", func(m *Machine) { m.WantRestart(By(ActorOperator), true, free) }, func(m *Machine) Transition { return m.SpawnCanceled(false, free) }, Spawning},
		{"stop and start, then it spawned",
			func(m *Machine) { m.WantDown(By(ActorOperator), free); m.WantUp(By(ActorOperator), true, free) }, spawned, Running},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine(nil)
			m.WantUp(By(ActorConfiguration), false, free)
			tt.do(m)
			tt.result(m)
			if m.state != tt.want {
				t.Errorf("state %v, want %v", m.state.Name(), tt.want.Name())
			}
		})
	}
}

// TestStarting: what follows for a program that is not ready, or that fails its checks.
func TestStarting(t *testing.T) {
	limit := config.StartLimit{Failures: 1, Within: time.Minute}
	tests := []struct {
		name    string
		program func(p *config.Program)
		steps   func(m *Machine)
		want    State
		reason  string
	}{
		{"it is ready", nil, func(m *Machine) { m.Ready(time.Second) }, Running, "started by the configuration; ready after 1s"},
		{"success before readiness is a failure", func(p *config.Program) { p.Restart = config.RestartOnFailure },
			func(m *Machine) {
				m.Exited(RunEnd{Exit: exitZero, Ran: time.Second}, free, testRand())
			}, Backoff, "exit status 0 after 1s, before it was ready"},
		{"success before readiness is a failure, with restart = never", func(p *config.Program) { p.Restart = config.RestartNever },
			func(m *Machine) {
				m.Exited(RunEnd{Exit: exitZero, Ran: time.Second}, free, testRand())
			}, Failed, `exit status 0 after 1s, before it was ready; restart = "never"`},
		{"a start that takes too long backs off", nil, func(m *Machine) {
			m.FailRun(StartTimeout, Reason{ReasonStartTimeout, "not ready after 30s"})
			m.Exited(RunEnd{Exit: exitKill, Ran: time.Second}, free, testRand())
		}, Backoff, "not ready after 30s; ended by the stop signal (killed by SIGKILL after 1s)"},
		{"its leftover processes are ended before", nil, func(m *Machine) {
			m.FailRun(StartTimeout, Reason{ReasonStartTimeout, "not ready after 30s"})
			m.Exited(RunEnd{Exit: exitKill, Ran: time.Second, Leftovers: true}, free, testRand())
		}, TearingDown, "not ready after 30s; ended by the stop signal (killed by SIGKILL after 1s)"},
		{"it counts for the limit", func(p *config.Program) { p.StartLimit = limit }, func(m *Machine) {
			m.FailRun(StartTimeout, Reason{ReasonStartTimeout, "not ready after 30s"})
			m.Exited(RunEnd{Exit: exitKill, Ran: time.Second}, free, testRand())
		}, Failed, "not ready after 30s; ended by the stop signal (killed by SIGKILL after 1s); start limit hit: 1 failure within 1m; retry_after = 0: not retried"},
		{"not if it is to be down by then", func(p *config.Program) { p.StartLimit = limit }, func(m *Machine) {
			m.FailRun(StartTimeout, Reason{ReasonStartTimeout, "not ready after 30s"})
			m.WantDown(By(ActorOperator), free)
			m.Exited(RunEnd{Exit: exitKill, Ran: time.Second}, free, testRand())
		}, Stopped, "stopped by the operator: not ready after 30s; ended by the stop signal (killed by SIGKILL after 1s)"},
		{"a start by the operator follows at once", func(p *config.Program) { p.StartLimit = limit }, func(m *Machine) {
			m.FailRun(StartTimeout, Reason{ReasonStartTimeout, "not ready after 30s"})
			m.WantUp(By(ActorOperator), true, free)
			m.Exited(RunEnd{Exit: exitKill, Ran: time.Second}, free, testRand())
		}, Spawning, "started by the operator"},
		{"killed, it backs off, too", nil, func(m *Machine) {
			m.Ready(time.Second)
			m.FailRun(WatchdogTimeout, Reason{ReasonWatchdogTimeout, "no word"})
			m.StopTimedOut("SIGKILL")
			m.Exited(RunEnd{Exit: exitKill, Ran: time.Second}, free, testRand())
		}, Backoff, "no word; killed after stop_timeout 10s (killed by SIGKILL after 1s)"},
		{"unhealthy, it backs off", nil, func(m *Machine) {
			m.Ready(time.Second)
			m.FailRun(HealthFailed, Reason{ReasonUnhealthy, "unhealthy"})
			m.Exited(RunEnd{Exit: exitZero, Ran: time.Second}, free, testRand())
		}, Backoff, "unhealthy; ended by the stop signal (exit status 0 after 1s)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine(func(p *config.Program) {
				if tt.program != nil {
					tt.program(p)
				}
			})
			m.WantUp(By(ActorConfiguration), false, free)
			m.Spawned(false, free)
			if m.state != Starting {
				t.Fatalf("spawned, it is %s", m.state.Name())
			}
			tt.steps(m)
			if m.state != tt.want || m.stateReason.String() != tt.reason || m.failureReason.Kind != ReasonNone && tt.want != TearingDown {
				t.Errorf("state %s, reason %q, failure reason %q; want %s, %q", m.state.Name(), m.stateReason, m.failureReason, tt.want.Name(), tt.reason)
			}
		})
	}
}

// TestBackoffGrowsWithoutReadiness: only a run that was ready resets the backoff.
func TestBackoffGrowsWithoutReadiness(t *testing.T) {
	m := testMachine(func(*config.Program) {})
	m.WantUp(By(ActorConfiguration), false, free)
	for i := range 3 {
		m.Spawned(false, free)
		m.FailRun(StartTimeout, Reason{ReasonStartTimeout, "not ready after 30s"})
		m.Exited(RunEnd{Exit: exitKill, Ran: time.Hour}, free, testRand())
		if m.RestartAttempts() != i+1 {
			t.Fatalf("attempts %d after %d", m.restartAttempts, i+1)
		}
		m.RestartDue(free)
	}
	m.Spawned(false, free)
	m.Ready(time.Second)
	m.Exited(RunEnd{Exit: exitKill, Ran: time.Hour, Stable: time.Hour - time.Second}, free, testRand())
	if m.restartAttempts != 1 {
		t.Errorf("attempts %d after a run that was ready for an hour", m.restartAttempts)
	}
}
