package fsm

// A Rule is one cell of a [Table]: the next state and the effects, in order.
type Rule struct {
	Next    State
	Effects []Effect // shared: it is never changed
}

// To returns the rule that leads to next by these effects.
func To(next State, effects ...Effect) *Rule { return &Rule{next, effects} }

// A Table has the rule of each event in each state. An empty cell is an event that cannot happen in
// that state: a bug.
type Table [StateCount][EventCount]*Rule

// Rules returns a copy of the table that defines the life of an instance. Planted defects change
// the copy and pass it to [New].
func Rules() *Table {
	t := rules
	return &t
}

// rule returns the rule of e in s; nil without one. A nil table is the one of [Rules].
func (t *Table) rule(s State, e Event) *Rule {
	if t == nil {
		return rules[s][e]
	}
	return t[s][e]
}

// rules is never changed.
var rules = Table{
	Stopped: {
		WantUp:   To(Spawning, Spawn),
		Restart:  To(Spawning, Spawn),
		Wait:     To(Waiting),
		WantDown: To(Stopped),
	},
	Waiting: {
		WantUp:   To(Spawning, Spawn),
		Restart:  To(Spawning, Spawn),
		Wait:     To(Waiting),
		WantDown: To(Stopped),
	},
	Spawning: {
		WantUp:             To(Spawning),
		Restart:            To(Spawning, CancelSpawn),
		WantDown:           To(Spawning, CancelSpawn),
		Spawned:            To(Running, StartMonitoring),
		SpawnedUnready:     To(Starting, AwaitReady),
		SpawnedOutdated:    To(Stopping, SignalStop, ArmStop),
		MainExited:         To(TearingDown, Teardown),
		RunEndedRetry:      To(Backoff, EndRun, ArmRestart),
		RunEndedStartLimit: To(Failed, EndRun, ArmRestart),
		RunEndedFinal:      To(Failed, EndRun),
		RunEndedDown:       To(Stopped, EndRun),
		RunEndedRestart:    To(Spawning, EndRun, Spawn),
		RunEndedWait:       To(Waiting, EndRun),
	},
	Starting: {
		WantUp:             To(Starting),
		Restart:            To(Stopping, SignalStop, ArmStop),
		WantDown:           To(Stopping, SignalStop, ArmStop),
		Ready:              To(Running, StartMonitoring),
		StartTimeout:       To(Stopping, SignalStop, ArmStop),
		MainExited:         To(TearingDown, Teardown),
		RunEndedRetry:      To(Backoff, EndRun, ArmRestart),
		RunEndedStartLimit: To(Failed, EndRun, ArmRestart),
		RunEndedFinal:      To(Failed, EndRun),
		RunEndedWait:       To(Waiting, EndRun),
	},
	Running: {
		WantUp:             To(Running),
		DeferStop:          To(StopPending),
		Restart:            To(Stopping, SignalStop, ArmStop),
		WantDown:           To(Stopping, SignalStop, ArmStop),
		HealthFailed:       To(Stopping, SignalStop, ArmStop),
		WatchdogTimeout:    To(Stopping, SignalAbort, ArmStop),
		MainExited:         To(TearingDown, Teardown),
		RunEndedRetry:      To(Backoff, EndRun, ArmRestart),
		RunEndedDone:       To(Exited, EndRun),
		RunEndedStartLimit: To(Failed, EndRun, ArmRestart),
		RunEndedFinal:      To(Failed, EndRun),
		RunEndedWait:       To(Waiting, EndRun),
	},
	StopPending: {
		WantUp:          To(Running, StartMonitoring),
		DeferStop:       To(StopPending),
		Restart:         To(Stopping, SignalStop, ArmStop),
		WantDown:        To(Stopping, SignalStop, ArmStop),
		MainExited:      To(TearingDown, Teardown),
		RunEndedDown:    To(Stopped, EndRun),
		RunEndedRestart: To(Spawning, EndRun, Spawn),
		RunEndedWait:    To(Waiting, EndRun),
	},
	Stopping: {
		WantUp:             To(Stopping),
		Restart:            To(Stopping),
		WantDown:           To(Stopping),
		StopTimeout:        To(Killing, SignalKill, ArmKill),
		MainExited:         To(TearingDown, Teardown),
		RunEndedRetry:      To(Backoff, EndRun, ArmRestart),
		RunEndedStartLimit: To(Failed, EndRun, ArmRestart),
		RunEndedFinal:      To(Failed, EndRun),
		RunEndedDown:       To(Stopped, EndRun),
		RunEndedRestart:    To(Spawning, EndRun, Spawn),
		RunEndedWait:       To(Waiting, EndRun),
	},
	Killing: {
		WantUp:             To(Killing),
		Restart:            To(Killing),
		WantDown:           To(Killing),
		KillTimeout:        To(Killing, ReportUnkillable),
		MainExited:         To(TearingDown, Teardown),
		RunEndedRetry:      To(Backoff, EndRun, ArmRestart),
		RunEndedStartLimit: To(Failed, EndRun, ArmRestart),
		RunEndedFinal:      To(Failed, EndRun),
		RunEndedDown:       To(Stopped, EndRun),
		RunEndedRestart:    To(Spawning, EndRun, Spawn),
		RunEndedWait:       To(Waiting, EndRun),
	},
	TearingDown: {
		WantUp:             To(TearingDown),
		Restart:            To(TearingDown),
		WantDown:           To(TearingDown),
		RunEndedRetry:      To(Backoff, EndRun, ArmRestart),
		RunEndedDone:       To(Exited, EndRun),
		RunEndedStartLimit: To(Failed, EndRun, ArmRestart),
		RunEndedFinal:      To(Failed, EndRun),
		RunEndedDown:       To(Stopped, EndRun),
		RunEndedRestart:    To(Spawning, EndRun, Spawn),
		RunEndedWait:       To(Waiting, EndRun),
	},
	Backoff: {
		Wait:          To(Waiting, Disarm),
		WantUp:        To(Spawning, Disarm, Spawn),
		Restart:       To(Spawning, Disarm, Spawn),
		WantDown:      To(Stopped, Disarm),
		RestartDue:    To(Spawning, Spawn),
		RunEndedDone:  To(Exited, Disarm),
		RunEndedFinal: To(Failed, Disarm),
	},
	Exited: {
		Wait:     To(Waiting),
		WantUp:   To(Spawning, Spawn),
		Restart:  To(Spawning, Spawn),
		WantDown: To(Stopped),
	},
	Failed: {
		Wait:         To(Waiting, Disarm),
		WantUp:       To(Spawning, Disarm, Spawn),
		Restart:      To(Spawning, Disarm, Spawn),
		WantDown:     To(Stopped, Disarm),
		RestartDue:   To(Spawning, Spawn),
		RunEndedDone: To(Exited, Disarm),
	},
}
