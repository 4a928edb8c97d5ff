package procs

import (
	"fmt"
	"slices"
)

// The names here stand for values of this package in the journal, the event log and JSON. They are
// independent of Go's identifiers: other programs and successors rely on them.

// stateNames are the names of states in the journal.
var stateNames = [stateCount]string{
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
var shownNames = [stateCount]string{
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

// outcomeNames are the names of the events that can be the outcome of a run.
var outcomeNames = [eventCount]string{
	WantUp:             "none", // unknown so far
	RunEndedRetry:      "retry",
	RunEndedDone:       "done",
	RunEndedStartLimit: "start-limit-hit",
	RunEndedFinal:      "failed",
	RunEndedDown:       "down",
	RunEndedRestart:    "again",
	RunEndedWait:       "wait",
}

// actorNames are the names of actors.
var actorNames = [actorCount]string{
	ActorConfiguration: "configuration",
	ActorReload:        "reload",
	ActorUnscheduled:   "unscheduled",
	ActorRemoval:       "removal",
	ActorOperator:      "operator",
	ActorScale:         "scale",
	ActorShutdown:      "shutdown",
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
	ReasonSlowRetry:      "slow-retry",

	ReasonStopCancelled: "stop-taken-back",
	ReasonRecovered:     "recovered",

	ReasonNotStarted:         "not-started",
	ReasonQuarantined:        "quarantined",
	ReasonAboutToStart:       "about-to-start",
	ReasonWaitsForDependency: "waits-for-dependency",
	ReasonWaitsForDependents: "waits-for-dependents",
	ReasonWaitsForConflict:   "waits-for-conflict",
	ReasonWaitsForSchedule:   "waits-for-schedule",

	ReasonStopping:          "stopping",
	ReasonStopped:           "stopped",
	ReasonStoppingToStart:   "stopping-to-start",
	ReasonStoppingToRestart: "stopping-to-restart",
	ReasonDependencyLost:    "dependency-lost",
	ReasonKillSent:          "kill-sent",
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

	ReasonReloaded:          "reloaded",
	ReasonReloadRefused:     "reload-refused",
	ReasonReloadHung:        "reload-stalled",
	ReasonShutdownRequested: "shutdown-requested",
	ReasonShutdownHurried:   "shutdown-hurried",
	ReasonEssentialEnded:    "essential-ended",
	ReasonAnyFailed:         "any-failed",
	ReasonAllEnded:          "all-ended",
	ReasonSuperdEnded:       "superd-ended",

	ReasonHealthy:       "healthy",
	ReasonFirstOutput:   "first-output",
	ReasonOutputLost:    "output-lost",
	ReasonOutputDropped: "output-dropped",
	ReasonLogOutage:     "log-outage",
	ReasonLogOutageOver: "log-outage-over",
}

// String returns the name of the kind in the journal and in JSON; empty for ReasonNone.
func (k ReasonKind) String() string { return reasonNames[k] }

// nameOf returns the index of s in names. Its error is an empty or unknown s.
func nameOf[T ~uint8](names []string, s string) (T, error) {
	i := slices.Index(names, s)
	if i < 0 || s == "" {
		return 0, fmt.Errorf("unknown name %q", s)
	}
	return T(i), nil
}
