package procs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"superd/config"
	"superd/pidfd"
)

// A wish is what somebody wants of an instance. It is kept apart from what the instance does.
type wish struct {
	up bool
	by string // "the configuration", "the operator", "the shutdown"
}

// A machine decides the life of one instance. It does no I/O: each method takes one thing that happened and
// returns what is to be done, so that the same code runs in production and in simulation.
type machine struct {
	program *config.Program // restart policy; a reload replaces it
	rng     *rand.Rand      // draws the jitter

	state  State
	wanted wish
	again  bool // a run that starts later than the present one is wanted

	attempts int             // ends in a row without a stable run: the exponent of the back-off
	failures []time.Duration // when it failed, within the window of the start limit
	gaveUp   bool            // the start limit was reached and no run was stable since
	restarts int             // automatic ones since the operator's last start
	delay    time.Duration   // until RestartDue, for ArmRestart

	why   string // why the present or next run is started: "by the operator"
	cause string // why the state is what it is
}

func newMachine(program *config.Program, rng *rand.Rand) *machine {
	return &machine{program: program, rng: rng, cause: "not started yet"}
}

// step looks up the table. An event that the table does not know in this state is a bug and panics.
func (m *machine) step(e Event) []Effect {
	r := rules[m.state][e]
	if r == nil {
		panic(fmt.Sprintf("step machine of %s: no rule for %s in %s", m.program.Name, e, stateNames[m.state]))
	}
	m.state = r.next
	if slices.Contains(r.effects, Spawn) {
		m.again = false
	}
	return r.effects
}

// wantUp is a start. From the operator it clears every limit and counter.
func (m *machine) wantUp(by string, operator bool) []Effect {
	m.wanted = wish{true, by}
	if operator {
		m.forgive()
	}
	switch m.state {
	case Running, Spawning:
		return m.step(WantUp)
	case Stopping, Killing:
		m.why = "by " + by
		m.cause = "stopping; then started by " + by
		return m.step(WantUp)
	default:
		m.why = "by " + by
		m.cause = "started by " + by
		return m.step(WantUp)
	}
}

// wantAgain is a restart: whatever the state, a run is wanted that starts after this. From the operator it clears
// every limit and counter.
func (m *machine) wantAgain(by string, operator bool) []Effect {
	m.wanted = wish{true, by}
	m.again = true
	m.why = "by " + by
	if operator {
		m.forgive()
	}
	switch m.state {
	case Running, Stopping, Killing:
		m.cause = "stopping, to be restarted by " + by
	default:
		m.cause = "started by " + by
	}
	return m.step(Again)
}

// wantDown is a stop.
func (m *machine) wantDown(by string) []Effect {
	m.wanted = wish{false, by}
	m.again = false
	switch m.state {
	case Running, Stopping, Killing, Spawning:
		m.cause = "stopping by " + by
	default:
		m.cause = "stopped by " + by
	}
	return m.step(WantDown)
}

// forgive forgets what went wrong.
func (m *machine) forgive() {
	m.attempts, m.failures, m.gaveUp, m.restarts = 0, nil, false, 0
}

// spawned is a spawn that succeeded.
func (m *machine) spawned() []Effect {
	if !m.wanted.up || m.again {
		return m.step(SpawnedStale)
	}
	m.cause = "started " + m.why
	return m.step(Spawned)
}

// A spawnFault tells how a failed spawn counts.
type spawnFault uint8

const (
	faultProgram  spawnFault = iota // something about the program: counts as a failure
	faultResource                   // the machine is short of something: tried again, never used up
	faultFinal                      // trying again is pointless until somebody changes the configuration
)

// spawnFailed is a spawn that failed at now (monotonic) for the reason given.
func (m *machine) spawnFailed(now time.Duration, reason string, fault spawnFault) []Effect {
	if effects, done := m.settled(); done {
		return effects
	}
	switch {
	case fault == faultResource:
		m.retry(reason)
		return m.step(SpawnRetry)
	case fault == faultFinal || m.program.Restart == config.RestartNever:
		m.cause = reason
		return m.step(SpawnFinal)
	case m.overLimit(now):
		if m.giveUp(reason) {
			return m.step(SpawnGaveUp)
		}
		return m.step(SpawnFinal)
	}
	m.retry(reason)
	return m.step(SpawnRetry)
}

// calledOff is a spawn that was called off before anything was started.
func (m *machine) calledOff() []Effect {
	effects, _ := m.settled()
	return effects
}

// settled ends a spawn that came to nothing in the way that was asked for meanwhile, if anything was.
func (m *machine) settled() (effects []Effect, done bool) {
	switch {
	case !m.wanted.up:
		m.cause = "stopped by " + m.wanted.by
		return m.step(SpawnDown), true
	case m.again:
		return m.step(SpawnAgain), true
	}
	return nil, false
}

// exited is the end of the main process at now (monotonic), after it ran for so long.
func (m *machine) exited(now time.Duration, exit pidfd.Exit, ran time.Duration) []Effect {
	text := fmt.Sprintf("%s after %s", exit, roundDuration(ran))
	if m.state == Stopping || m.state == Killing {
		if m.wanted.up {
			m.cause = "restarted " + m.why
			return m.step(ExitAgain)
		}
		m.cause = fmt.Sprintf("stopped by %s: %s", m.wanted.by, text)
		return m.step(ExitDown)
	}
	if ran >= m.program.Backoff.ResetAfter {
		m.attempts, m.gaveUp = 0, false
	}
	success := exit.Known && exit.Signal == 0 && slices.Contains(m.program.SuccessExitCodes, exit.Code)
	switch {
	case success && m.program.Restart != config.RestartAlways:
		m.cause = text
		return m.step(ExitDone)
	case m.program.Restart == config.RestartNever:
		m.cause = text + "; restart = \"never\""
		return m.step(ExitFinal)
	case !success && m.overLimit(now):
		if m.giveUp(text) {
			return m.step(ExitGaveUp)
		}
		return m.step(ExitFinal)
	}
	m.retry(text)
	return m.step(ExitRetry)
}

// overLimit counts a failure at now and reports whether the start limit is reached.
func (m *machine) overLimit(now time.Duration) bool {
	limit := m.program.StartLimit
	if limit.Failures == 0 {
		return false
	}
	m.failures = append(slices.DeleteFunc(m.failures, func(at time.Duration) bool { return now-at > limit.Within }), now)
	return m.gaveUp || len(m.failures) >= limit.Failures
}

// giveUp notes that the limit is reached and reports whether the program is tried again slowly.
func (m *machine) giveUp(reason string) bool {
	limit := m.program.StartLimit
	m.gaveUp = true
	m.failures = nil
	m.delay = limit.RetryAfter
	m.why = "by the slow retry after giving up"
	m.cause = fmt.Sprintf("%s; gave up after %d failures within %s", reason, limit.Failures, limit.Within)
	if m.delay == 0 {
		m.cause += "; retry_after = 0: not tried again"
	}
	return m.delay > 0
}

// retry draws the delay before the next start.
func (m *machine) retry(reason string) {
	m.attempts++
	m.delay = restartDelay(m.program.Backoff, m.attempts, m.rng)
	m.why = "again: " + reason
	m.cause = reason
}

// restartDue is the end of the delay.
func (m *machine) restartDue() []Effect {
	m.restarts++
	m.cause = "started " + m.why
	return m.step(RestartDue)
}

// stopDue is the end of the stop time-out.
func (m *machine) stopDue() []Effect {
	m.cause += ": still there after the stop time-out, SIGKILL sent"
	return m.step(StopDue)
}

// killDue is a process that SIGKILL did not end.
func (m *machine) killDue() []Effect { return m.step(KillDue) }

// roundDuration cuts d to three or four digits, for showing.
func roundDuration(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d
}
