package procs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/pidfd"
)

// KernelOptions say how superd keeps its programs' processes together.
type KernelOptions struct {
	RuntimeDir string
	LockFD     int // the descriptor that holds it, which a child has between fork and exec: see [RuntimeDir.LockFD]
	Log        *slog.Logger
	KeeperPid  int          // of superd's keeper, 0 without one
	NoCgroup   bool         // make no cgroups, look through /proc instead
	OpenFiles  *unix.Rlimit // the programs' limit of open files; nil: superd's own
	Crowd      func(bool)   // is told on the loop when many starts begin to wait, and when none waits any more; nil: nobody wants to know
	SIGCHLD    Mutable      // nil: it is told as it comes
}

// A Mutable is a signal that need not be told. A [superd/signals.Caught] is SIGCHLD.
type Mutable interface {
	Mute()
	Unmute()
}

// A kernelTree is a [Tree] of the kernel. There are two kinds: a cgroup of its own, which no process leaves unless it has the right
// to and means to, and, where superd can't make cgroups, a census of superd's descendants.
type kernelTree interface {
	Tree

	// admit makes ready for a process that is to be born in the tree, with the limits in force, and returns the descriptor of
	// the cgroup directory for [pidfd.Attr], to be closed; -1 without one. Off the loop.
	admit(limits *config.Limits) (cgroupFD int, err error)

	// adopt tells of what an earlier superd has started, and puts the limits in force again. Off the loop.
	adopt(a *Adoptee) error

	// born tells of a main process or hook that lives in the tree from now on. Off the loop.
	born(id pidfd.Identity, fifos []int)

	// makeRoom removes what processes of the tree that are gone have made there and what keeps a birth out. It reports whether
	// a second try is worth while. Off the loop.
	makeRoom(cause error) bool
}

// NewTree implements [System].
func (k *Kernel) NewTree(instance, place string) Tree {
	switch {
	case k.cgroups != nil && place != anyPlace:
		return k.cgroups.newTree(instance, place)
	case k.census == nil:
		k.census = newCensus(k, k.runtimeDir, errors.New("it runs without since before superd was started"))
	}
	return k.census.newTree(instance, place != "")
}

// startTrees makes superd the parent of orphans below it, and finds out how trees can be had.
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
		k.census = newCensus(k, o.RuntimeDir, why)
		o.Log.Info("programs get no cgroups of their own; what they leave is looked for in /proc", "because", why)
		return nil
	}
	k.loop.Root().Defer(k.cgroups.close)
	return nil
}

// How many trees are looked at, killed and removed side by side, and who removes FIFOs. A removal may have to wait.
const (
	lookSlots   = 2
	killSlots   = 2
	removeSlots = 2
	unlinkSlots = 1
)

// Threads is how many threads a [Kernel] and a [Supervisor] may keep waiting in the kernel: those of starts, of looks, kills,
// removals of cgroups and of FIFOs, of the census, of a reload and of the notifier.
const Threads = workers + maxHanging + lookSlots + killSlots + removeSlots + unlinkSlots + 1 + 1 + 1

// An errand counts what a tree has under way off the loop, so that a birth can wait for the end of it.
type errand struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when nothing is under way any more; nil while nothing is
}

// begin has f run by one of those.
func (e *errand) begin(runners *runners, f func()) {
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

// wait returns when nothing is under way.
func (e *errand) wait() {
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

// Runners are goroutines that do one errand after the other, and end when there is none.
type runners struct {
	mu      sync.Mutex
	most    int // at a time
	working int
	waiting []func()
}

func (r *runners) add(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, f)
	if r.working < r.most {
		r.working++
		go r.work()
	}
}

func (r *runners) work() {
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

// memberLimit returns how many processes one look opens at most: a tree may hold more than superd may have descriptors. The others
// are found by the look after.
func memberLimit() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(min(limit.Cur/4, 4096))
}

// openMembers opens the processes, as many as there are descriptors for. Those that have ended meanwhile are left out.
func openMembers(stats []procStat) ([]Member, error) {
	var members []Member
	for i := range stats[:min(len(stats), memberLimit())] {
		s := &stats[i]
		p, err := openProcess(s)
		switch {
		case errors.Is(err, pidfd.ErrGone):
		case err != nil && len(members) > 0:
			return members, nil
		case err != nil:
			return nil, err
		default:
			members = append(members, Member{Process: p, Start: s.start, Group: s.group, Command: s.command})
		}
	}
	return members, nil
}

// limitsError is a start refused since a limit can't be kept here.
func limitsError(limit string, controller string, err error) error {
	return &SpawnError{Stage: "limit " + limit, Err: fmt.Errorf("no cgroup v2 controller %s here: %w", controller, err), Fault: faultFinal}
}

// A limited is one of the limits that a cgroup keeps.
type limited struct{ limit, controller string }

// limitsIn returns which controllers the limits need.
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

// writeFile writes to a file of the kernel, which takes it as one write.
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
