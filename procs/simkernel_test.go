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
)

// A simKernel is the System of the simulation: processes that live, bring forth others, ignore signals, hang and die as a
// seed draws it, with pids and descriptors that are used again as soon as they can be.
type simKernel struct {
	v      *loop.Virtual
	rng    *rand.Rand
	mix    faultMix
	queued bool   // those starts that hang wait for their turn
	notify func() // SIGCHLD
	starts func(*SpawnSpec)
	note   func(format string, args ...any)
	fail   func(format string, args ...any)

	session                                    *loop.Scope    // of the present superd: with it goes what it has under way
	keeper                                     bool           // it reaps those whom an earlier superd has started, and tells
	tell                                       func(KeptExit) // the present superd
	exits                                      []KeptExit     // that the keeper has, and nobody has acknowledged
	unsought, unidentified, unwritten, invents bool           // planted

	byPid   map[int]*simProcess // alive or zombie
	byStart map[uint64]*simProcess
	zombies []*simProcess // in the order of their ends
	counts  map[string]*living
	spawned int
	reaped  int
	forks   int // between commit and the moment the loop took the result
	sweep   func(pid int)
	spared  map[string]bool // instances whose escaped processes kill_mode has spared at least once
	ungated bool            // planted: the sweep doesn't wait for forks

	checks    int                        // begun so far, but for those of commands
	checking  map[int]func(error)        // those under way, by number
	sockets   map[string]*simSocket      // by run
	told      map[int]*simSocket         // by descriptor
	unheeding bool                       // planted: that another process is the main one goes unnoticed
	unasked   bool                       // planted: any process may be the main one
	unheld    bool                       // planted: messages are taken out before what follows from them is saved
	bornMains map[string]int             // by instance
	mains     map[string]*simProcess     // by run: what superd has got as the main process
	shortages map[string]bool            // runs whose start has failed for lack of something
	tables    map[string]*config.Program // by run: what it was started by
	hookEnds  int
	endedAt   map[int]time.Duration      // by pid, of the last that had it
	asked     func(instance string)      // what a process waits in
	runs      func(instance string) bool // superd calls it running
}

// A faultMix says how often what goes wrong, as probabilities. The zero value is a world without faults, in which
// processes run until they are told to end.
type faultMix struct {
	crash      float64 // a process ends by itself
	deaf       float64 // it ignores the stop signal
	slowStop   float64 // it takes its time to end, at times longer than the stop time-out
	immortal   float64 // SIGKILL takes minutes, as in a kernel that waits for a disk
	spawnFails float64
	shortage   float64 // of failed spawns: the machine is short of something
	spawnHangs float64
	execHangs  float64 // the fork is done, and its result takes minutes
	lateResult time.Duration
	watchFails float64 // a process can't be watched
	slowSpawn  time.Duration
	life       time.Duration // mean life of a process that crashes
	orphans    float64       // an end leaves a zombie that nobody knows
	breeds     float64       // a process brings forth another one, which leaves its group
	hookFails  float64
	hookHangs  float64
	hookTime   time.Duration
	work       time.Duration // how long a run of a schedule takes at most; 0: for ever
	forkTime   time.Duration // between what a worker does about a fork
	slowInit   float64       // who is not superd's child is reaped late
	exitInfo   float64       // the kernel tells then how he ended
	neverReady float64
	slowReady  time.Duration
	sick       float64 // it answers no checks any more, and does not feed its watchdog
	reloads    float64
	checkHangs float64
	begets     float64 // a main process hands over to a child
	census     float64 // a tree takes a while to be looked at, as without cgroups
}

func (k *simKernel) chance(p float64) bool { return p > 0 && k.rng.Float64() < p }

func (k *simKernel) pick(among ...float64) float64 { return among[k.rng.IntN(len(among))] }

func (k *simKernel) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(k.rng.Int64N(int64(d)))
}

// Hush implements [System]: one signal in a burst is as good as all.
func (k *simKernel) Hush() {}

// Sweep implements [System].
func (k *simKernel) Sweep(dead func(pid int)) {
	if k.forks > 0 && !k.ungated {
		k.sweep = dead
		return
	}
	k.sweep = nil
	last := 0
	for len(k.zombies) > 0 && k.zombies[0].pid != last {
		last = k.zombies[0].pid
		dead(last)
	}
}

// ReapStranger implements [System].
func (k *simKernel) ReapStranger(pid int) (pidfd.Exit, error) {
	p := k.byPid[pid]
	if p == nil {
		k.fail("stranger %d is reaped, which is not there", pid)
		return pidfd.Exit{}, syscall.ECHILD
	}
	if p.role.child() {
		k.fail("%d of %s is reaped as a stranger", pid, p.instance)
	}
	k.reap(p)
	return p.exit, nil
}

// WaitsIn implements [System].
func (k *simKernel) WaitsIn(pid int) string {
	p := k.byPid[pid]
	// Of one that can't be watched, and of one that has told what is not settled, superd learns a while later.
	// Of one that is not its child, only when that is reaped.
	if ago := k.v.Now() - k.endedAt[pid]; (p == nil || p.zombie && !p.foreign) && ago > max(unwatchedPause, lastWordsLimit)+100*time.Millisecond {
		k.fail("superd asks what %d waits in, which has ended %v ago", pid, ago)
	}
	if p != nil && k.asked != nil {
		k.asked(p.instance)
	}
	return "D (disk sleep)"
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
