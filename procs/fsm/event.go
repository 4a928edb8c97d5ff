package fsm

// An Event is what happened to an instance. Every condition is decided before: state and event
// alone determine what follows.
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
	// The start time-out is over before it became ready, or a post_start hook failed
	StartTimeout
	HealthFailed    // the health checks failed: the run must end
	WatchdogTimeout // no watchdog message came in time: the run must end
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
	EventCount
)

var eventNames = [EventCount]string{
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
