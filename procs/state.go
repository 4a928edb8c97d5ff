package procs

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
	stateCount
)

// String returns the shown name of the state: stopped, waiting, starting, running, stopping,
// backoff, exited or failed.
func (s State) String() string { return shownNames[s] }

// AtRest reports whether the instance has no processes and no start is due at once.
func (s State) AtRest() bool { return s == Stopped || s == Exited || s == Failed }

// lives reports whether there is a main process.
func (s State) lives() bool {
	return s == Starting || s == Running || s == StopPending || s == Stopping || s == Killing
}

// Up reports whether the instance is running.
func (s State) Up() bool { return s == Running }

// An Event is what happened to an instance. Conditions are evaluated before: state and event alone
// determine what follows.
type Event uint8

// The events of an instance.
const (
	WantUp          Event = iota // up is desired
	WantDown                     // down is desired
	Wait                         // up is desired, and the start is blocked
	DeferStop                    // the run must end once the dependents are down
	Restart                      // a run that starts after this event is desired
	Spawned                      // the main process was started, and is ready
	SpawnedUnready               // the main process was started and is not ready yet
	SpawnedOutdated              // the main process was started, and its run must end
	Ready                        // the main process became ready
	StartTimeout                 // the start time-out is over before it became ready
	HealthFailed                 // the health checks failed: the run must end
	WatchdogTimeout              // no watchdog message came in time: the run must end
	// The main process is gone, or never existed, and a teardown is needed
	MainExited
	RunEndedRetry      // the run is over; the next one starts after a delay
	RunEndedDone       // the run is over with success; it stays down
	RunEndedStartLimit // the run failed and hit the start limit; it is retried slowly
	RunEndedFinal      // the run failed; it stays down
	RunEndedDown       // the run is over; down is desired
	RunEndedRestart    // the run is over; the next one starts at once
	RunEndedWait       // the run is over; the next one is blocked
	StopTimeout        // the stop time-out is over
	KillTimeout        // the main process survived SIGKILL
	RestartDue         // the delay before the next start is over
	eventCount
)

var eventNames = [eventCount]string{
	WantUp: "WantUp", WantDown: "WantDown", Wait: "Wait", DeferStop: "DeferStop",
	Restart: "Restart", Spawned: "Spawned", SpawnedUnready: "SpawnedUnready",
	SpawnedOutdated: "SpawnedOutdated", Ready: "Ready", StartTimeout: "StartTimeout",
	HealthFailed: "HealthFailed", WatchdogTimeout: "WatchdogTimeout", MainExited: "MainExited",
	RunEndedRetry: "RunEndedRetry", RunEndedDone: "RunEndedDone",
	RunEndedStartLimit: "RunEndedStartLimit", RunEndedFinal: "RunEndedFinal",
	RunEndedDown: "RunEndedDown", RunEndedRestart: "RunEndedRestart",
	RunEndedWait: "RunEndedWait", StopTimeout: "StopTimeout", KillTimeout: "KillTimeout",
	RestartDue: "RestartDue",
}

// String returns the event's name.
func (e Event) String() string { return eventNames[e] }

// An Effect is what the supervisor has to do after a step, in the order given.
type Effect uint8

// The effects of a step.
const (
	// Run the pre_start hooks, then spawn the main process
	Spawn            Effect = iota
	CancelSpawn             // cancel the spawn, if possible
	AwaitReady              // wait for readiness; StartTimeout after the start time-out
	StartMonitoring         // start health checks and watchdog
	Teardown                // kill the leftover processes of the run, then run the post_stop hooks
	SignalStop              // stop signal, then SIGCONT, to the process group
	SignalAbort             // SIGABRT, then SIGCONT, to the process group
	SignalKill              // send SIGKILL to the processes that kill_mode names
	ArmStop                 // arm StopTimeout after the stop time-out
	ArmKill                 // arm KillTimeout after KillPause
	ReportUnkillable        // report the unkillable process and its wait state
	EndRun                  // close the run's scope
	ArmRestart              // arm RestartDue after the machine's delay
	Disarm                  // cancel the pending RestartDue
	effectCount
)

var effectNames = [effectCount]string{
	Spawn: "Spawn", CancelSpawn: "CancelSpawn", AwaitReady: "AwaitReady",
	StartMonitoring: "StartMonitoring", Teardown: "Teardown", SignalStop: "SignalStop",
	SignalAbort: "SignalAbort", SignalKill: "SignalKill", ArmStop: "ArmStop", ArmKill: "ArmKill",
	ReportUnkillable: "ReportUnkillable", EndRun: "EndRun", ArmRestart: "ArmRestart",
	Disarm: "Disarm",
}

// String returns the effect's name.
func (e Effect) String() string { return effectNames[e] }
