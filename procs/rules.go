package procs

// A rule is one cell of the table: the next state and the effects, in order.
type rule struct {
	next    State
	effects []Effect
}

func to(next State, effects ...Effect) *rule { return &rule{next, effects} }

// rules decides the life of an instance. An empty cell is an event that cannot happen in that state: a bug.
var rules = [stateCount][eventCount]*rule{
	Stopped: {
		WantUp:   to(Spawning, Spawn),
		Again:    to(Spawning, Spawn),
		Wait:     to(Waiting),
		WantDown: to(Stopped),
	},
	Waiting: {
		WantUp:   to(Spawning, Spawn),
		Again:    to(Spawning, Spawn),
		Wait:     to(Waiting),
		WantDown: to(Stopped),
	},
	Spawning: {
		WantUp:         to(Spawning),
		Again:          to(Spawning, CallOff),
		WantDown:       to(Spawning, CallOff),
		Spawned:        to(Running, Attend),
		SpawnedUnready: to(Starting, AwaitReady),
		SpawnedStale:   to(Stopping, SignalStop, ArmStop),
		Left:           to(Clearing, Clear),
		EndRetry:       to(Backoff, EndRun, ArmRestart),
		EndGaveUp:      to(Failed, EndRun, ArmRestart),
		EndFinal:       to(Failed, EndRun),
		EndDown:        to(Stopped, EndRun),
		EndAgain:       to(Spawning, EndRun, Spawn),
		EndWait:        to(Waiting, EndRun),
	},
	Starting: {
		WantUp:    to(Starting),
		Again:     to(Stopping, SignalStop, ArmStop),
		WantDown:  to(Stopping, SignalStop, ArmStop),
		Ready:     to(Running, Attend),
		StartDue:  to(Stopping, SignalStop, ArmStop),
		Left:      to(Clearing, Clear),
		EndRetry:  to(Backoff, EndRun, ArmRestart),
		EndGaveUp: to(Failed, EndRun, ArmRestart),
		EndFinal:  to(Failed, EndRun),
		EndWait:   to(Waiting, EndRun),
	},
	Running: {
		WantUp:      to(Running),
		Again:       to(Stopping, SignalStop, ArmStop),
		WantDown:    to(Stopping, SignalStop, ArmStop),
		Unfit:       to(Stopping, SignalStop, ArmStop),
		WatchdogDue: to(Stopping, SignalAbort, ArmStop),
		Left:        to(Clearing, Clear),
		EndRetry:    to(Backoff, EndRun, ArmRestart),
		EndDone:     to(Exited, EndRun),
		EndGaveUp:   to(Failed, EndRun, ArmRestart),
		EndFinal:    to(Failed, EndRun),
		EndWait:     to(Waiting, EndRun),
	},
	Stopping: {
		WantUp:    to(Stopping),
		Again:     to(Stopping),
		WantDown:  to(Stopping),
		StopDue:   to(Killing, SignalKill, ArmKill),
		Left:      to(Clearing, Clear),
		EndRetry:  to(Backoff, EndRun, ArmRestart),
		EndGaveUp: to(Failed, EndRun, ArmRestart),
		EndFinal:  to(Failed, EndRun),
		EndDown:   to(Stopped, EndRun),
		EndAgain:  to(Spawning, EndRun, Spawn),
		EndWait:   to(Waiting, EndRun),
	},
	Killing: {
		WantUp:    to(Killing),
		Again:     to(Killing),
		WantDown:  to(Killing),
		KillDue:   to(Killing, NameStuck),
		Left:      to(Clearing, Clear),
		EndRetry:  to(Backoff, EndRun, ArmRestart),
		EndGaveUp: to(Failed, EndRun, ArmRestart),
		EndFinal:  to(Failed, EndRun),
		EndDown:   to(Stopped, EndRun),
		EndAgain:  to(Spawning, EndRun, Spawn),
		EndWait:   to(Waiting, EndRun),
	},
	Clearing: {
		WantUp:    to(Clearing),
		Again:     to(Clearing),
		WantDown:  to(Clearing),
		EndRetry:  to(Backoff, EndRun, ArmRestart),
		EndDone:   to(Exited, EndRun),
		EndGaveUp: to(Failed, EndRun, ArmRestart),
		EndFinal:  to(Failed, EndRun),
		EndDown:   to(Stopped, EndRun),
		EndAgain:  to(Spawning, EndRun, Spawn),
		EndWait:   to(Waiting, EndRun),
	},
	Backoff: {
		Wait:       to(Waiting, Disarm),
		WantUp:     to(Spawning, Disarm, Spawn),
		Again:      to(Spawning, Disarm, Spawn),
		WantDown:   to(Stopped, Disarm),
		RestartDue: to(Spawning, Spawn),
	},
	Exited: {
		Wait:     to(Waiting),
		WantUp:   to(Spawning, Spawn),
		Again:    to(Spawning, Spawn),
		WantDown: to(Stopped),
	},
	Failed: {
		Wait:       to(Waiting, Disarm),
		WantUp:     to(Spawning, Disarm, Spawn),
		Again:      to(Spawning, Disarm, Spawn),
		WantDown:   to(Stopped, Disarm),
		RestartDue: to(Spawning, Spawn),
	},
}
