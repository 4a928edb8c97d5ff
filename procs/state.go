package procs

// A State is what one instance of a program is doing.
//
// Some share the name that is shown: Spawning, which begins with the pre_start hooks, and Starting; Lingering, Stopping, Killing, a stop
// whose time-out is over, and Clearing, in which the main process is gone and what it left is not.
type State uint8

// The states of an instance.
const (
	Stopped   State = iota // not wanted up
	Waiting                // wanted up; nothing of it lives, and something must happen before it may be started
	Spawning               // a worker prepares and spawns it
	Starting               // its main process lives and is not ready yet; the start time-out runs
	Running                // its main process lives, and is ready
	Lingering              // it is to be stopped, as soon as those who have to be down before it are
	Stopping               // the stop signal is sent; the stop time-out runs
	Killing                // SIGKILL is sent
	Clearing               // the main process is gone; what is left of its tree is ended, then the post_stop hooks run
	Backoff                // it ended; the restart timer is pending
	Exited                 // it ended as it should and stays down
	Failed                 // it ended badly, or could not be started, and stays down
	stateCount
)

var stateNames = [stateCount]string{
	Stopped: "Stopped", Waiting: "Waiting", Spawning: "Spawning", Starting: "Starting", Running: "Running", Lingering: "Lingering", Stopping: "Stopping",
	Killing: "Killing", Clearing: "Clearing", Backoff: "Backoff", Exited: "Exited", Failed: "Failed",
}

var shownNames = [stateCount]string{
	Stopped: "stopped", Waiting: "waiting", Spawning: "starting", Starting: "starting", Running: "running", Lingering: "stopping", Stopping: "stopping",
	Killing: "stopping", Clearing: "stopping", Backoff: "backoff", Exited: "exited", Failed: "failed",
}

// String returns the name under which the state is shown: stopped, waiting, starting, running, stopping,
// backoff, exited or failed.
func (s State) String() string { return shownNames[s] }

// AtRest reports whether nothing of the instance lives and nothing is about to be started.
func (s State) AtRest() bool { return s == Stopped || s == Exited || s == Failed }

// lives reports whether there is a main process.
func (s State) lives() bool {
	return s == Starting || s == Running || s == Lingering || s == Stopping || s == Killing
}

// Up reports whether the instance does what it is there for.
func (s State) Up() bool { return s == Running }

// An Event is what happened to an instance, with every condition already settled: the state and the event
// alone decide what follows.
type Event uint8

// The events of an instance.
const (
	WantUp         Event = iota // it is to be up
	WantDown                    // it is to be down
	Wait                        // it is to be up, and has to wait before it is started
	Linger                      // it is to go, after others
	Again                       // it is to be up, in a run that starts after this
	Spawned                     // the main process was started, and is ready by that
	SpawnedUnready              // it was started, and has yet to become ready
	SpawnedStale                // it was started, but that run is not wanted any more
	Ready                       // it is ready
	StartDue                    // the start time-out is over, and it is not ready
	Unfit                       // it runs, but not as it should: the run is to end
	WatchdogDue                 // it has not told in time that it lives
	Left                        // the main process is gone, or came to nothing, and there is something to clear
	EndRetry                    // the run is over; the next one comes after a delay
	EndDone                     // the run is over, as it should; it stays down
	EndGaveUp                   // the run is over, badly, and the start limit is reached; it is tried again slowly
	EndFinal                    // the run is over, badly; it stays down
	EndDown                     // the run is over; it is to be down
	EndAgain                    // the run is over; the next one is wanted at once
	EndWait                     // the run is over; the next one is wanted, and has to wait
	StopDue                     // the stop time-out is over
	KillDue                     // the process has not ended although SIGKILL was sent
	RestartDue                  // the delay before the next start is over
	eventCount
)

var eventNames = [eventCount]string{
	WantUp: "WantUp", WantDown: "WantDown", Wait: "Wait", Linger: "Linger", Again: "Again", Spawned: "Spawned", SpawnedUnready: "SpawnedUnready",
	SpawnedStale: "SpawnedStale", Ready: "Ready", StartDue: "StartDue", Unfit: "Unfit", WatchdogDue: "WatchdogDue", Left: "Left",
	EndRetry: "EndRetry", EndDone: "EndDone", EndGaveUp: "EndGaveUp", EndFinal: "EndFinal", EndDown: "EndDown", EndAgain: "EndAgain", EndWait: "EndWait",
	StopDue: "StopDue", KillDue: "KillDue", RestartDue: "RestartDue",
}

// String returns the event's identifier.
func (e Event) String() string { return eventNames[e] }

// An Effect is what the supervisor does after a step, in the order given.
type Effect uint8

// The effects of a step.
const (
	Spawn       Effect = iota // run the pre_start hooks, then have a worker start the main process
	CallOff                   // call that off, if it is not too late
	AwaitReady                // look whether it becomes ready; StartDue after the start time-out
	Attend                    // look after who is ready: health checks and watchdog
	Clear                     // end what is left of the run's tree, then run the post_stop hooks
	SignalStop                // stop signal, then SIGCONT, to the process group
	SignalAbort               // SIGABRT, then SIGCONT, to the process group
	SignalKill                // SIGKILL to those whom kill_mode names
	ArmStop                   // StopDue after the stop time-out
	ArmKill                   // KillDue after a moment
	NameStuck                 // say which process does not die and what it waits in
	EndRun                    // close the run's scope
	ArmRestart                // RestartDue after the machine's delay
	Disarm                    // forget the pending RestartDue
	effectCount
)

var effectNames = [effectCount]string{
	Spawn: "Spawn", CallOff: "CallOff", AwaitReady: "AwaitReady", Attend: "Attend", Clear: "Clear", SignalStop: "SignalStop", SignalAbort: "SignalAbort",
	SignalKill: "SignalKill", ArmStop: "ArmStop", ArmKill: "ArmKill",
	NameStuck: "NameStuck", EndRun: "EndRun", ArmRestart: "ArmRestart", Disarm: "Disarm",
}

// String returns the effect's identifier.
func (e Effect) String() string { return effectNames[e] }
