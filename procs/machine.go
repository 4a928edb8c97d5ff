package procs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

	ties      // to other programs
	wanted    wish
	overruled *wish  // what was wanted before the shutdown; nil without one
	blame     string // why superd itself ends the present run, which then counts as a failure; empty if nothing

	attempts int             // ends in a row without a stable run: the exponent of the back-off
	failures []time.Duration // when it failed, within the window of the start limit
	restarts int             // automatic ones since the operator's last start
	delay    time.Duration   // until RestartDue, for ArmRestart

	why    string // why the present or next run is started: "by the operator"
	ending string // how the last run ended: "exit status 3 after 12ms"
	cause  string // why the state is what it is

	state    State
	verdict  Event // what follows the present run when nothing of it is left, unless something else is wanted by then
	stale    bool  // the present run is by another table than the program has now: it is not to go on, whatever is wanted
	hindered bool  // somebody has to be gone before it may be started
	again    bool  // a run that starts later than the present one is wanted
	owed     bool  // of a program with a schedule: a run is due or under way, its retries included
	gaveUp   bool  // the start limit was reached and no run was stable since

	// Of the last run:
	notStarted bool // it came to its end before its main process was there
	amiss      bool // it has failed, whatever its exit status: it was never ready, or superd itself has ended it
	starved    bool // for want of something that the machine was short of
}

// newMachine returns a machine without ties: a part of its instance.
func newMachine(program *config.Program, rng *rand.Rand) machine {
	return machine{program: program, rng: rng, cause: "not started yet"}
}

// theConfiguration is who wants up what nobody has asked for, as reasons name it.
const theConfiguration = "the configuration"

// theShutdown is who wants everything down, as reasons name it.
const theShutdown = "the shutdown"

// wish notes what is wanted now.
func (m *machine) wish(up bool, by string) {
	if by != theShutdown {
		m.overruled = nil
	} else if m.wanted.by != theShutdown {
		m.overruled = new(m.wanted)
	}
	m.wanted = wish{up, by}
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
	if slices.Contains(r.effects, EndRun) {
		m.stale = false
	}
	return r.effects
}

// startedBy and byWhom say who has wanted it. Those who start thousands are said in the same words each time, which are in memory once.
func startedBy(by string) string {
	switch by {
	case theConfiguration:
		return "started by " + theConfiguration
	case operator:
		return "started by " + operator
	}
	return "started by " + by
}

func byWhom(by string) string {
	switch by {
	case theConfiguration:
		return "by " + theConfiguration
	case operator:
		return "by " + operator
	}
	return "by " + by
}

// wantUp is a start. From the operator it clears every limit and counter.
func (m *machine) wantUp(by string, operator bool) []Effect {
	m.wish(true, by)
	if operator {
		m.forgive()
		m.owed = true
	}
	switch m.state {
	case Starting, Running:
	case Lingering:
		if m.unwanted() {
			return m.step(Linger)
		}
		return m.stay()
	case Stopping, Killing, Clearing:
		m.verdict, m.blame = EndAgain, ""
		m.why = byWhom(by)
		m.cause = "stopping; then started by " + by
	default:
		m.why = byWhom(by)
		m.cause = startedBy(by)
	}
	return m.step(m.unlessOrdered(WantUp))
}

// unlessBlocked returns e, a start, or what takes its place where that has to wait.
func (m *machine) unlessBlocked(e Event) Event {
	if m.blocked() && rules[m.state][Wait] != nil {
		return Wait
	}
	return e
}

// unlessOrdered is unlessBlocked for a start that somebody asks for. Where it comes after others it always waits until the turn's other work is done: those
// may be asked for in the same breath, and only then is it known for whom it has to wait.
func (m *machine) unlessOrdered(e Event) Event {
	if m.follows > 0 && rules[m.state][Wait] != nil {
		return Wait
	}
	return m.unlessBlocked(e)
}

// blocked reports whether a start has to wait: for room, for what it requires or comes after, for its schedule, or, where a new run was asked for,
// until those who require it are down.
func (m *machine) blocked() bool {
	return m.hindered || m.short() || m.awaitsSchedule() || m.again && !m.lastLeft()
}

// unwanted reports whether a run that is there, or is about to be, has to end.
func (m *machine) unwanted() bool { return !m.wanted.up || m.again || m.stale || m.lacking() }

// freed is the end of the wait, or of that part of it which was for those who had to be down before a new run.
func (m *machine) freed() []Effect {
	m.again = false
	m.cause = "started " + m.why
	return m.step(m.unlessBlocked(WantUp))
}

// block is the loss of something that it requires: it goes, and stays wanted up. cause tells what is lost, why what brings it back.
func (m *machine) block(cause, why string) []Effect {
	m.cause, m.why = "stopping: "+cause, why
	return m.end(Again)
}

// end is the beginning of the end of a run, be it by WantDown or by Again: others may have to be down before. What is not ready yet waits for
// nobody: those who run on since they were started with the run before do without it anyway.
func (m *machine) end(e Event) []Effect {
	if m.state == Lingering || m.state == Running && (m.own.users > 0 || m.own.after > 0) {
		return m.step(Linger)
	}
	return m.step(e)
}

// stay is the end of a stop that has not begun: it goes on as if nothing had been.
func (m *machine) stay() []Effect {
	m.cause = "running: the stop was taken back before its turn came"
	return m.step(WantUp)
}

// leave is the stop when its turn has come.
func (m *machine) leave() []Effect {
	if m.wanted.up {
		return m.step(Again)
	}
	return m.step(WantDown)
}

// wantAgain is a restart: whatever the state, a run is wanted that starts after this. From the operator it clears
// every limit and counter.
func (m *machine) wantAgain(by string, operator bool) []Effect {
	m.wish(true, by)
	m.again = true
	m.why = byWhom(by)
	if operator {
		m.forgive()
		m.owed = true
	} else { // a changed program owes nothing to the old one
		m.attempts, m.failures, m.gaveUp = 0, nil, false
	}
	switch m.state {
	case Starting, Running, Lingering, Stopping, Killing, Clearing:
		m.cause = "stopping, to be restarted by " + by
	case Spawning:
		m.cause = startedBy(by)
	default:
		m.again = !m.lastLeft() // it is down: there is only the question whether those who require it are
		m.cause = startedBy(by)
	}
	return m.end(m.unlessOrdered(Again))
}

// awaitsSchedule reports whether nothing is to be started before a time of the program's schedule comes.
func (m *machine) awaitsSchedule() bool { return m.program.Scheduled() && !m.owed }

// scheduleDue is a time of the schedule that has come. why says so, as a reason to be started.
func (m *machine) scheduleDue(why string) []Effect {
	m.owed, m.attempts, m.failures, m.gaveUp = true, 0, nil, false
	m.why = why
	m.cause = "started " + why
	return m.step(m.unlessBlocked(WantUp))
}

// wantDown is a stop.
func (m *machine) wantDown(by string) []Effect {
	m.wish(false, by)
	m.again = false
	m.owed = m.owed && by == theShutdown // which may be void
	switch {
	case m.state == Spawning || m.state.lives() || m.state == Clearing:
		m.cause = "stopping by " + by
	case m.ending != "":
		m.cause = fmt.Sprintf("stopped by %s; before: %s", by, m.ending)
	default:
		m.cause = "stopped by " + by
	}
	return m.end(WantDown)
}

// forgive forgets what went wrong.
func (m *machine) forgive() {
	m.attempts, m.failures, m.gaveUp, m.restarts = 0, nil, false, 0
}

// spawned is a main process that was started. ready tells whether it is ready by that.
func (m *machine) spawned(ready bool) []Effect {
	if m.unwanted() {
		return m.step(SpawnedStale)
	}
	if m.cause != "started "+m.why { // usually it is
		m.cause = "started " + m.why
	}
	if !ready {
		return m.step(SpawnedUnready)
	}
	return m.step(Spawned)
}

// ready is a main process that has become ready, so long after its start.
func (m *machine) ready(after time.Duration) []Effect {
	m.cause = fmt.Sprintf("started %s; ready after %s", m.why, roundDuration(after))
	return m.step(Ready)
}

// condemn ends a run that is not as it should be, for the reason given. e is StartDue, Unfit or WatchdogDue.
func (m *machine) condemn(e Event, reason string) []Effect {
	m.blame = reason
	m.cause = "stopping: " + reason
	return m.step(e)
}

// A spawnFault tells how a failed spawn counts.
type spawnFault uint8

const (
	faultProgram  spawnFault = iota // something about the program: counts as a failure
	faultResource                   // the machine is short of something: tried again, never used up
	faultFinal                      // trying again is pointless until somebody changes the configuration
)

// spawnFailed is a start that failed at now (monotonic) for the reason given. left tells whether its hooks have left
// something to clear.
func (m *machine) spawnFailed(now time.Duration, reason string, fault spawnFault, left bool) []Effect {
	m.ending, m.cause, m.notStarted, m.starved = reason, reason, true, fault == faultResource
	switch {
	case m.unwanted():
		m.verdict = EndAgain // of what is not wanted any more: it doesn't count
	case fault == faultResource:
		m.verdict = m.retry()
	case fault == faultFinal || m.program.Restart == config.RestartNever:
		m.verdict = EndFinal
	case m.overLimit(now):
		m.verdict = m.giveUp()
	default:
		m.verdict = m.retry()
	}
	return m.over(left)
}

// interrupted is a start that superd's own end has cut short before its main process was there. left is as for spawnFailed.
func (m *machine) interrupted(left bool) []Effect {
	m.ending, m.verdict, m.notStarted, m.starved = "start interrupted: superd was killed", EndAgain, true, false
	m.cause, m.why = m.ending, "again: "+m.ending
	return m.over(left)
}

// calledOff is a start that was called off. left is as for spawnFailed.
func (m *machine) calledOff(left bool) []Effect {
	m.ending, m.verdict = "start called off", EndAgain
	return m.over(left)
}

// exited is the end of the main process at now (monotonic), after it ran for so long, and was ready for so long, 0 if it never was.
// note is what else is known of it; left tells whether there is something to clear before the run is over.
func (m *machine) exited(now time.Duration, exit pidfd.Exit, ran, stable time.Duration, note string, left bool) []Effect {
	m.ending, m.notStarted, m.starved = fmt.Sprintf("%s after %s", exit, roundDuration(ran)), false, false
	m.amiss = m.state == Starting || m.blame != ""
	if note != "" {
		m.ending += ", " + note
	}
	if stable >= m.program.Backoff.ResetAfter {
		m.attempts, m.gaveUp = 0, false
	}
	m.verdict = EndAgain // it was to be ended: over, unless it is to be down
	switch m.state {
	case Starting:
		m.ending += ", before it was ready"
		m.cause = m.ending
		m.verdict = m.failed(now)
	case Running:
		m.cause = m.ending
		m.verdict = m.judge(now, exit)
	case Lingering:
	case Killing:
		m.ending = fmt.Sprintf("killed after stop_timeout %s (%s)", m.program.StopTimeout, m.ending)
	default:
		m.ending = fmt.Sprintf("ended at the stop signal (%s)", m.ending)
	}
	if m.blame != "" {
		m.ending = m.blame + "; " + m.ending
		if m.blame = ""; !m.unwanted() { // of what is not wanted any more: it doesn't count
			m.cause = m.ending
			m.verdict = m.failed(now)
		}
	}
	return m.over(left)
}

// judge decides what follows an end that nobody asked for.
func (m *machine) judge(now time.Duration, exit pidfd.Exit) Event {
	success := exit.Known && exit.Signal == 0 && slices.Contains(m.program.SuccessExitCodes, exit.Code)
	switch {
	case success && m.program.Restart != config.RestartAlways:
		return EndDone
	case success:
		return m.retry()
	}
	return m.failed(now)
}

// failed decides what follows a run that has failed.
func (m *machine) failed(now time.Duration) Event {
	switch {
	case m.program.Restart == config.RestartNever:
		m.cause = m.ending + "; restart = \"never\""
		return EndFinal
	case m.overLimit(now):
		return m.giveUp()
	}
	return m.retry()
}

// over ends the run, at once or when what is left has been cleared.
func (m *machine) over(left bool) []Effect {
	if left {
		return m.step(Left)
	}
	return m.cleared()
}

// cleared is the end of a run: nothing of it is left.
func (m *machine) cleared() []Effect {
	switch {
	case !m.wanted.up:
		m.cause = fmt.Sprintf("stopped by %s: %s", m.wanted.by, m.ending)
		return m.step(EndDown)
	case m.program.Scheduled() && (!m.owed || !m.again && m.verdict != EndRetry && m.verdict != EndAgain):
		return m.untilNextTime()
	case m.again || m.verdict == EndAgain:
		if m.blocked() {
			return m.step(EndWait)
		}
		m.cause = "started " + m.why
		return m.step(EndAgain)
	}
	if m.verdict == EndRetry {
		m.attempts++
		m.delay = restartDelay(m.program.Backoff, m.attempts, m.rng)
	}
	return m.step(m.verdict)
}

// untilNextTime is the end of what was to be run for a time of the schedule. Whatever came of it, the next time is another one.
func (m *machine) untilNextTime() []Effect {
	if m.verdict == EndGaveUp || m.gaveUp {
		m.ending += fmt.Sprintf("; gave up after %s within %s", plural(m.program.StartLimit.Failures, "failure"), plain(m.program.StartLimit.Within))
	}
	m.settleRun()
	return m.step(EndWait)
}

// settleRun forgets a run that was owed.
func (m *machine) settleRun() {
	m.owed, m.again, m.attempts, m.failures, m.gaveUp = false, false, 0, nil, false
}

// reconsider decides anew what follows an end, before which the program had another table. success tells whether it ended well.
func (m *machine) reconsider(before *config.Program, success bool) {
	policy := m.program.Restart
	gaveUp := m.verdict == EndGaveUp || m.verdict == EndFinal && m.gaveUp && before.Restart != config.RestartNever
	switch {
	case m.verdict == EndAgain, m.starved: // it is not the policy that decides
	case success && policy != config.RestartAlways:
		m.conclude(EndDone)
	case policy == config.RestartNever:
		m.conclude(EndFinal)
	case gaveUp && m.program.StartLimit.Failures > 0:
		m.verdict = m.slowly()
	default:
		m.cause, m.verdict = m.ending, m.retry()
	}
}

// conclude has an end be final, e is EndDone or EndFinal, where it was not: the restart policy is another one by now.
func (m *machine) conclude(e Event) {
	if m.verdict == e {
		return
	}
	m.verdict = e
	m.cause = fmt.Sprintf("%s; restart = %q by now", m.ending, m.program.Restart)
}

// rest is the end of a wait in back-off, since the restart policy is another one by now. e is EndDone or EndFinal.
func (m *machine) rest(e Event) []Effect {
	m.conclude(e)
	if m.program.Scheduled() {
		m.ending = m.cause
		m.settleRun()
		return m.step(Wait)
	}
	return m.step(e)
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

// giveUp notes that the limit is reached and decides whether the program is tried again slowly.
func (m *machine) giveUp() Event {
	limit := m.program.StartLimit
	m.gaveUp = true
	m.failures = nil
	m.why = "by the slow retry after giving up"
	m.cause = fmt.Sprintf("%s; gave up after %d failures within %s", m.ending, limit.Failures, limit.Within)
	return m.slowly()
}

const notTriedAgain = "; retry_after = 0: not tried again"

// slowly decides whether a program that has given up is tried again, and notes when.
func (m *machine) slowly() Event {
	m.cause = strings.TrimSuffix(m.cause, notTriedAgain)
	if m.delay = m.program.StartLimit.RetryAfter; m.delay == 0 {
		m.cause += notTriedAgain
		return EndFinal
	}
	return EndGaveUp
}

// retry decides for another start, after the back-off.
func (m *machine) retry() Event {
	m.why = "again: " + m.ending
	return EndRetry
}

// restartDue is the end of the delay.
func (m *machine) restartDue() []Effect {
	m.restarts++
	m.cause = "started " + m.why
	return m.step(m.unlessBlocked(RestartDue))
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
