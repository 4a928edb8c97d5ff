package fsm

// An Effect is what the caller performs after a step, in the order given.
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
	RearmRestart            // arm RestartDue anew, to be due the delay after the state began
	Disarm                  // cancel the pending RestartDue
	effectCount
)

var effectNames = [effectCount]string{
	Spawn: "Spawn", CancelSpawn: "CancelSpawn", AwaitReady: "AwaitReady",
	StartMonitoring: "StartMonitoring", Teardown: "Teardown", SignalStop: "SignalStop",
	SignalAbort: "SignalAbort", SignalKill: "SignalKill", ArmStop: "ArmStop", ArmKill: "ArmKill",
	ReportUnkillable: "ReportUnkillable", EndRun: "EndRun", ArmRestart: "ArmRestart",
	RearmRestart: "RearmRestart", Disarm: "Disarm",
}

// String returns the effect's name.
func (e Effect) String() string { return effectNames[e] }

// Effects that the table does not have: a changed definition moves or ends the restart timer, and
// the state stays.
var (
	teardown = []Effect{Teardown}
	rearm    = []Effect{RearmRestart}
	disarm   = []Effect{Disarm}
)

// A Transition is the result of a step: perform Effects in order, then publish the state. From and
// To are equal where the state stays. [Machine.StateReason] says why the state is what it is.
type Transition struct {
	From, To State
	Effects  []Effect // shared with the table: the caller does not change it
}
