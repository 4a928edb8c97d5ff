// Package reaper reaps superd's children, and the processes that a predecessor started.
//
// A [Reaper] belongs to the loop's goroutine. Children of instances are reaped through their
// pidfds and owners. Orphans are reaped after SIGCHLD, reapDelay later.
package reaper

import (
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// reapDelay batches the SIGCHLDs of a burst. It delays only the reaping of orphans: the
// supervisor's own children are reaped through their pidfds.
const reapDelay = 50 * time.Millisecond

// Options are what a reaper needs.
type Options struct {
	Loop  *loop.Loop
	Scope *loop.Scope // in which orphans are reaped
	Host  host.Host
	Log   *slog.Logger
	// Reports the exits of adopted processes; nil: none does
	Keeper host.FDStore
	Exits  []host.StoredExit // that the keeper reported before the start
	// Calls f when the journal has the state at the end of this turn
	AfterRecorded func(f func())
	// Bounds the wait for the exit status of an adopted process
	StatusTimeout time.Duration
	// Releases the stored pidfd of a process that has ended
	ReleaseProcess func(storedName string)
}

// A Reaper has superd's children and the processes that it adopted, and reaps them.
type Reaper struct {
	Options
	byPid map[int]owner // owners of superd's children, by pid
	// Adopted processes that may become superd's children, by pid
	adoptedByPid map[int]*adoptedProcess
	adopted      map[host.ProcessKey]*adoptedProcess // the keeper may report their exits
	timer        *loop.Timer                         // reaps orphans; nil: not scheduled
}

// New returns a reaper without processes.
func New(o Options) *Reaper {
	return &Reaper{
		Options: o, byPid: map[int]owner{}, adoptedByPid: map[int]*adoptedProcess{},
		adopted: map[host.ProcessKey]*adoptedProcess{},
	}
}

// An owner is a child and the function that reaps it.
type owner struct {
	process host.Process
	reap    func()
}

// WatchChild watches a child of superd until scope is closed. Then it closes process and releases
// its stored pidfd, whose name is storedName. reap is called in each turn after the child has
// ended. In a resource shortage, watched is false and reap is called periodically instead.
func (r *Reaper) WatchChild(scope *loop.Scope, process host.Process, storedName string, reap func()) (watched bool) {
	scope.Defer(func() {
		process.Close()
		r.ReleaseProcess(storedName)
	})
	_, watched = r.WatchExit(scope, new(loop.Watch), process, reap)
	return watched
}

// WatchExit calls reap in each turn after a child of superd has ended, until scope is closed or
// watch is stopped. In a resource shortage, watched is false and reap is called periodically
// instead. watching reports whether watch is in use.
func (r *Reaper) WatchExit(scope *loop.Scope, watch *loop.Watch, process host.Process, reap func()) (watching, watched bool) {
	pid := process.Pid()
	a, isAdopted := process.(*adoptedProcess)
	if isAdopted && !a.isChild() {
		// A child of superd may get its pid before that process is known to have ended
		a.reap = reap
		r.adoptedByPid[pid] = a
		scope.Defer(func() {
			if r.adoptedByPid[pid] == a {
				delete(r.adoptedByPid, pid)
			}
		})
	} else {
		r.byPid[pid] = owner{process, reap}
	}
	var err error
	if isAdopted {
		err = a.watch(scope, reap)
	} else {
		err = watch.OnReadable(scope, process.FD(), reap)
		watching = err == nil
	}
	if err != nil {
		// The reaping of orphans does not serve this child soon enough: a fork that hangs delays
		// it.
		scope.Every(host.UnwatchedPause, reap)
		r.LogUnwatched(pid, err)
	}
	return watching, err == nil
}

// LogUnwatched logs that superd notices the end of a process only by periodic checks. It logs
// nothing if pidfd_open is refused (EPERM of epoll): that concerns every process that is not
// superd's child, and is logged at the start.
func (r *Reaper) LogUnwatched(pid int, err error) {
	if !errors.Is(err, unix.EPERM) {
		r.Log.Error("process not watched", "pid", pid, "error", err)
	}
}

// WaitStatus returns the exit status of a process, if it has ended, and forgets it.
func (r *Reaper) WaitStatus(process host.Process) (exit pidfd.Exit, ended bool) {
	exit, ended, err := process.Wait()
	if err != nil {
		r.Log.Error("exit status not read", "pid", process.Pid(), "error", err)
		exit, ended = pidfd.Exit{}, true
	}
	if ended {
		r.DropChild(process)
	}
	return exit, ended
}

// DropChild removes a process from the children and adopted processes to reap. A newer child with
// the same pid stays. The exit of an adopted process, if the keeper has it, is acknowledged once
// the journal has what follows from it.
func (r *Reaper) DropChild(process host.Process) {
	if a, ok := process.(*adoptedProcess); ok {
		if r.adopted[a.key()] == a {
			delete(r.adopted, a.key())
			if a.keeperExit != nil { // else OnStoredExit acknowledges it
				r.AfterRecorded(func() { r.acknowledge(a.id.Pid, a.id.Start) })
			}
		}
		if a.reap != nil {
			return
		}
	}
	pid := process.Pid()
	if r.byPid[pid].process == process {
		delete(r.byPid, pid)
	}
}

// Schedule schedules the reaping of orphans after reapDelay. It is called after SIGCHLD.
func (r *Reaper) Schedule() {
	if r.timer != nil {
		return
	}
	r.Host.MaskSIGCHLD()
	r.timer = r.Scope.After(reapDelay, func() {
		r.timer = nil
		r.Host.ReapOrphans(r.reapChild)
	})
}

// reapChild reaps a zombie: through its owner, if it has one.
func (r *Reaper) reapChild(pid int) {
	if owner, ok := r.byPid[pid]; ok {
		owner.reap()
		if _, owned := r.byPid[pid]; !owned {
			// The zombie may be another process that reuses the pid of an unwatched one
			r.Schedule()
		}
		return
	}
	if adopted := r.adoptedByPid[pid]; adopted != nil && adopted.reapAsChild() {
		return
	}
	exit, err := r.Host.ReapUnknown(pid)
	if err != nil {
		r.Log.Warn("orphan not reaped", "pid", pid, "error", err)
		return
	}
	r.Log.Debug("orphan reaped", "pid", pid, "exit", exit.String())
}
