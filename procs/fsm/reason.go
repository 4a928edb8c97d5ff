package fsm

// A Reason is why a state is what it is, or why something happened. Code and scripts use the kind.
// The detail is text for people.
type Reason struct {
	Kind   ReasonKind
	Detail string // printed after the phrase of the kind
}

// KindName returns the name of the reason's kind in the journal and in JSON.
func (r Reason) KindName() string { return r.Kind.String() }

// A ReasonKind is the kind of a [Reason]. reasonNames has its name in the journal and in JSON.
type ReasonKind uint8

// The kinds of reasons.
const (
	ReasonNone  ReasonKind = iota
	ReasonOther            // a kind of another version of superd

	// Why a run is started.
	ReasonStarted        // an actor requested it
	ReasonRestarted      // the previous run ended
	ReasonDependencyBack // its requirement is ready again
	ReasonScheduleDue    // a time of the schedule is due
	ReasonScheduleMadeUp // it makes up for a missed time of the schedule
	ReasonFileChanged    // a file that it watches has changed
	ReasonSlowRetry      // the start limit was hit, and retry_after is over

	// Why it runs.
	ReasonStopCancelled // a pending stop was cancelled
	ReasonRecovered     // a damaged journal did not have the run

	// Why it is not started.
	ReasonNotStarted         // nothing has happened yet
	ReasonQuarantined        // leftover processes of an earlier run may live
	ReasonAboutToStart       // its start is due
	ReasonWaitsForDependency // for a requirement or an ordering
	ReasonWaitsForDependents // its dependents are not down yet
	ReasonWaitsForConflict   // a conflicting instance is not removed yet
	ReasonWaitsForSocket     // a socket that it gets is not open
	ReasonWaitsForSchedule   // no time of its schedule is due
	ReasonWaitsForConnection // none has come

	// Why it is stopped.
	ReasonStopping          // an actor requested it
	ReasonStopped           // an actor requested it, and it is down
	ReasonStoppingToStart   // a start was requested while it stops
	ReasonStoppingToRestart // a restart was requested
	ReasonDependencyLost    // a requirement is stopped or has failed
	ReasonKillSent          // it got SIGKILL after the stop time-out
	ReasonUnkillable        // it survived SIGKILL
	ReasonNotKilled         // it survived the stop time-out, and final_kill is false

	// Why superd ends a run, which then counts as a failure.
	ReasonStartTimeout
	ReasonUnhealthy
	ReasonWatchdogTimeout
	ReasonExitTimeout // the program sent STOPPING=1 and has not ended

	// How a run ended.
	ReasonExited
	ReasonKilledBySignal
	ReasonExitUnknown
	ReasonOutOfMemory
	ReasonExitedBeforeReady
	ReasonStopSignal  // it ended by the stop signal
	ReasonStopTimeout // it was killed after the stop time-out
	ReasonWentToBackground
	ReasonLeftoversKilled // the leftover processes of a quarantine

	// Why there was no run.
	ReasonInvalid // its definition has a mistake
	ReasonStartFailed
	ReasonHookFailed
	ReasonShortage // of memory, processes or descriptors
	ReasonStartInterrupted
	ReasonStartCancelled
	ReasonStartLimit      // the start limit is hit; retried after retry_after
	ReasonStartLimitFinal // the start limit is hit; not retried

	// Why a time of the schedule was skipped.
	ReasonSkippedMissed  // by schedule_missed
	ReasonSkippedOverlap // the previous run is not over
	ReasonSkippedInAll   // number of times skipped during one run

	// What an operator requested.
	ReasonRequestedStart
	ReasonRequestedStop
	ReasonRequestedRestart
	ReasonRequestedSignal
	ReasonRequestedScale
	ReasonRequestedReload
	ReasonRequestedClear // of logs
	ReasonRequestedEnable
	ReasonRequestedDisable
	ReasonRequestedRoll // a rolling restart
	ReasonRequestedContinue
	ReasonRequestedUndo

	// Events of superd as a whole.
	ReasonReloaded
	ReasonReloadRefused
	ReasonReloadHung // the reading of a configuration file hangs
	ReasonProgramReloaded
	ReasonProgramNotReloaded
	ReasonShutdownRequested
	ReasonShutdownHurried
	ReasonEssentialEnded
	ReasonAnyFailed
	ReasonAllEnded
	ReasonSuperdEnded // superd ended before the run did

	// Events of a rolling restart.
	ReasonRollBegun
	ReasonRollAwaits // the extra replicas are up, and the operator decides
	ReasonRollFailed
	ReasonRolled

	// Health checks and output.
	ReasonHealthy
	ReasonFirstOutput
	ReasonOutputLost
	ReasonOutputDropped
	ReasonLogOutage
	ReasonLogOutageOver
	ReasonFlapping
	ReasonFlappingOver
	ReasonSocketFailed // a socket can't be opened, or changed

	// Why superd does not accept the connections of a program.
	ReasonConnectionsFull    // it serves max_connections
	ReasonConnectionsRefused // a source has max_connections_per_source
	ReasonConnectionsPaused  // too many within a second, or superd can't accept any
	reasonCount
)

// With returns a reason of this kind with that detail.
func (k ReasonKind) With(detail string) Reason { return Reason{k, detail} }

// starts reports whether this is a reason to start a run.
func (k ReasonKind) starts() bool { return k >= ReasonStarted && k <= ReasonSlowRetry }

// String returns the reason as text for people.
func (r Reason) String() string {
	switch {
	case r.Kind.starts():
		return "started " + r.OfStart()
	case r.Kind == ReasonStartLimitFinal:
		return r.Detail + "; retry_after = 0: not retried"
	}
	return phrases[r.Kind] + r.Detail
}

// OfStart returns the reason of a start without the word started: "by the operator".
func (r Reason) OfStart() string { return phrases[r.Kind] + r.Detail }

// And returns r with detail appended.
func (r Reason) And(detail string) Reason { return Reason{r.Kind, r.Detail + detail} }

// RecordedKind returns the kind of reason with which a change from a state to waiting is recorded:
// shown, or that the run which has just ended was out of memory, of which alerts tell.
func (m *Machine) RecordedKind(from State, shown ReasonKind) ReasonKind {
	if m.exitReason.Kind == ReasonOutOfMemory && (from == Starting || from == Running) {
		return ReasonOutOfMemory
	}
	return shown
}

// phrases are the beginnings of reason texts. A kind without a phrase has only its detail.
var phrases = [reasonCount]string{
	ReasonStarted:            "by ",
	ReasonRestarted:          "again: ",
	ReasonDependencyBack:     "again: ",
	ReasonScheduleDue:        "by its schedule, due at ",
	ReasonScheduleMadeUp:     "by its schedule, to make up for ",
	ReasonFileChanged:        "again: file changed: ",
	ReasonSlowRetry:          "again after retry_after",
	ReasonStopCancelled:      "running: the pending stop was cancelled",
	ReasonRecovered:          "adopted after damage to the journal",
	ReasonNotStarted:         "not started yet",
	ReasonQuarantined:        "not started: process ",
	ReasonAboutToStart:       "about to be started",
	ReasonWaitsForDependency: "waits for ",
	ReasonWaitsForDependents: "waits until ",
	ReasonWaitsForConflict:   "waits until ",
	ReasonWaitsForSocket:     "waits for ",
	ReasonWaitsForConnection: "waits for a connection",
	ReasonStopping:           "stop requested by ",
	ReasonStopped:            "stopped by ",
	ReasonStoppingToStart:    "start requested during the stop by ",
	ReasonStoppingToRestart:  "restart requested by ",
	ReasonDependencyLost:     "requires ",
	ReasonNotKilled:          "still alive after stop_timeout; final_kill = false: not killed",
	ReasonLeftoversKilled:    "leftover processes of an earlier run ended",
	ReasonStartInterrupted:   "start interrupted: superd was killed",
	ReasonStartCancelled:     "start cancelled",
	ReasonSkippedMissed:      "missed while the machine slept or superd was down; ",
	ReasonSkippedOverlap:     "the previous run is not over: ",
	ReasonRequestedStart:     "start",
	ReasonRequestedStop:      "stop",
	ReasonRequestedRestart:   "restart",
	ReasonRequestedSignal:    "signal ",
	ReasonRequestedScale:     "scale ",
	ReasonRequestedReload:    "reload",
	ReasonRequestedClear:     "clear logs",
	ReasonRequestedEnable:    "enable",
	ReasonRequestedDisable:   "disable",
	ReasonRequestedRoll:      "rolling restart",
	ReasonRequestedContinue:  "continue",
	ReasonRequestedUndo:      "undo",
	ReasonRollBegun:          "rolling restart begun: ",
	ReasonRollAwaits:         "rolling restart waits for the operator: ",
	ReasonRollFailed:         "rolling restart ended: ",
	ReasonRolled:             "rolling restart complete",
	ReasonProgramReloaded:    "reloaded",
	ReasonReloadRefused:      "the old configuration stays in force: ",
	ReasonReloadHung:         "the old configuration stays in force: ",
	ReasonShutdownHurried:    "at once: ",
	ReasonSuperdEnded:        "superd ended before it did",
	ReasonFirstOutput:        "first output",
	ReasonLogOutageOver:      "output gets into its log again, after ",
	ReasonOutputLost:         "its last output may be lost: superd was down",
}
