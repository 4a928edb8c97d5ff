package procs

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
	"superd/procs/instance"
)

// reapDelay batches the SIGCHLDs of a burst. It delays only the reaping of orphans: the
// supervisor's own children are reaped through their pidfds.
const reapDelay = 50 * time.Millisecond

// A reaper has superd's children and the processes that it adopted, and reaps them: the children of
// instances through their pidfds and owners, orphans after SIGCHLD.
type reaper struct {
	*platform
	recorder *recorder
	fds      *fdKeeper
	byPid    map[int]owner // owners of superd's children, by pid
	// Adopted processes that may become superd's children, by pid
	adoptedByPid map[int]*adoptedProcess
	adopted      map[host.ProcessKey]*adoptedProcess // the keeper may report their exits
	timer        *loop.Timer                         // reaps orphans; nil: not scheduled
}

func newReaper(p *platform, rec *recorder, fds *fdKeeper) *reaper {
	return &reaper{
		platform: p, recorder: rec, fds: fds,
		byPid: map[int]owner{}, adoptedByPid: map[int]*adoptedProcess{},
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
func (r *reaper) WatchChild(scope *loop.Scope, process host.Process, storedName string, reap func()) (watched bool) {
	scope.Defer(func() {
		process.Close()
		r.fds.ReleaseProcess(storedName)
	})
	_, watched = r.WatchExit(scope, new(loop.Watch), process, reap)
	return watched
}

// WatchExit calls reap in each turn after a child of superd has ended, until scope is closed or
// watch is stopped. In a resource shortage, watched is false and reap is called periodically
// instead. watching reports whether watch is in use.
func (r *reaper) WatchExit(scope *loop.Scope, watch *loop.Watch, process host.Process, reap func()) (watching, watched bool) {
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
func (r *reaper) LogUnwatched(pid int, err error) {
	if !errors.Is(err, unix.EPERM) {
		r.Log.Error("process not watched", "pid", pid, "error", err)
	}
}

// WaitStatus returns the exit status of a child, if it has ended, and forgets the child.
func (r *reaper) WaitStatus(process host.Process) (exit pidfd.Exit, ended bool) {
	exit, ended, err := process.Wait()
	if err != nil {
		r.Log.Error("exit status not read", "pid", process.Pid(), "error", err)
		exit, ended = pidfd.Exit{}, true
	}
	if a, ok := process.(*adoptedProcess); ended && (!ok || a.reap == nil) {
		r.forgetChild(process)
	}
	return exit, ended
}

// forgetChild removes the process from the children to reap. A newer child with the same pid stays.
func (r *reaper) forgetChild(process host.Process) {
	pid := process.Pid()
	if r.byPid[pid].process == process {
		delete(r.byPid, pid)
	}
}

// DropChild removes a process that has not ended from the children and adopted processes to reap.
func (r *reaper) DropChild(process host.Process) {
	if a, ok := process.(*adoptedProcess); ok {
		key := host.ProcessKey{Pid: a.id.Pid, Start: a.id.Start}
		if r.adopted[key] == a {
			delete(r.adopted, key)
		}
		if a.reap != nil {
			return
		}
	}
	r.forgetChild(process)
}

// Schedule schedules the reaping of orphans after reapDelay. It is called after SIGCHLD.
func (r *reaper) Schedule() {
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
func (r *reaper) reapChild(pid int) {
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

// Adopt returns an adopted process. p is nil if the process no longer exists.
func (r *reaper) Adopt(p host.Process, id pidfd.Identity) host.Process {
	a := &adoptedProcess{Process: p, reaper: r, id: id, gone: p == nil}
	key := host.ProcessKey{Pid: id.Pid, Start: id.Start}
	r.adopted[key] = a
	for _, e := range r.options.Predecessor.StoredFDs.Exits {
		if (host.ProcessKey{Pid: e.Pid, Start: e.Start}) == key {
			a.keeperExit = &e.Exit
		}
	}
	return a
}

// onStoredExit handles an exit that the keeper reports. It is called on the loop.
func (r *reaper) onStoredExit(e host.StoredExit) {
	a := r.adopted[host.ProcessKey{Pid: e.Pid, Start: e.Start}]
	if a == nil {
		// No instance waits for it: the process is unattributed, or its exit is known already and
		// may not be in the journal yet
		r.recorder.afterRecorded(func() { r.fds.keeper.Acknowledge(e.Pid, e.Start) })
		return
	}
	a.keeperExit = &e.Exit
	if a.reap != nil {
		a.reap()
	}
}

// Acknowledge acknowledges the exit of an adopted process to the keeper, once the journal has it.
func (r *reaper) Acknowledge(id pidfd.Identity) {
	key := host.ProcessKey{Pid: id.Pid, Start: id.Start}
	if r.adopted[key] == nil {
		return // superd's own child
	}
	delete(r.adopted, key)
	r.recorder.afterRecorded(func() { r.fds.keeper.Acknowledge(id.Pid, id.Start) })
}

// acknowledgeUnclaimed acknowledges the stored exits that no instance needs.
func (r *reaper) acknowledgeUnclaimed() {
	for _, e := range r.options.Predecessor.StoredFDs.Exits {
		if r.adopted[host.ProcessKey{Pid: e.Pid, Start: e.Start}] == nil {
			r.fds.keeper.Acknowledge(e.Pid, e.Start)
		}
	}
}

// An adoptedProcess is a process that a predecessor started. After an upgrade in place it is still
// superd's child; otherwise the keeper is its parent and reaps it.
type adoptedProcess struct {
	host.Process // nil: it no longer exists
	reaper       *reaper
	id           pidfd.Identity
	reap         func()        // its owner's callback; nil if it is superd's child
	gone         bool          // the process no longer exists
	endedAt      time.Duration // when its end was noticed; 0 before
	keeperExit   *pidfd.Exit   // exit that the keeper reported; nil before
}

// reapAsChild reaps the process if it has ended and has become superd's child, as after the end of
// its parent.
func (a *adoptedProcess) reapAsChild() bool {
	if a.Process == nil {
		return false
	}
	exit, ended, err := a.Process.Wait()
	if err != nil || !ended {
		return false
	}
	a.keeperExit = &exit
	a.reap()
	return true
}

// isChild reports whether the process is superd's child, as after an upgrade in place.
func (a *adoptedProcess) isChild() bool {
	if a.Process == nil {
		return false
	}
	_, _, err := a.Process.Wait()
	return !errors.Is(err, pidfd.ErrNotChild)
}

// Unwrap returns the process that was adopted; nil if it no longer exists.
func (a *adoptedProcess) Unwrap() host.Process { return a.Process }

// Pid implements [host.Process].
func (a *adoptedProcess) Pid() int { return a.id.Pid }

// FD implements [host.Process]. It is -1 if the process no longer exists.
func (a *adoptedProcess) FD() int {
	if a.Process == nil {
		return -1
	}
	return a.Process.FD()
}

// Signal implements [host.Process].
func (a *adoptedProcess) Signal(sig syscall.Signal) error {
	if a.Process == nil {
		return pidfd.ErrGone
	}
	return a.Process.Signal(sig)
}

// SignalGroup implements [host.Process]. If the kernel can't signal a group through the pidfd of a
// process that is not a child, only the main process gets the signal. The others get theirs after
// its end.
func (a *adoptedProcess) SignalGroup(sig syscall.Signal) error {
	if a.Process == nil {
		return pidfd.ErrGone
	}
	err := a.Process.SignalGroup(sig)
	if errors.Is(err, pidfd.ErrNotChild) {
		return a.Process.Signal(sig)
	}
	return err
}

// Close implements [host.Process].
func (a *adoptedProcess) Close() error {
	if a.Process == nil {
		return nil
	}
	return a.Process.Close()
}

// Wait implements [host.Process]. The status comes from the kernel or the keeper. If it does not
// come within statusTimeout, the exit is unknown.
func (a *adoptedProcess) Wait() (pidfd.Exit, bool, error) {
	if a.Process != nil {
		exit, ended, err := a.Process.Wait()
		if err == nil || !errors.Is(err, pidfd.ErrNotChild) && !errors.Is(err, pidfd.ErrGone) {
			return exit, ended, err
		}
	}
	if a.keeperExit != nil {
		return *a.keeperExit, true, nil
	}
	if a.Process != nil {
		if exit, ended, err := a.Process.ExitInfo(); err == nil && ended {
			return exit, true, nil
		}
		// It is reaped: only the keeper can report the status now
		if errors.Is(a.Process.Signal(0), pidfd.ErrGone) {
			a.gone = true
			if a.endedAt == 0 { // no watch has reported it
				a.endedAt = a.reaper.Loop.Now()
			}
		}
	}
	if a.endedAt != 0 && a.reaper.Loop.Now()-a.endedAt >= a.statusTimeout() {
		return pidfd.Exit{}, true, nil
	}
	return pidfd.Exit{}, false, nil
}

// Ended implements [host.Process].
func (a *adoptedProcess) Ended() bool { return a.Process == nil || a.endedAt != 0 || a.Process.Ended() }

// statusTimeout bounds the wait for the exit status after the end. Without a keeper, the status of
// a reaped process is lost.
func (a *adoptedProcess) statusTimeout() time.Duration {
	if a.gone && a.reaper.fds.keeper == host.FDStore(noopKeeper{}) {
		return 0
	}
	return instance.ExitStatusTimeout
}

// watch calls reap when the process has ended, and again when more can be known about its exit,
// until scope is closed.
func (a *adoptedProcess) watch(scope *loop.Scope, reap func()) error {
	if a.Process == nil {
		scope.Post(func() { a.onEnd(scope, reap) })
		return nil
	}
	var watch *loop.Watch
	watch, err := scope.OnReadable(a.FD(), func() {
		watch.Stop() // it stays readable
		a.onEnd(scope, reap)
	})
	return err
}

// onEnd is called when the pidfd is readable, which precedes the exit status. The hang-up comes
// with the status.
func (a *adoptedProcess) onEnd(scope *loop.Scope, reap func()) {
	if a.endedAt == 0 {
		a.endedAt = a.reaper.Loop.Now()
	}
	reap()
	if scope.Closed() {
		return
	}
	scope.After(a.statusTimeout(), reap)
	if a.Process == nil {
		return
	}
	var watch *loop.Watch
	watch, err := scope.OnHangup(a.FD(), func() {
		watch.Stop()
		reap()
	})
	if err != nil {
		a.reaper.Log.Error("process not watched", "pid", a.id.Pid, "error", err)
	}
}

// AwaitsStatus implements [Reaper].
func (r *reaper) AwaitsStatus(p host.Process) bool {
	a, isAdopted := p.(*adoptedProcess)
	return isAdopted && a.endedAt != 0 && r.Loop.Now()-a.endedAt <= a.statusTimeout()
}
