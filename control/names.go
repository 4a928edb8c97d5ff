package control

// Names in answers that clients compare.

// States of an instance.
const (
	StateStopped  = "stopped"
	StateWaiting  = "waiting"
	StateStarting = "starting"
	StateRunning  = "running"
	StateStopping = "stopping"
	StateBackoff  = "backoff"
	StateExited   = "exited"
	StateFailed   = "failed"
)

// Kinds of reasons: of an instance that is down as it should be, and of one that runs with its
// former definition.
const (
	ReasonWaitsForSchedule   = "waits-for-schedule"
	ReasonWaitsForConnection = "waits-for-connection"
	ReasonRollFailed         = "roll-failed"
)

// Kinds of events.
const (
	KindState    = "state"
	KindStart    = "start"
	KindNoStart  = "no-start"
	KindExit     = "exit"
	KindHealth   = "health"
	KindOutput   = "output"
	KindPrint    = "print"
	KindOutage   = "outage"
	KindSkip     = "skip"
	KindFlapping = "flapping"
	KindCommand  = "command"
	KindReload   = "reload"
	KindSocket   = "socket"
	KindRoll     = "roll"
	KindShutdown = "shutdown"
	KindSuperd   = "superd"
	KindGap      = "gap"
)

// OutageBegun is the state of a [KindOutage] event that begins an outage.
const OutageBegun = "begun"

// What a reload changes for a program.
const (
	ChangeUnchanged = "unchanged"
	ChangeLive      = "applied live"
	ChangeRestart   = "restart needed"
	ChangeAdded     = "added"
	ChangeRemoved   = "removed"
)
