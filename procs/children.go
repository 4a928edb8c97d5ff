package procs

import (
	"errors"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
	"time"

	"golang.org/x/sys/unix"
)

// reapDelay batches the SIGCHLDs of a burst. It delays only the reaping of orphans: the
// supervisor's own children are reaped through their pidfds.
const reapDelay = 50 * time.Millisecond

// An owner is a child and the function that reaps it.
type owner struct {
	process host.Process
	reap    func()
}

// watchChild watches a child of superd until scope is closed. Then it closes process and releases
// its stored pidfd, whose name is storedName. reap is called in each turn after the child has
// ended. In a resource shortage, watched is false and reap is called periodically instead.
func (s *Supervisor) watchChild(scope *loop.Scope, process host.Process, storedName string, reap func()) (watched bool) {
	scope.Defer(func() {
		process.Close()
		s.fds.releaseProcess(storedName)
	})
	_, watched = s.watchExit(scope, new(loop.Watch), process, reap)
	return watched
}

// watchExit calls reap in each turn after a child of superd has ended, until scope is closed or
// watch is stopped. In a resource shortage, watched is false and reap is called periodically
// instead. watching reports whether watch is in use.
func (s *Supervisor) watchExit(scope *loop.Scope, watch *loop.Watch, process host.Process, reap func()) (watching, watched bool) {
	pid := process.Pid()
	a, isAdopted := process.(*adoptedProcess)
	if isAdopted && !a.isChild() {
		// A child of superd may get its pid before that process is known to have ended
		a.reap = reap
		s.adoptedByPid[pid] = a
		scope.Defer(func() {
			if s.adoptedByPid[pid] == a {
				delete(s.adoptedByPid, pid)
			}
		})
	} else {
		s.byPid[pid] = owner{process, reap}
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
		scope.Every(unwatchedPause, reap)
		s.logUnwatched(pid, err)
	}
	return watching, err == nil
}

// logUnwatched logs that superd notices the end of a process only by periodic checks. It logs
// nothing if pidfd_open is refused (EPERM of epoll): that concerns every process that is not
// superd's child, and is logged at the start.
func (s *Supervisor) logUnwatched(pid int, err error) {
	if !errors.Is(err, unix.EPERM) {
		s.log.Error("process not watched", "pid", pid, "error", err)
	}
}

// waitStatus returns the exit status of a child, if it has ended, and forgets the child.
func (s *Supervisor) waitStatus(process host.Process) (exit pidfd.Exit, ended bool) {
	exit, ended, err := process.Wait()
	if err != nil {
		s.log.Error("exit status not read", "pid", process.Pid(), "error", err)
		exit, ended = pidfd.Exit{}, true
	}
	if a, ok := process.(*adoptedProcess); ended && (!ok || a.reap == nil) {
		s.forgetChild(process)
	}
	return exit, ended
}

// forgetChild removes the process from the children to reap. A newer child with the same pid stays.
func (s *Supervisor) forgetChild(process host.Process) {
	pid := process.Pid()
	if s.byPid[pid].process == process {
		delete(s.byPid, pid)
	}
}

// dropChild removes a process that has not ended from the children and adopted processes to reap.
func (s *Supervisor) dropChild(process host.Process) {
	if a, ok := process.(*adoptedProcess); ok {
		key := host.ProcessKey{Pid: a.id.Pid, Start: a.id.Start}
		if s.adopted[key] == a {
			delete(s.adopted, key)
		}
		if a.reap != nil {
			return
		}
	}
	s.forgetChild(process)
}

// ScheduleReap schedules the reaping of orphans after reapDelay. It is called after SIGCHLD.
func (s *Supervisor) ScheduleReap() {
	if s.reapTimer != nil {
		return
	}
	s.host.MaskSIGCHLD()
	s.reapTimer = s.scope.After(reapDelay, func() {
		s.reapTimer = nil
		s.host.ReapOrphans(s.reapChild)
	})
}

// reapChild reaps a zombie: through its owner, if it has one.
func (s *Supervisor) reapChild(pid int) {
	if owner, ok := s.byPid[pid]; ok {
		owner.reap()
		if _, owned := s.byPid[pid]; !owned {
			// The zombie may be another process that reuses the pid of an unwatched one
			s.ScheduleReap()
		}
		return
	}
	if adopted := s.adoptedByPid[pid]; adopted != nil && adopted.reapAsChild() {
		return
	}
	exit, err := s.host.ReapUnknown(pid)
	if err != nil {
		s.log.Warn("orphan not reaped", "pid", pid, "error", err)
		return
	}
	s.log.Debug("orphan reaped", "pid", pid, "exit", exit.String())
}

// unwatchedPause is the interval at which superd checks a process that it cannot watch, in a
// resource shortage.
const unwatchedPause = time.Second
