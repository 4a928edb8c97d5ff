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
)

func testProgram() *config.Program {
	return &config.Program{
		Name:             "web",
		Command:          []string{"/bin/web"},
		Replicas:         1,
		Autostart:        true,
		Restart:          config.RestartAlways,
		SuccessExitCodes: []int{0},
		Backoff:          config.Backoff{Initial: 100 * time.Millisecond, Max: time.Minute, Factor: 2, ResetAfter: 10 * time.Second},
		StartTimeout:     30 * time.Second,
		StopSignal:       syscall.SIGTERM,
		StopTimeout:      10 * time.Second,
		KillMode:         config.KillTree,
	}
}

func testMachine(change func(*config.Program)) *machine {
	program := testProgram()
	if change != nil {
		change(program)
	}
	return newMachine(program, rand.New(rand.NewPCG(1, 1)))
}

var (
	exitZero  = pidfd.Exit{Known: true}
	exitThree = pidfd.Exit{Known: true, Code: 3}
	exitKill  = pidfd.Exit{Known: true, Signal: syscall.SIGKILL}
	exitLost  = pidfd.Exit{}
)

// TestFailedStartNotWanted: a start that fails after another one was asked for doesn't count.
func TestFailedStartNotWanted(t *testing.T) {
	m := testMachine(func(p *config.Program) {
		p.StartLimit = config.StartLimit{Failures: 2, Within: time.Minute}
	})
	m.wantUp("the configuration", false)
	m.wantAgain("the configuration: changed", false)
	m.spawnFailed(0, "no such file", faultProgram, false)
	if m.state != Spawning {
		t.Fatalf("state %v, want starting: the other one", m.state)
	}
	m.spawnFailed(0, "no such file", faultProgram, false)
	if m.state != Backoff {
		t.Errorf("after the first failure: %v, %s; want back-off", m.state, m.cause)
	}
}

func TestWhatFollowsAnExit(t *testing.T) {
	tests := []struct {
		name    string
		restart config.Restart
		exit    pidfd.Exit
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
			m.wantUp("the configuration", false)
			m.spawned()
			m.exited(time.Second, tt.exit, time.Millisecond, "", false)
			if m.state != tt.want {
				t.Errorf("after %v with restart = %v: state %v, want %v", tt.exit, tt.restart, m.state, tt.want)
			}
		})
	}
}

func TestBackoffGrowsAndIsForgotten(t *testing.T) {
	m := testMachine(nil)
	m.wantUp("the configuration", false)
	crash := func(ran time.Duration) time.Duration {
		m.spawned()
		m.exited(time.Hour, exitThree, ran, "", false)
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
	m.wantAgain("the operator", true)
	if m.restarts != 0 || m.attempts != 0 {
		t.Errorf("after the operator's restart: %d restarts, %d attempts; want none", m.restarts, m.attempts)
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
		m.wantUp("the configuration", false)
		return m
	}
	fail := func(m *machine, at time.Duration) {
		m.spawned()
		m.exited(at, exitThree, time.Millisecond, "", false)
	}
	t.Run("gives up, and tries again slowly", func(t *testing.T) {
		m := limited(10 * time.Minute)
		for i := range 3 {
			fail(m, time.Duration(i)*time.Second)
			if i < 2 {
				m.restartDue()
			}
		}
		if m.state != Failed || m.delay != 10*time.Minute || !strings.Contains(m.cause, "gave up after 3 failures") {
			t.Fatalf("after 3 failures: %v, delay %v, %q; want failed, 10m", m.state, m.delay, m.cause)
		}
		m.restartDue()
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
			m.restartDue()
		}
	})
	t.Run("without retry_after it stays failed", func(t *testing.T) {
		m := limited(0)
		for range 3 {
			m.spawnFailed(0, "no such file", faultProgram, false)
			if m.state == Backoff {
				m.restartDue()
			}
		}
		if effects := rules[Spawning][EndFinal].effects; m.state != Failed || slices.Contains(effects, ArmRestart) {
			t.Errorf("state %v, effects %v; want failed without a timer", m.state, effects)
		}
	})
	t.Run("a shortage of the machine never counts", func(t *testing.T) {
		m := limited(0)
		for range 100 {
			m.spawnFailed(0, "no processes left", faultResource, false)
			if m.state != Backoff {
				t.Fatalf("state %v, want backoff", m.state)
			}
			m.restartDue()
		}
	})
	t.Run("the operator's start clears it", func(t *testing.T) {
		m := limited(0)
		for range 3 {
			m.spawnFailed(0, "no such file", faultProgram, false)
			if m.state == Backoff {
				m.restartDue()
			}
		}
		m.wantUp("the operator", true)
		m.spawnFailed(0, "no such file", faultProgram, false)
		if m.state != Backoff {
			t.Errorf("first failure after the operator's start: %v, want backoff", m.state)
		}
	})
}

func TestWishesMeetASpawnUnderWay(t *testing.T) {
	tests := []struct {
		name   string
		do     func(*machine)
		result func(*machine) []Effect
		want   State
	}{
		{"stop, then it spawned", func(m *machine) { m.wantDown("the operator") }, (*machine).spawned, Stopping},
		{"stop, then it was called off", func(m *machine) { m.wantDown("the operator") }, func(m *machine) []Effect { return m.calledOff(false) }, Stopped},
		{"stop, then it failed", func(m *machine) { m.wantDown("the operator") },
			func(m *machine) []Effect { return m.spawnFailed(0, "no such file", faultProgram, false) }, Stopped},
		{"restart, then it spawned", func(m *machine) { m.wantAgain("the operator", true) }, (*machine).spawned, Stopping},
		{"restart, then it was called off", func(m *machine) { m.wantAgain("the operator", true) }, func(m *machine) []Effect { return m.calledOff(false) }, Spawning},
		{"stop and start, then it spawned",
			func(m *machine) { m.wantDown("the operator"); m.wantUp("the operator", true) }, (*machine).spawned, Running},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine(nil)
			m.wantUp("the configuration", false)
			tt.do(m)
			tt.result(m)
			if m.state != tt.want {
				t.Errorf("state %v, want %v", stateNames[m.state], stateNames[tt.want])
			}
		})
	}
}
