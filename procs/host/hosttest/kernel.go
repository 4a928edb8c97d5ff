// Package hosttest is a fake host for tests of what starts and supervises processes: its processes
// live in memory and on a virtual loop.
//
// A [Kernel] implements [host.Host] and [host.FDStore], a [Handle] is a [host.Process], a [Tree] a
// [host.Tree] and a [PendingSpawn] a [host.PendingSpawn]. Which faults happen, and how long things
// take, is drawn from one source of randomness by the probabilities of a [FaultMix], so a seed
// determines all. The fake also checks its caller: it reports a process that is reaped twice, a
// signal through a closed descriptor, or two main processes of one instance. It is used on one
// goroutine.
package hosttest

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// A Kernel is a fake host. Its processes live, fork, ignore signals, hang and die as drawn. Pids
// and descriptors are reused as soon as possible. [New] makes one.
type Kernel struct {
	Mix     FaultMix
	Defects Defects

	ReportsLeftovers bool // whether Search reports live processes of unknown runs
	QueuesHung       bool // whether spawns that hang are in the start queue
	// Whether a keeper reaps the processes of an earlier superd and reports their exits
	Keeper    bool
	StoresFDs bool // whether the keeper stores descriptors, not only exits
	// How late superd may learn of the end of a process that it can't watch
	LearnsLate time.Duration

	// Functions that may be nil:
	Logf      func(format string, args ...any) // adds a line to the history
	OnSpawn   func(*host.SpawnSpec)            // called at each spawn
	OnWaitsIn func(instance string)            // called when superd reads the state of a process
	// Called for each recovered process that has existed
	OnAdopt    func(*Process, *host.RecoveredProcess)
	ReportExit func(host.StoredExit) // reports an exit to the current superd
	SIGCHLD    func()                // called when a child has ended
	// Called when a live main process gets the stop signal
	OnStopSignal func(*Process)
	// Called when the keeper is told that it need not keep an exit any more
	OnAcknowledge func(pid int, start uint64)
	// Called when superd has opened a socket, or closed it
	OnListen func(l *Listening, opened bool)
	OnAccept func(listen.Address) // called when connections to the address were accepted
	// Whether superd shows the instance as running; nil: never
	IsRunning func(instance string) bool
	// Whether the instance is one beside those that conflict by their names; nil: never
	IsExtra func(instance string) bool

	PIDFiles map[string]int // pid files, by path; 0: an empty one
	// Reads of pid files never end
	PIDFilesHang bool
	OpenErr      error // for Open; nil: it succeeds

	v    *loop.Virtual
	rng  *rand.Rand
	fail func(format string, args ...any)

	// Scope of the current superd, closed with all that it has under way
	session *loop.Scope
	exits   []host.StoredExit // stored by the keeper, and not acknowledged

	byPid        []*Process // by pid: alive or zombie; nil: the pid is free
	byStart      map[uint64]*Process
	zombies      []*Process // in the order of their exits
	counts       map[string]*ProcessCount
	spawned      int
	reaped       int
	forks        int                          // forks whose result the loop does not have yet
	pendingSweep func(pid int)                // reaping to be resumed later; nil: none
	modes        map[string][]config.KillMode // all kill modes that a program has had
	// Commands of forking programs whose main process is not known, by instance
	launchers map[string]*Process

	handles map[int]*Handle // open ones, by descriptor
	// Watches of files that superd has
	fileWatches []*fileWatch
	stored      map[string]storedFD // in the descriptor store, by name

	checks        int                        // number of checks so far, not counting exec checks
	checking      map[int]func(error)        // checks under way, by number
	sockets       map[string]*Socket         // by run
	notifyFDs     map[int]*Socket            // by descriptor
	mainsStarted  map[string]int             // main processes started, by instance
	mains         map[string]*Process        // by run: the main process that superd knows
	shortages     map[string]bool            // runs whose start failed in a resource shortage
	hookEnds      int                        // hooks that have ended
	endedAt       []time.Duration            // by pid, for the last process that had it
	definitions   map[string]*config.Program // by run: the definition with which it was started
	kills         map[string][]killRule      // how processes of a program may be killed, by program
	commands      map[commandKey]*CommandLog
	reloadSignals map[string]time.Duration // by run: when its main process last got SIGHUP
	tmps          map[string]*privateTmp   // by path
	sandboxLacks  map[string][]string      // by run: what of its sandbox could not be enforced
	requestedAt   map[string]time.Duration // by run: when its main process was to be started
	listening     map[int]*Listening       // sockets that superd has open, by descriptor
	connections   map[int]string           // runs that have accepted ones, by descriptor
	served        map[string]bool          // runs that got a connection
}

// New returns a host without processes and without faults. It reports misuse through fail.
func New(v *loop.Virtual, rng *rand.Rand, fail func(format string, args ...any)) *Kernel {
	return &Kernel{
		v: v, rng: rng, fail: fail, session: v.Root().Child(),
		byStart: map[uint64]*Process{}, counts: map[string]*ProcessCount{},
		handles: map[int]*Handle{}, stored: map[string]storedFD{},
		modes: map[string][]config.KillMode{}, launchers: map[string]*Process{}, checking: map[int]func(error){},
		sockets: map[string]*Socket{}, notifyFDs: map[int]*Socket{},
		mainsStarted: map[string]int{}, mains: map[string]*Process{}, shortages: map[string]bool{},
		definitions: map[string]*config.Program{}, PIDFiles: map[string]int{}, kills: map[string][]killRule{},
		commands: map[commandKey]*CommandLog{}, reloadSignals: map[string]time.Duration{},
		requestedAt: map[string]time.Duration{}, tmps: map[string]*privateTmp{}, sandboxLacks: map[string][]string{},
		listening: map[int]*Listening{}, connections: map[int]string{}, served: map[string]bool{},
	}
}

var (
	_ host.Host         = (*Kernel)(nil)
	_ host.FDStore      = (*Kernel)(nil)
	_ host.Process      = (*Handle)(nil)
	_ host.Tree         = (*Tree)(nil)
	_ host.PendingSpawn = (*PendingSpawn)(nil)
)

func (k *Kernel) logf(format string, args ...any) {
	if k.Logf != nil {
		k.Logf(format, args...)
	}
}

// Process returns the process that has the pid, alive or a zombie; nil: none.
func (k *Kernel) Process(pid int) *Process {
	if pid < 0 || pid >= len(k.byPid) {
		return nil
	}
	return k.byPid[pid]
}

// Processes returns all processes, zombies too, in the order of their pids. A process may end or
// begin meanwhile.
func (k *Kernel) Processes() iter.Seq[*Process] {
	return func(yield func(*Process) bool) {
		for pid := firstPid; pid < len(k.byPid); pid++ {
			if p := k.byPid[pid]; p != nil && !yield(p) {
				return
			}
		}
	}
}

// firstPid is the lowest pid of a process other than superd.
const firstPid = 2

// freePid returns the lowest free pid, so that pids are soon reused.
func (k *Kernel) freePid() int {
	for pid := firstPid; pid < len(k.byPid); pid++ {
		if k.byPid[pid] == nil {
			return pid
		}
	}
	more := max(firstPid+1-len(k.byPid), 1)
	k.byPid, k.endedAt = append(k.byPid, make([]*Process, more)...), append(k.endedAt, make([]time.Duration, more)...)
	return len(k.byPid) - 1
}

// Zombies returns the zombie children of superd, in the order of their ends.
func (k *Kernel) Zombies() []*Process { return k.zombies }

// Main returns the main process of a run that superd knows; nil: none.
func (k *Kernel) Main(run string) *Process { return k.mains[run] }

// MainsStarted returns how many main processes of the instance were started.
func (k *Kernel) MainsStarted(instance string) int { return k.mainsStarted[instance] }

// Definition returns the definition with which the run was started; nil: it was not.
func (k *Kernel) Definition(run string) *config.Program { return k.definitions[run] }

// RequestedAt returns when the start of the run's main process was requested.
func (k *Kernel) RequestedAt(run string) time.Duration { return k.requestedAt[run] }

// Shortage reports whether a start of the run failed in a resource shortage.
func (k *Kernel) Shortage(run string) bool { return k.shortages[run] }

// ForgetShortage lets Shortage report false, as the run's outcome was lost.
func (k *Kernel) ForgetShortage(run string) { delete(k.shortages, run) }

// Forks returns how many forks have a result that the loop does not have yet.
func (k *Kernel) Forks() int { return k.forks }

// HookEnds returns how many hooks have ended.
func (k *Kernel) HookEnds() int { return k.hookEnds }

// EndedAt returns when the last process with the pid ended.
func (k *Kernel) EndedAt(pid int) time.Duration {
	if pid >= len(k.endedAt) {
		return 0
	}
	return k.endedAt[pid]
}

// Started returns how many processes were started.
func (k *Kernel) Started() int { return k.spawned }

// Reaped returns how many processes were reaped.
func (k *Kernel) Reaped() int { return k.reaped }

// NotifyFDs returns how many notify sockets and readiness pipes superd has open.
func (k *Kernel) NotifyFDs() int { return len(k.notifyFDs) }

// ChecksUnderWay returns how many checks have no result yet, not counting exec checks.
func (k *Kernel) ChecksUnderWay() int { return len(k.checking) }

// MaskSIGCHLD implements [host.Host]. It does nothing: one signal of a burst is enough.
func (k *Kernel) MaskSIGCHLD() {}

// ReapOrphans implements [host.Host].
func (k *Kernel) ReapOrphans(dead func(pid int)) {
	if k.Defects.ReapWaitsForForks && k.forks > 0 {
		k.pendingSweep = dead
		return
	}
	k.pendingSweep = nil
	last := 0
	for len(k.zombies) > 0 && k.zombies[0].Pid != last {
		if k.zombies[0].resultPending && !k.Defects.NoReapGate {
			k.pendingSweep = dead
			return
		}
		last = k.zombies[0].Pid
		dead(last)
	}
}

// Unattributed implements [host.Host].
func (k *Kernel) Unattributed(found func([]host.Member)) { found(nil) }

// Unowned implements [host.Host].
func (k *Kernel) Unowned() []host.UnattributedProcess { return nil }

// ReapUnknown implements [host.Host].
func (k *Kernel) ReapUnknown(pid int) (pidfd.Exit, error) {
	p := k.Process(pid)
	if p == nil {
		k.fail("unknown child %d is reaped, which does not exist", pid)
		return pidfd.Exit{}, syscall.ECHILD
	}
	if p.Role.Spawned() {
		k.fail("%d of %s is reaped as an unknown child", pid, p.Instance)
	}
	k.reap(p)
	return p.Exit, nil
}

// WaitsIn implements [host.Host].
func (k *Kernel) WaitsIn(pid int) host.WaitState {
	p := k.Process(pid)
	// superd learns of the end of a process that is not its child only when that is reaped
	ended := p == nil || p.Zombie && !p.Reparented && !p.Traced
	if ago := k.v.Now() - k.EndedAt(pid); ended && ago > k.LearnsLate {
		k.fail("superd reads the state of %d, which ended %v ago", pid, ago)
	}
	if p != nil && k.OnWaitsIn != nil {
		k.OnWaitsIn(p.Instance)
	}
	return host.WaitState{Text: "D (disk sleep)"}
}

// BoundsMaxRSS implements [host.Host]. The simulated superd has 1 MiB.
func (k *Kernel) BoundsMaxRSS(child int64) bool { return child <= 1<<20 }

// RemoveNames implements [host.Host].
func (k *Kernel) RemoveNames([]string) {}

// removalTime draws how long a removal of directories takes.
func (k *Kernel) removalTime() time.Duration {
	if k.chance(0.05) {
		return time.Minute
	}
	return k.upTo(10 * time.Millisecond)
}

// RemoveDirectories implements [host.Host]. A removal may hang for longer than superd waits.
func (k *Kernel) RemoveDirectories(_ []string, done func(error)) (cancel func()) {
	scope := k.session.Child()
	scope.After(k.removalTime(), func() {
		scope.Close()
		if k.chance(k.Mix.DirectoryStays) {
			done(fmt.Errorf("remove directory: %w", syscall.EBUSY))
			return
		}
		done(nil)
	})
	return scope.Close
}

// RemoveOtherNames implements [host.Host].
func (k *Kernel) RemoveOtherNames(dirs, keep []string) {}

// CloseFD implements [host.Host].
func (k *Kernel) CloseFD(fd int) {
	switch h := k.handles[fd]; {
	case fd < 0:
	case h != nil:
		h.Close()
	default:
		delete(k.notifyFDs, fd)
		delete(k.listening, fd)
		k.v.CloseFD(fd)
	}
}

// Nowhere implements [host.Host].
func (k *Kernel) Nowhere() (int, error) { return -1, nil }

// Capture implements [host.Host]: each command writes the same line.
func (k *Kernel) Capture(*loop.Scope) (host.Capture, error) { return capture{}, nil }

type capture struct{}

// Writer implements [host.Capture].
func (capture) Writer() (int, error) { return -1, nil }

// Tail implements [host.Capture].
func (capture) Tail() (string, bool) { return CommandOutput + "\n", false }

// CommandOutput is what commands write whose output is captured.
const CommandOutput = "line 3: unknown key"

// Open implements [host.Host].
func (k *Kernel) Open(tree host.Tree, pid int) (host.Process, pidfd.Identity, error) {
	p := k.Process(pid)
	if p == nil || !tree.Has(pid) && !k.Defects.AnyMain {
		return nil, pidfd.Identity{}, pidfd.ErrGone
	}
	if k.OpenErr != nil {
		return nil, pidfd.Identity{}, k.OpenErr
	}
	k.mainOpened(p)
	return p.open(), p.id(), nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
