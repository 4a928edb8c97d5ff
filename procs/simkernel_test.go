package procs

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// A simKernel is the host of the simulation. Its processes live, fork, ignore signals, hang and
// die as the seed draws it. Pids and descriptors are reused as soon as possible.
type simKernel struct {
	leftovers bool // whether live processes of unknown runs are reported
	v         *loop.Virtual
	rng       *rand.Rand
	mix       faultMix
	queued    bool   // whether starts that hang wait in the queue
	sigchld   func() // SIGCHLD
	onSpawn   func(*host.SpawnSpec)
	logf      func(format string, args ...any)
	fail      func(format string, args ...any)

	// Scope of the present superd, closed with all that it has under way
	session *loop.Scope
	// Whether a keeper reaps the processes of an earlier superd and reports them
	keeper bool
	// Passes an exit to the present superd
	reportExit func(host.StoredExit)
	// Exits that the keeper stores and no superd has acknowledged
	exits                                               []host.StoredExit
	noSearch, adoptsByPid, noStartRecords, inventsExits bool // planted

	byPid   map[int]*simProcess // alive or zombie
	byStart map[uint64]*simProcess
	zombies []*simProcess // in the order of their ends
	counts  map[string]*processCount
	spawned int
	reaped  int
	// Forks between the commit and the moment the loop took the result
	forks        int
	pendingSweep func(pid int) // sweep that resumes later; nil: none
	// Instances whose escaped processes kill_mode has spared at least once
	spared map[string]bool
	modes  map[string][]config.KillMode // all that a program has had
	// Planted: the sweep takes a child that the loop does not know yet for an unknown child
	noReapGate bool
	// Planted: the sweep waits for all forks, and later forks wait for the sweep
	reapWaitsForForks bool
	// Planted: a child that hangs before its exec is not killed
	noKillBeforeExec bool

	checks         int                   // number of checks begun so far, except by commands
	checking       map[int]func(error)   // checks under way, by number
	sockets        map[string]*simSocket // by run
	notifyFDs      map[int]*simSocket    // by descriptor
	ignoresMainPID bool                  // planted: a change of the main process goes unnoticed
	anyMain        bool                  // planted: any process may be the main process
	// Planted: messages are read before their effects are saved
	dropsUnsaved bool
	mainsStarted map[string]int             // by instance
	mains        map[string]*simProcess     // by run: the main process that superd knows
	shortages    map[string]bool            // runs whose start has failed by a resource shortage
	definitions  map[string]*config.Program // by run: the definition that it was started with
	hookEnds     int
	endedAt      map[int]time.Duration      // by pid, for the last process that had it
	onWaitsIn    func(instance string)      // hook for the query of a process's wait state
	isRunning    func(instance string) bool // whether superd shows the instance as running
}

// A faultMix gives probabilities and durations of faults. The zero value is a world without faults,
// in which processes run until a signal ends them.
type faultMix struct {
	crash       float64 // a process exits by itself
	ignoresStop float64 // it ignores the stop signal
	slowStop    float64 // it ends late, at times after the stop time-out
	unkillable  float64 // SIGKILL takes minutes, as in a kernel that waits for a disk
	spawnFails  float64
	shortage    float64 // share of failed spawns: resource shortage
	spawnHangs  float64
	execHangs   float64 // the fork is done, and the child hangs for minutes before its exec
	lateResult  time.Duration
	noResult    bool    // the program runs, and the loop gets the result minutes later
	watchFails  float64 // a process can't be watched
	slowSpawn   time.Duration
	// A scheduled start is logged before what the rest of the turn saves
	startLoggedEarly float64
	lifetime         time.Duration // mean life of a process that crashes
	orphans          float64       // an end leaves an unknown zombie
	forks            float64       // a process forks a child that leaves its group
	hookFails        float64
	hookHangs        float64
	hookTime         time.Duration
	runTime          time.Duration // longest run of a schedule; 0: without end
	forkTime         time.Duration // between the steps of a worker's fork
	slowReap         float64       // a process that is not superd's child is reaped late
	exitInfo         float64       // the kernel then reports the exit status
	neverReady       float64
	slowReady        time.Duration
	unhealthy        float64 // it answers no checks any more, and sends no watchdog pings
	reloads          float64
	checkHangs       float64
	handover         float64 // a main process hands over to a child
	processScan      float64 // a look at a tree takes time, as without cgroups
}

func (k *simKernel) chance(p float64) bool { return p > 0 && k.rng.Float64() < p }

func (k *simKernel) pick(choices ...float64) float64 { return choices[k.rng.IntN(len(choices))] }

func (k *simKernel) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(k.rng.Int64N(int64(d)))
}

// MaskSIGCHLD implements [host.Host]. It does nothing: one signal of a burst is enough.
func (k *simKernel) MaskSIGCHLD() {}

// ReapOrphans implements [host.Host].
func (k *simKernel) ReapOrphans(dead func(pid int)) {
	if k.reapWaitsForForks && k.forks > 0 {
		k.pendingSweep = dead
		return
	}
	k.pendingSweep = nil
	last := 0
	for len(k.zombies) > 0 && k.zombies[0].pid != last {
		if k.zombies[0].resultPending && !k.noReapGate {
			k.pendingSweep = dead
			return
		}
		last = k.zombies[0].pid
		dead(last)
	}
}

// Unattributed implements [host.Host].
func (k *simKernel) Unattributed(found func([]host.Member)) { found(nil) }

// Unowned implements [host.Host].
func (k *simKernel) Unowned() []host.UnattributedProcess { return nil }

// ReapUnknown implements [host.Host].
func (k *simKernel) ReapUnknown(pid int) (pidfd.Exit, error) {
	p := k.byPid[pid]
	if p == nil {
		k.fail("unknown child %d is reaped, which does not exist", pid)
		return pidfd.Exit{}, syscall.ECHILD
	}
	if p.role.child() {
		k.fail("%d of %s is reaped as an unknown child", pid, p.instance)
	}
	k.reap(p)
	return p.exit, nil
}

// WaitsIn implements [host.Host].
func (k *simKernel) WaitsIn(pid int) host.WaitState {
	p := k.byPid[pid]
	// superd learns some time later that a process has ended which can't be watched, and only at
	// its reaping if the process is not its child.
	if ago := k.v.Now() - k.endedAt[pid]; (p == nil || p.zombie && !p.reparented) && ago > unwatchedPause+100*time.Millisecond {
		k.fail("superd reads the state of %d, which ended %v ago", pid, ago)
	}
	if p != nil && k.onWaitsIn != nil {
		k.onWaitsIn(p.instance)
	}
	return host.WaitState{Text: "D (disk sleep)"}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
