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

// A simKernel is the simulated host. Its processes live, fork, ignore signals, hang and die as the
// seed draws it. Pids and descriptors are reused as soon as possible.
type simKernel struct {
	leftovers bool // whether to report live processes of unknown runs
	v         *loop.Virtual
	rng       *rand.Rand
	mix       faultMix
	queued    bool                  // whether spawns that hang are in the start queue
	sigchld   func()                // called at SIGCHLD
	onSpawn   func(*host.SpawnSpec) // called at each spawn
	logf      func(format string, args ...any)
	fail      func(format string, args ...any)

	// Scope of the current superd, closed with all that it has under way
	session *loop.Scope
	// Whether a keeper reaps the processes of an earlier superd and reports their exits
	keeper     bool
	reportExit func(host.StoredExit) // reports an exit to the current superd
	// Exits that the keeper stores and no superd has acknowledged
	exits                                               []host.StoredExit
	noSearch, adoptsByPid, noStartRecords, inventsExits bool // planted

	byPid        map[int]*simProcess // alive or zombie
	byStart      map[uint64]*simProcess
	zombies      []*simProcess // in the order of their exits
	counts       map[string]*processCount
	spawned      int
	reaped       int
	forks        int           // forks whose result the loop does not have yet
	pendingSweep func(pid int) // reaping to be resumed later; nil: none
	// Programs of which kill_mode may have spared processes
	spared map[string]bool
	modes  map[string][]config.KillMode // all kill modes that a program has had
	// Planted: reaping takes a child that the loop does not know yet for an unknown one
	noReapGate bool
	// Planted: reaping waits for all forks, and later forks wait for reaping
	reapWaitsForForks bool
	// Planted: a child that hangs before its exec is not killed
	noKillBeforeExec bool

	checks         int                   // number of checks so far, not counting exec checks
	checking       map[int]func(error)   // checks under way, by number
	sockets        map[string]*simSocket // by run
	notifyFDs      map[int]*simSocket    // by descriptor
	ignoresMainPID bool                  // planted: a change of the main process goes unnoticed
	anyMain        bool                  // planted: MAINPID= may name any process
	// Planted: messages are dropped before their effects are saved
	dropsUnsaved bool
	mainsStarted map[string]int         // main processes started, by instance
	mains        map[string]*simProcess // by run: the main process that superd knows
	shortages    map[string]bool        // runs whose start failed in a resource shortage
	// By run: the definition with which it was started
	definitions map[string]*config.Program
	hookEnds    int                   // hooks that have ended
	endedAt     map[int]time.Duration // by pid, for the last process that had it
	// Called when superd reads the wait state of a process
	onWaitsIn func(instance string)
	// Whether superd shows the instance as running
	isRunning func(instance string) bool
}

// A faultMix gives probabilities and durations of faults. The zero value has no faults: processes
// run until a signal ends them.
type faultMix struct {
	crash       float64 // a process exits by itself
	ignoresStop float64 // it ignores the stop signal
	slowStop    float64 // it ends late, at times after the stop time-out
	// SIGKILL takes minutes, as with a process in uninterruptible sleep
	unkillable float64
	spawnFails float64
	shortage   float64 // share of failed spawns that fail in a resource shortage
	spawnHangs float64
	execHangs  float64 // the child hangs for minutes before its exec
	lateResult time.Duration
	noResult   bool    // the program runs, and the loop gets the result minutes later
	watchFails float64 // a process can't be watched
	slowSpawn  time.Duration
	// A scheduled start is logged before the turn's other state is saved
	startLoggedEarly float64
	lifetime         time.Duration // mean time until a process crashes
	orphans          float64       // an exit comes with an unknown zombie
	forks            float64       // a process forks a child that leaves its group
	hookFails        float64
	hookHangs        float64
	hookTime         time.Duration
	runTime          time.Duration // longest run of a scheduled program; 0: endless
	forkTime         time.Duration // between the steps of a worker's fork
	slowReap         float64       // a process that is not superd's child is reaped late
	exitInfo         float64       // the kernel reports the exit status after the reaping
	neverReady       float64
	slowReady        time.Duration
	unhealthy        float64 // it fails all checks and sends no watchdog pings
	reloads          float64
	checkHangs       float64
	handover         float64 // a main process hands over to a child
	processScan      float64 // a scan of a tree takes time, as without cgroups
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
	// superd learns of the end of a process that can't be watched some time later, and of one
	// that is not its child only when that is reaped.
	if ago := k.v.Now() - k.endedAt[pid]; (p == nil || p.zombie && !p.reparented) && ago > unwatchedPause+100*time.Millisecond {
		k.fail("superd reads the state of %d, which ended %v ago", pid, ago)
	}
	if p != nil && k.onWaitsIn != nil {
		k.onWaitsIn(p.instance)
	}
	return host.WaitState{Text: "D (disk sleep)"}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
