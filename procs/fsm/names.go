package fsm

import (
	"fmt"
	"slices"
)

// The names here stand for values of this package in the journal, the event log and JSON. They are
// independent of Go's identifiers: other programs and successors rely on them.

// stateNames are the names of states in the journal.
var stateNames = [StateCount]string{
	Stopped:     "stopped",
	Waiting:     "waiting",
	Spawning:    "spawning",
	Starting:    "starting",
	Running:     "running",
	StopPending: "stop-pending",
	Stopping:    "stopping",
	Killing:     "killing",
	TearingDown: "teardown",
	Backoff:     "backoff",
	Exited:      "exited",
	Failed:      "failed",
}

// shownNames are the names of states elsewhere. Some states share one.
var shownNames = [StateCount]string{
	Stopped:     "stopped",
	Waiting:     "waiting",
	Spawning:    "starting",
	Starting:    "starting",
	Running:     "running",
	StopPending: "stopping",
	Stopping:    "stopping",
	Killing:     "stopping",
	TearingDown: "stopping",
	Backoff:     "backoff",
	Exited:      "exited",
	Failed:      "failed",
}

// Name returns the name of the state in the journal.
func (s State) Name() string { return stateNames[s] }

// String returns the shown name of the state: stopped, waiting, starting, running, stopping,
// backoff, exited or failed.
func (s State) String() string { return shownNames[s] }

// outcomeNames are the names of the events that can be the outcome of a run.
var outcomeNames = [EventCount]string{
	WantUp:             "none", // unknown so far
	RunEndedRetry:      "retry",
	RunEndedDone:       "done",
	RunEndedStartLimit: "start-limit-hit",
	RunEndedFinal:      "failed",
	RunEndedDown:       "down",
	RunEndedRestart:    "again",
	RunEndedWait:       "wait",
}

// OutcomeName returns the name of the event as the outcome of a run, in the journal; empty if it
// can't be one.
func (e Event) OutcomeName() string { return outcomeNames[e] }

// actorNames are the names of actors.
var actorNames = [actorCount]string{
	ActorConfiguration: "configuration",
	ActorReload:        "reload",
	ActorUnscheduled:   "unscheduled",
	ActorRemoval:       "removal",
	ActorOperator:      "operator",
	ActorScale:         "scale",
	ActorRoll:          "roll",
	ActorShutdown:      "shutdown",
	ActorConnection:    "connection",
	ActorIdle:          "idle",
	ActorWatch:         "watch",
	ActorOther:         "other",
}

// String returns the name of the actor in the journal and in JSON; empty for ActorNone.
func (k ActorKind) String() string { return actorNames[k] }

// reasonNames are the names of the kinds of reasons.
var reasonNames = [reasonCount]string{
	ReasonOther: "other",

	ReasonStarted:        "started",
	ReasonRestarted:      "restarted",
	ReasonDependencyBack: "dependency-back",
	ReasonScheduleDue:    "schedule-due",
	ReasonScheduleMadeUp: "schedule-made-up",
	ReasonFileChanged:    "file-changed",
	ReasonSlowRetry:      "slow-retry",

	ReasonStopCancelled: "stop-taken-back",
	ReasonRecovered:     "recovered",

	ReasonNotStarted:         "not-started",
	ReasonQuarantined:        "quarantined",
	ReasonAboutToStart:       "about-to-start",
	ReasonWaitsForDependency: "waits-for-dependency",
	ReasonWaitsForDependents: "waits-for-dependents",
	ReasonWaitsForConflict:   "waits-for-conflict",
	ReasonWaitsForSocket:     "waits-for-socket",
	ReasonWaitsForSchedule:   "waits-for-schedule",
	ReasonWaitsForConnection: "waits-for-connection",

	ReasonStopping:          "stopping",
	ReasonStopped:           "stopped",
	ReasonStoppingToStart:   "stopping-to-start",
	ReasonStoppingToRestart: "stopping-to-restart",
	ReasonDependencyLost:    "dependency-lost",
	ReasonKillSent:          "kill-sent",
	ReasonNotKilled:         "not-killed",
	ReasonUnkillable:        "unkillable",

	ReasonStartTimeout:    "start-timeout",
	ReasonUnhealthy:       "unhealthy",
	ReasonWatchdogTimeout: "watchdog-timeout",
	ReasonExitTimeout:     "exit-timeout",

	ReasonExited:            "exited",
	ReasonKilledBySignal:    "killed-by-signal",
	ReasonExitUnknown:       "exit-unknown",
	ReasonOutOfMemory:       "out-of-memory",
	ReasonExitedBeforeReady: "exited-before-ready",
	ReasonStopSignal:        "stop-signal",
	ReasonStopTimeout:       "stop-timeout",
	ReasonWentToBackground:  "went-to-background",
	ReasonLeftoversKilled:   "leftovers-killed",

	ReasonInvalid:          "invalid-configuration",
	ReasonStartFailed:      "start-failed",
	ReasonHookFailed:       "hook-failed",
	ReasonShortage:         "resource-shortage",
	ReasonStartInterrupted: "start-interrupted",
	ReasonStartCancelled:   "start-cancelled",
	ReasonStartLimit:       "start-limit-hit",
	ReasonStartLimitFinal:  "start-limit-hit-final",

	ReasonSkippedMissed:  "skipped-missed",
	ReasonSkippedOverlap: "skipped-overlap",
	ReasonSkippedInAll:   "skipped-in-all",

	ReasonRequestedStart:   "start",
	ReasonRequestedStop:    "stop",
	ReasonRequestedRestart: "restart",
	ReasonRequestedSignal:  "signal",
	ReasonRequestedScale:   "scale",
	ReasonRequestedReload:  "reload",
	ReasonRequestedClear:   "clear-logs",
	ReasonRequestedEnable:  "enable",
	ReasonRequestedDisable: "disable",
	ReasonRequestedRoll:    "rolling-restart",

	ReasonRequestedContinue: "continue",
	ReasonRequestedUndo:     "undo",

	ReasonReloaded:           "reloaded",
	ReasonReloadRefused:      "reload-refused",
	ReasonReloadHung:         "reload-stalled",
	ReasonProgramReloaded:    "program-reloaded",
	ReasonProgramNotReloaded: "program-not-reloaded",
	ReasonShutdownRequested:  "shutdown-requested",
	ReasonShutdownHurried:    "shutdown-hurried",
	ReasonEssentialEnded:     "essential-ended",
	ReasonAnyFailed:          "any-failed",
	ReasonAllEnded:           "all-ended",
	ReasonSuperdEnded:        "superd-ended",

	ReasonRollBegun:  "roll-begun",
	ReasonRollAwaits: "roll-awaits",
	ReasonRollFailed: "roll-failed",
	ReasonRolled:     "rolled",

	ReasonHealthy:       "healthy",
	ReasonFirstOutput:   "first-output",
	ReasonOutputLost:    "output-lost",
	ReasonOutputDropped: "output-dropped",
	ReasonLogOutage:     "log-outage",
	ReasonLogOutageOver: "log-outage-over",
	ReasonFlapping:      "flapping",
	ReasonFlappingOver:  "flapping-over",
	ReasonSocketFailed:  "socket-failed",

	ReasonConnectionsFull:    "connections-full",
	ReasonConnectionsPaused:  "connections-paused",
	ReasonConnectionsRefused: "connections-refused",
}

// String returns the name of the kind in the journal and in JSON; empty for ReasonNone.
func (k ReasonKind) String() string { return reasonNames[k] }

// ParseState returns the state of that name in the journal. Its error is an unknown name.
func ParseState(name string) (State, error) { return valueOf[State](stateNames[:], name) }

// ParseOutcome returns the outcome of that name in the journal. Its error is an unknown name.
func ParseOutcome(name string) (Event, error) { return valueOf[Event](outcomeNames[:], name) }

// valueOf returns the index of s in names. Its error is an empty or unknown s.
func valueOf[T ~uint8](names []string, s string) (T, error) {
	i := slices.Index(names, s)
	if i < 0 || s == "" {
		return 0, fmt.Errorf("unknown name %q", s)
	}
	return T(i), nil
}
