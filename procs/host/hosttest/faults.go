package hosttest

import "time"

// A FaultMix gives probabilities and durations of faults. The zero value has no faults: processes
// run until a signal ends them.
type FaultMix struct {
	Crash       float64 // a process exits by itself
	IgnoresStop float64 // it ignores the stop signal
	SlowStop    float64 // it ends late, at times after the stop time-out
	// SIGKILL takes minutes, as with a process in uninterruptible sleep
	Unkillable float64
	SpawnFails float64
	Shortage   float64 // share of failed spawns that fail in a resource shortage
	SpawnHangs float64
	ForkHangs  float64 // a spawn hangs for minutes when it is too late to cancel it
	ExecHangs  float64 // the child hangs for minutes before its exec
	LateResult time.Duration
	NoResult   bool    // the program runs, and the loop gets the result minutes later
	WatchFails float64 // a process can't be watched
	SlowSpawn  time.Duration
	// A scheduled start is logged before the turn's other state is saved
	StartLoggedEarly float64
	Lifetime         time.Duration // mean time until a process crashes
	Orphans          float64       // an exit comes with an unknown zombie
	Forks            float64       // a process forks a child that leaves its group
	HookFails        float64
	HookHangs        float64
	HookTime         time.Duration
	RunTime          time.Duration // longest run of a scheduled program; 0: endless
	ForkTime         time.Duration // between the steps of a worker's fork
	SlowReap         float64       // a process that is not superd's child is reaped late
	ExitInfo         float64       // the kernel reports the exit status after the reaping
	NeverReady       float64
	SlowReady        time.Duration
	Unhealthy        float64 // it fails all checks and sends no watchdog pings
	Reloads          float64
	CheckHangs       float64
	Handover         float64 // a main process hands over to a child
	NoLaunch         float64 // the command of a forking program fails, hangs or leaves no process
	SlowLaunch       time.Duration
	NoPIDFile        float64       // a forking program writes no pid file
	SocketFails      float64       // a socket can't be opened
	SocketHangs      float64       // its file system hangs for minutes
	ConnectionTime   time.Duration // longest run of a process for a connection; 0: endless
	ProcessScan      float64       // a scan of a tree takes time, as without cgroups
	DirectoryFails   float64       // a directory of a program can't be made
	DirectoryStays   float64       // a runtime directory can't be removed
	TmpStays         float64       // a private_tmp is removed minutes late, or not at all
	SandboxLacks     float64       // a part of a sandbox can't be enforced
}

// AffectsCommands reports whether the faults can let exec checks of a healthy program fail.
func (m FaultMix) AffectsCommands() bool {
	return m.SpawnFails > 0 || m.ForkHangs > 0 || m.ExecHangs > 0 || m.SpawnHangs > 0 || m.LateResult > 0 ||
		m.SlowSpawn > 0 || m.Unkillable > 0 || m.WatchFails > 0 || m.ForkTime > 0
}

// Defects are planted in the fake: with one of them it does not do what [host.Host] promises. A
// simulation that uses it must notice.
type Defects struct {
	NoReapGate        bool // reaping takes a child that the loop does not know yet for unknown
	ReapWaitsForForks bool // reaping waits for all forks, and later forks wait for reaping
	NoKillBeforeExec  bool // a child that hangs before its exec is not killed
	NoPolling         bool // a process that can't be watched seems to live on after its end
	NoSearch          bool // a search finds no processes
	AdoptsByPid       bool // a process is adopted by its pid alone
	NoStartRecords    bool // starts are not recorded
	InventsExits      bool // an exit status that is not known is reported as success
	IgnoresMainPID    bool // a change of the main process goes unnoticed
	AnyMain           bool // MAINPID= may name any process
	NoDiscard         bool // a stored descriptor stays stored
	NoAcknowledgement bool // the keeper is never told that an exit is recorded
	DropsUnsaved      bool // messages are dropped before their effects are saved
	SocketNotStored   bool // an open socket is not stored
	HidesConnections  bool // a socket never becomes readable
	HidesFromBusy     bool // a socket does not become readable while a program has it
	LeaksConnections  bool // a connection is never closed in superd
	IgnoresSettings   bool // an open socket keeps its settings
	SparesExecuted    bool // what the operator executes is never killed as a group
}

func (k *Kernel) chance(p float64) bool { return p > 0 && k.rng.Float64() < p }

func (k *Kernel) pick(choices ...float64) float64 { return choices[k.rng.IntN(len(choices))] }

// upTo returns a duration below d, or 0.
func (k *Kernel) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(k.rng.Int64N(int64(d)))
}
