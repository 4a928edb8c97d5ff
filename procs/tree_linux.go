package procs

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/procfs"
	"superd/pidfd"
)

// KernelOptions configure how superd tracks its programs' processes.
type KernelOptions struct {
	RuntimeDir string
	FIFODir    string // directory of the programs' FIFOs
	// descriptor that holds the lock of the runtime directory: a child has it between fork and exec
	LockFD      int
	Log         *slog.Logger
	KeeperPid   int          // pid of superd's keeper; 0: none
	HadChildren bool         // this process had children before it became superd
	NoCgroup    bool         // make no cgroups, use the process scan
	OpenFiles   *unix.Rlimit // programs' limit of open files; nil: superd's own
	// called on the loop when many starts begin to wait, and when none waits any more; may be nil
	Crowd   func(bool)
	SIGCHLD Mutable // nil: SIGCHLD is never masked
}

// A Mutable is a signal that can be masked. [superd/signals.Caught] implements it for SIGCHLD.
type Mutable interface {
	Mute()
	Unmute()
}

// A kernelTree is a [Tree] of the kernel. There are two kinds: a cgroup, which a process leaves
// only with the right and the intention to do so; and, where superd can't make cgroups, a process
// scan of superd's descendants. A tree of the first kind has one of the second for processes that
// are started while no cgroup can be made.
type kernelTree interface {
	Tree

	// prepareSpawn prepares the tree for a new process and activates the limits. It returns the
	// descriptor of the cgroup directory for [pidfd.Attr], which the caller closes; -1: none. It is
	// called off the loop.
	prepareSpawn(limits *config.Limits) (cgroupFD int, err error)

	// adopt adopts a predecessor's processes and activates the limits again. It is called off the
	// loop.
	adopt(a *RecoveredProcess) error

	// registerSpawned registers a new main process or hook of the tree. It is called off the loop.
	registerSpawned(id pidfd.Identity, fifos []int)

	// makeRoom removes what ended processes of the tree have left there and what prevents a fork
	// into it. It reports whether to try again. It is called off the loop.
	makeRoom(cause error) bool
}

// NewTree implements [System].
func (k *Kernel) NewTree(instance, place string) Tree {
	if k.cgroups != nil && place != anyPlace {
		return k.cgroups.newTree(instance, place)
	}
	return k.scan.newTree(instance, place != "")
}

// startTrees makes superd a child subreaper, and decides between cgroups and the process scan.
func (k *Kernel) startTrees(o KernelOptions) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	k.looks = make(chan struct{}, lookSlots)
	why := errors.New("superd runs with --cgroups=never")
	if !o.NoCgroup {
		k.cgroups, why = openCgroups(k, o.RuntimeDir, o.KeeperPid, o.Log)
	}
	if why != nil {
		k.cgroups = nil
	}
	k.scan = newProcessScan(k, o.RuntimeDir, cmp.Or(why, errors.New("it runs without since before superd was started")))
	if o.KeeperPid == 0 { // otherwise the keeper has just started it
		k.scan.before = childrenBefore()
		k.scan.sparesUnattributed = o.HadChildren
	}
	if why != nil {
		o.Log.Info("programs get no cgroups of their own; what they leave is looked for in /proc", "because", why)
		return nil
	}
	k.loop.Root().Defer(k.cgroups.close)
	return nil
}

// How many trees are looked at, killed and removed in parallel, and how many workers remove names.
// A removal may have to wait.
const (
	lookSlots   = 2
	killSlots   = 2
	removeSlots = 2
	unlinkSlots = 1
)

// Threads is how many threads a [Kernel] and a [Supervisor] may block in the kernel: those of
// starts, looks, kills, removals of cgroups and of names, the process scan, a reload and the
// notifier.
const Threads = workers + maxHanging + lookSlots + killSlots + removeSlots + unlinkSlots + 1 + 1 + 1

// A job counts the operations that a tree has under way off the loop, so that a spawn can wait for
// their end.
type job struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when count returns to 0; nil while it is 0
}

// begin runs f in one of the workers.
func (e *job) begin(runners *workerPool, f func()) {
	e.mu.Lock()
	if e.count++; e.count == 1 {
		e.idle = make(chan struct{})
	}
	e.mu.Unlock()
	runners.add(func() {
		f()
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.count--; e.count == 0 {
			close(e.idle)
			e.idle = nil
		}
	})
}

func (e *job) wait() {
	for {
		e.mu.Lock()
		idle := e.idle
		e.mu.Unlock()
		if idle == nil {
			return
		}
		<-idle
	}
}

// A workerPool runs functions in goroutines, one after the other in each, which end when there are
// none left.
type workerPool struct {
	mu      sync.Mutex
	most    int // bound on working
	working int
	waiting []func()
}

func (r *workerPool) add(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, f)
	if r.working < r.most {
		r.working++
		go r.work()
	}
}

func (r *workerPool) work() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.waiting) > 0 {
		f := r.waiting[0]
		r.waiting[0] = nil
		if r.waiting = r.waiting[1:]; len(r.waiting) == 0 {
			r.waiting = nil
		}
		r.mu.Unlock()
		f()
		r.mu.Lock()
	}
	r.working--
}

// memberLimit returns how many processes one look opens at most: a tree may have more than superd
// may have descriptors. The next look finds the others.
func memberLimit() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(min(limit.Cur/4, 4096))
}

// openMembers opens the processes, as many as descriptors allow. It skips processes that have ended
// meanwhile.
func openMembers(stats []procfs.Stat) ([]Member, error) {
	var members []Member
	for i := range stats[:min(len(stats), memberLimit())] {
		s := &stats[i]
		p, err := procfs.OpenProcess(s)
		switch {
		case errors.Is(err, pidfd.ErrGone):
		case err != nil && len(members) > 0:
			return members, nil
		case err != nil:
			return nil, err
		default:
			members = append(members, Member{Process: p, Start: s.Start, Group: s.Group, Command: s.Command})
		}
	}
	return members, nil
}

// limitsError returns the error of a start whose limit superd can't enforce.
func limitsError(limit string, controller string, err error) error {
	fault := faultFinal
	if faultOf(err) == faultResource {
		fault = faultResource // temporary
	}
	return &SpawnError{Stage: "limit " + limit, Err: fmt.Errorf("no cgroup v2 controller %s here: %w", controller, err), Fault: fault}
}

// A limited is a limit that a cgroup enforces.
type limited struct{ limit, controller string }

// limitsIn returns the controllers that the limits need.
func limitsIn(l *config.Limits) []limited {
	var all []limited
	if l.Memory != nil {
		all = append(all, limited{"memory", "memory"})
	}
	if l.CPU != nil {
		all = append(all, limited{"cpu", "cpu"})
	}
	if l.Tasks != nil {
		all = append(all, limited{"tasks", "pids"})
	}
	return all
}

// writeFile writes to a file of the kernel, in one write.
func writeFile(path, text string) error {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0) })
	if err == nil {
		_, err = retry(func() (int, error) { return unix.Write(fd, []byte(text)) })
		unix.Close(fd)
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}
