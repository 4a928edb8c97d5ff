// Package linux runs and finds processes with the Linux kernel. It implements procs/host.
//
// A start has these stages: a worker of the start queue opens all that the exec will open, prepares
// the tree of the instance, clones a process, which the reap gate registers, and the process
// executes its program, directly or through the exec shim. The state of a [Host] belongs to the
// loop; what may block runs in goroutines that post their results.
package linux

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/privilege"
	"superd/internal/workers"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
	"superd/procs/linux/cgroup"
	"superd/procs/linux/proctree"
	"superd/sandbox"
	"superd/sandbox/shim"
)

// A Host is the [host.Host] of production: the kernel.
type Host struct {
	loop        *loop.Loop
	runtimeDir  string
	fifoDir     string
	keeper      int // its pid; 0: none
	log         *slog.Logger
	openFiles   *unix.Rlimit
	slots       *pidfd.Slots
	null        int  // /dev/null, the programs' standard input
	ambient     bool // superd has capabilities that programs of other users must not get
	oomScoreAdj *int // value for the programs; nil: superd's own
	starts      startQueue
	gate        reapGate
	reapChild   func(pid int)     // callback of the last ReapOrphans; loop only
	sigchld     Maskable          // may be nil
	cgroups     *cgroup.Manager   // of the trees; nil: none, the process scan finds their processes
	scan        *proctree.Scanner // for trees without a cgroup
	unlinks     workers.Pool      // workers that remove names of FIFOs and notify sockets
	unlinking   workers.Job       // removals in progress: a start waits for their end
	removals    workers.Pool      // workers that remove directories of programs
	removing    workers.Job       // their work
	pidFiles    workers.Pool      // workers that read pid files of programs
	pidReading  workers.Job       // their work
	pidPaths    sync.Map          // paths of the files that are read or will be
	binds       workers.Pool      // one worker that opens sockets without a path
	pathBinds   workers.Pool      // workers that open those with a path
	closes      workers.Pool      // workers that remove the paths of sockets
	closing     workers.Job       // their work
	// Closed when the last removal of a path has ended, by path; loop only
	pathRemovals map[string]chan struct{}
	// One worker that finds who has sockets, and how many connections they have
	socketQueries workers.Pool
	queues        queueQueries
	opening       workers.Job      // the work of these three
	swept         sync.Map         // directories in which what an earlier superd left was removed
	reach         sync.Once        // see checkReach
	shim          shim.File        // the exec shim for sandboxes
	filters       sandbox.Programs // the filters of these
	maxRSS        maxRSS           // superd's own; loop only
}

// Options configure a [Host].
type Options struct {
	RuntimeDir string
	FIFODir    string // directory of the programs' FIFOs
	// descriptor of the lock of the runtime directory: a child has it between fork and exec
	LockFD      int
	Log         *slog.Logger
	KeeperPid   int          // pid of superd's keeper; 0: none
	HadChildren bool         // this process had children before it became superd
	NoCgroup    bool         // make no cgroups, use the process scan
	OpenFiles   *unix.Rlimit // programs' limit of open files; nil: superd's own
	// called on the loop when many starts begin to wait, and when none waits any more; may be nil
	Crowd   func(bool)
	SIGCHLD Maskable // nil: SIGCHLD is never masked
}

// A Maskable is a signal that can be masked. [superd/signals.Caught] implements it for SIGCHLD.
type Maskable interface {
	Mask()
	Unmask()
}

// New returns the host that superd runs on.
func New(l *loop.Loop, o Options) (*Host, error) {
	// Its number is below the slots, so that it needs none.
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	l.Root().Defer(func() { unix.Close(null) })
	slots, err := pidfd.ReserveSlots(o.LockFD, startWorkers)
	if err != nil {
		return nil, err
	}
	l.Root().Defer(slots.Close)
	oomScoreAdj, err := ownOOMScore()
	if err != nil {
		return nil, fmt.Errorf("read own oom_score_adj: %w", err)
	}
	k := &Host{loop: l, openFiles: o.OpenFiles, slots: slots, runtimeDir: o.RuntimeDir, fifoDir: o.FIFODir, keeper: o.KeeperPid, log: o.Log, sigchld: o.SIGCHLD, null: null, oomScoreAdj: oomScoreAdj, ambient: privilege.Ambient()}
	k.starts.crowded = k.crowded(o.Crowd)
	k.gate.init()
	k.pathRemovals = map[string]chan struct{}{}
	k.unlinks.Limit, k.removals.Limit, k.pidFiles.Limit = unlinkSlots, removeSlots, pidFileSlots
	k.binds.Limit, k.socketQueries.Limit, k.pathBinds.Limit, k.closes.Limit = 1, 1, socketSlots, socketSlots
	l.Root().Defer(k.endRemovals)
	if err := k.startTrees(o); err != nil {
		return nil, err
	}
	return k, nil
}

// startTrees makes superd a child subreaper, and decides between cgroups and the process scan.
func (k *Host) startTrees(o Options) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	noCgroup := errors.New("it was started without one by a predecessor")
	inherits := o.KeeperPid == 0 // otherwise the keeper has just started it
	k.scan = proctree.New(proctree.Options{
		RuntimeDir:         o.RuntimeDir,
		Log:                o.Log,
		Post:               k.loop.Post,
		IsNew:              k.gate.isUnannounced,
		Refuse:             func(limits *config.Limits) error { return cgroup.Refuse(limits, noCgroup) },
		Inherits:           inherits,
		SparesUnattributed: inherits && o.HadChildren,
	})
	why := errors.New("superd runs with --cgroups=never")
	if !o.NoCgroup {
		k.cgroups, why = cgroup.Open(cgroup.Options{
			RuntimeDir: o.RuntimeDir,
			Keeper:     o.KeeperPid,
			Log:        o.Log,
			Post:       k.loop.Post,
			Spawn:      k.spawnUnowned,
			Scan:       k.scan,
		})
	}
	if why != nil {
		k.cgroups, noCgroup = nil, why
		o.Log.Info("programs get no cgroups; leftover processes are found by scanning /proc", "because", why)
		return nil
	}
	k.loop.Root().Defer(k.cgroups.Close)
	return nil
}

// Threads is how many threads a [Host] and a supervisor may block in the kernel: those of
// starts, looks, kills, removals of cgroups and of names, sockets, the process scan, a reload and
// the notifier.
const Threads = startWorkers + maxHanging + cgroup.Threads + unlinkSlots + removeSlots + socketSlots + 1 +
	1 + 1 + 1

// unlinkSlots is how many workers remove names of FIFOs and notify sockets.
const unlinkSlots = 1

// removeSlots is how many workers remove directories of programs.
const removeSlots = 2

// ownOOMScore returns the programs' oom_score_adj: 0 if superd's own protects superd from the OOM
// killer, which must not be inherited; nil if the programs may inherit it.
func ownOOMScore() (*int, error) {
	data, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return nil, err
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || score >= 0 {
		return nil, err
	}
	return new(int), nil
}

// gatherPause is how long a successful start waits for others while many starts are queued, so that
// the loop handles them together.
const gatherPause = 4 * time.Millisecond

// crowded returns a function to call when many starts begin to wait, and when none waits any more.
func (k *Host) crowded(notify func(bool)) func(bool) {
	return func(many bool) {
		k.loop.Post(func() {
			pause := time.Duration(0)
			if many {
				pause = gatherPause
			}
			k.loop.Gather(pause)
			if notify != nil {
				notify(many)
			}
		})
	}
}

// ReapUnknown implements [host.Host].
func (k *Host) ReapUnknown(pid int) (pidfd.Exit, error) {
	k.scan.NoteReaping()
	exit, _, err := pidfd.ReapUnknown(pid)
	return exit, err
}

// RemoveNames implements [host.Host]. A name that can't be removed stays, or goes with its
// directory.
func (k *Host) RemoveNames(paths []string) {
	k.unlinking.Begin(&k.unlinks, func() { unlink(paths) })
}

// RemoveOtherNames implements [host.Host].
func (k *Host) RemoveOtherNames(dirs, keep []string) {
	keepSet := make(map[string]bool, len(keep))
	for _, path := range keep {
		keepSet[path] = true
	}
	k.unlinking.Begin(&k.unlinks, func() {
		for _, dir := range dirs {
			entries, _ := os.ReadDir(dir) // as many as can be read
			for _, entry := range entries {
				if path := filepath.Join(dir, entry.Name()); !keepSet[path] {
					unlink([]string{path})
				}
			}
		}
	})
}

// unlink removes names as far as possible. No name is a directory's.
func unlink(paths []string) {
	for _, path := range paths {
		_ = unix.Unlink(path)
	}
}

// WaitsIn implements [host.Host].
func (k *Host) WaitsIn(pid int) host.WaitState { return waitsIn(pid) }

// waitsIn returns what a process waits in. Source: man 5 proc_pid_stat, proc_pid_wchan.
func waitsIn(pid int) host.WaitState {
	state := "unknown"
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "State:"); ok {
				state = strings.TrimSpace(rest)
			}
		}
	}
	if wchan, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid)); err == nil && len(wchan) > 0 && string(wchan) != "0" {
		state += " in " + string(wchan)
	}
	return host.WaitState{Text: state, Stopped: strings.HasPrefix(state, string(stateStopped))}
}

// BoundsMaxRSS implements [host.Host].
func (k *Host) BoundsMaxRSS(child int64) bool { return k.maxRSS.bounds(child) }
