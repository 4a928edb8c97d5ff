// Package fsm decides the life of one instance: its states, its events, and what follows from each.
//
// A [Machine] takes a request or an occurrence, with the [Conditions] that other instances set, and
// returns a [Transition] by value. The caller performs the effects in order, then publishes the new
// state and its reason. A method turns conditions and policy into one [Event]; state and event
// alone select the rule in the [Table]. The package does no I/O, reads no clock and knows no other
// instance, so that a test can explore every state. A machine has no lock: it belongs to the
// goroutine of the supervisor.
//
// # Flags beside the state
//
// The states say what exists: a spawn, a main process, leftover processes, a timer. A flag that may
// hold in several of them is no state, since it would double their rows in the table and change no
// rule:
//
//   - desired state: what is wanted is kept apart from what is. Each request is legal in each
//     state.
//   - outcome: how the run ends once the teardown is over. Seven states of a teardown would have
//     the same rules.
//   - failureReason: superd ends the run, which counts as a failure. It stops as any other does.
//   - outdated: the run has a superseded definition. It is read when the run could go on.
//   - restartPending: another run is requested. It holds in each state of a run and while the next
//     one waits; Spawn clears it.
//   - runPending: a run for the schedule is due. It holds from the wait through the run to the last
//     retry, and decides only which wait it is.
//   - startLimitHit: it outlives slow retries, until a run is stable.
//   - notStarted, failed, resourceShortage: results of the last run, in any state after it. They
//     are data for a later restart decision and for the exit status of superd.
//   - conflict: a fact about another instance, so one of the [Conditions].
//   - quarantine: the caller keeps it with the processes that it watches. The machine is Stopped.
//
// Whether the configuration has the instance is a machine of its own, [Membership].
package fsm

// A State is where an instance is in its life.
//
// Some states share a shown name: Spawning (with the pre_start hooks) and Starting are "starting";
// StopPending, Stopping, Killing and TearingDown are "stopping".
type State uint8

// The states of an instance.
const (
	Stopped     State = iota // down, as desired
	Waiting                  // wanted up; it has no run, and its start is blocked
	Spawning                 // pre_start hooks run, or a worker spawns the main process
	Starting                 // the main process lives and is not ready; the start time-out runs
	Running                  // the main process lives and is ready
	StopPending              // it must stop, once its dependents are down
	Stopping                 // the stop signal is sent, and the stop time-out runs
	Killing                  // SIGKILL is sent after the stop time-out
	// The main process is gone; leftover processes are killed and post_stop hooks run
	TearingDown
	Backoff // the run ended; the restart timer is pending
	Exited  // the run ended with success, and the instance stays down
	Failed  // the run or its start failed; the instance stays down, or is retried slowly
	StateCount
)

// AtRest reports whether the instance has no processes and no start is due at once.
func (s State) AtRest() bool { return s == Stopped || s == Exited || s == Failed }

// Serves reports whether there is a main process that has not been told to stop.
func (s State) Serves() bool { return s == Starting || s == Running || s == StopPending }

// Lives reports whether there is a main process.
func (s State) Lives() bool { return s.Serves() || s == Stopping || s == Killing }

// HasRun reports whether there is a run: from the first hook to the end of the teardown.
func (s State) HasRun() bool { return s == Spawning || s.Lives() || s == TearingDown }

// MayRetry reports whether a restart timer may be pending.
func (s State) MayRetry() bool { return rules[s][RestartDue] != nil }
