package procs

// A State is what one instance of a program is doing.
//
// Two pairs share the name that is shown: Spawning is a start whose process is not there yet, Killing a stop
// whose time-out is over.
type State uint8

// The states of an instance.
const (
	Stopped  State = iota // not wanted up
	Spawning              // a worker prepares and spawns it
	Running               // its main process lives
	Stopping              // the stop signal is sent; the stop time-out runs
	Killing               // SIGKILL is sent
	Backoff               // it ended; the restart timer is pending
	Exited                // it ended as it should and stays down
	Failed                // it ended badly, or could not be started, and stays down
	stateCount
)

var stateNames = [stateCount]string{
	Stopped: "Stopped", Spawning: "Spawning", Running: "Running", Stopping: "Stopping",
	Killing: "Killing", Backoff: "Backoff", Exited: "Exited", Failed: "Failed",
}

var shownNames = [stateCount]string{
	Stopped: "stopped", Spawning: "starting", Running: "running", Stopping: "stopping",
	Killing: "stopping", Backoff: "backoff", Exited: "exited", Failed: "failed",
}

// String returns the name under which the state is shown: stopped, starting, running, stopping, backoff,
// exited or failed.
func (s State) String() string { return shownNames[s] }

// AtRest reports whether nothing of the instance lives and nothing is about to be started.
func (s State) AtRest() bool { return s == Stopped || s == Exited || s == Failed }

// Up reports whether the instance does what it is there for.
func (s State) Up() bool { return s == Running }

// An Event is what happened to an instance, with every condition already settled: the state and the event
// alone decide what follows.
type Event uint8

// The events of an instance.
const (
	WantUp       Event = iota // it is to be up
	WantDown                  // it is to be down
	Again                     // it is to be up, in a run that starts after this
	Spawned                   // the spawn succeeded
	SpawnedStale              // the spawn succeeded, but that run is not wanted any more
	SpawnRetry                // the spawn failed and is tried again later
	SpawnGaveUp               // the spawn failed and the start limit is reached; it is tried again slowly
	SpawnFinal                // the spawn failed and the instance stays down
	SpawnDown                 // the spawn failed or was called off; it is to be down
	SpawnAgain                // the spawn failed or was called off; another was asked for meanwhile
	ExitRetry                 // the process ended by itself and is restarted after a delay
	ExitDone                  // the process ended as it should; it stays down
	ExitGaveUp                // the process ended badly and the start limit is reached; it is tried again slowly
	ExitFinal                 // the process ended badly; it stays down
	ExitDown                  // the process ended; it is to be down
	ExitAgain                 // the process ended; the next run is wanted at once
	StopDue                   // the stop time-out is over
	KillDue                   // the process has not ended although SIGKILL was sent
	RestartDue                // the delay before the next start is over
	eventCount
)

var eventNames = [eventCount]string{
	WantUp: "WantUp", WantDown: "WantDown", Again: "Again",
	Spawned: "Spawned", SpawnedStale: "SpawnedStale", SpawnRetry: "SpawnRetry", SpawnGaveUp: "SpawnGaveUp", SpawnFinal: "SpawnFinal",
	SpawnDown: "SpawnDown", SpawnAgain: "SpawnAgain",
	ExitRetry: "ExitRetry", ExitDone: "ExitDone", ExitGaveUp: "ExitGaveUp", ExitFinal: "ExitFinal", ExitDown: "ExitDown", ExitAgain: "ExitAgain",
	StopDue: "StopDue", KillDue: "KillDue", RestartDue: "RestartDue",
}

// String returns the event's identifier.
func (e Event) String() string { return eventNames[e] }

// An Effect is what the supervisor does after a step, in the order given.
type Effect uint8

// The effects of a step.
const (
	Spawn      Effect = iota // have a worker start the next run
	CallOff                  // call the spawn off, if it is not too late
	SignalStop               // stop signal, then SIGCONT, to the process group
	SignalKill               // SIGKILL to those whom kill_mode names
	ArmStop                  // StopDue after the stop time-out
	ArmKill                  // KillDue after a moment
	NameStuck                // say which process does not die and what it waits in
	EndRun                   // close the run's scope
	ArmRestart               // RestartDue after the machine's delay
	Disarm                   // forget the pending RestartDue
	effectCount
)

var effectNames = [effectCount]string{
	Spawn: "Spawn", CallOff: "CallOff", SignalStop: "SignalStop", SignalKill: "SignalKill", ArmStop: "ArmStop", ArmKill: "ArmKill",
	NameStuck: "NameStuck", EndRun: "EndRun", ArmRestart: "ArmRestart", Disarm: "Disarm",
}

// String returns the effect's identifier.
func (e Effect) String() string { return effectNames[e] }
