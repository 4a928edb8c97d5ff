package hosttest

import (
	"syscall"

	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// A Reaper reaps the processes of a [Kernel], for tests of what starts them. It knows no keeper:
// the exit status of a process that a predecessor started is unknown unless the kernel has it.
type Reaper struct {
	k *Kernel
	// Releases the stored pidfd of a child, by its name; may be nil
	Release func(storedName string)
}

// NewReaper returns a reaper of the processes of k. It sets k.SIGCHLD.
func NewReaper(k *Kernel) *Reaper {
	r := &Reaper{k: k}
	k.SIGCHLD = r.Schedule
	return r
}

// WatchExit calls reap when the process has ended, until scope is closed. The end of a process that
// is not superd's child counts when its parent has reaped it.
func (r *Reaper) WatchExit(
	scope *loop.Scope, watch *loop.Watch, p host.Process, reap func(),
) (watching, watched bool) {
	if p.FD() < 0 {
		scope.Post(reap)
		return false, true
	}
	if h, ok := p.(*Handle); ok && h.Process.Reparented {
		_, ended := scope.OnReadableEdge(h.fd, reap)
		_, reaped := scope.OnHangup(h.fd, reap)
		return false, ended == nil && reaped == nil
	}
	if err := watch.OnReadable(scope, p.FD(), reap); err != nil {
		scope.Every(host.UnwatchedPause, reap)
		return false, false
	}
	return true, true
}

// WatchChild is WatchExit; the end of scope closes the process and releases its stored pidfd.
func (r *Reaper) WatchChild(
	scope *loop.Scope, p host.Process, storedName string, reap func(),
) (watched bool) {
	scope.Defer(func() {
		p.Close()
		if r.Release != nil {
			r.Release(storedName)
		}
	})
	_, watched = r.WatchExit(scope, new(loop.Watch), p, reap)
	return watched
}

// WaitStatus returns the exit status of a process that has ended. That of a process that is not
// superd's child is known if the kernel still has it.
func (r *Reaper) WaitStatus(p host.Process) (exit pidfd.Exit, ended bool) {
	exit, ended, err := p.Wait()
	if err != nil {
		exit, known, err := p.ExitInfo()
		return exit, known || err != nil
	}
	return exit, ended
}

// AwaitsStatus reports false: no exit status comes late.
func (r *Reaper) AwaitsStatus(host.Process) bool { return false }

// DropChild does nothing: the reaper keeps no list of children.
func (r *Reaper) DropChild(host.Process) {}

// Adopt returns p or, if that is nil, a process that has ended.
func (r *Reaper) Adopt(p host.Process, id pidfd.Identity) host.Process {
	if p == nil {
		return endedProcess(id.Pid)
	}
	return p
}

// Schedule reaps the orphans. The owner of another process reaps it.
func (r *Reaper) Schedule() {
	r.k.ReapOrphans(func(pid int) {
		if p := r.k.byPid[pid]; p != nil && !p.Role.Spawned() {
			r.k.ReapUnknown(pid)
		}
	})
}

// LogUnwatched does nothing.
func (r *Reaper) LogUnwatched(int, error) {}

// An endedProcess is the pid of a process that was gone when it was looked for.
type endedProcess int

func (p endedProcess) Pid() int                       { return int(p) }
func (endedProcess) FD() int                          { return -1 }
func (endedProcess) Ended() bool                      { return true }
func (endedProcess) Signal(syscall.Signal) error      { return pidfd.ErrGone }
func (endedProcess) SignalGroup(syscall.Signal) error { return pidfd.ErrGone }
func (endedProcess) Wait() (pidfd.Exit, bool, error)  { return pidfd.Exit{}, true, nil }
func (endedProcess) Close() error                     { return nil }
func (endedProcess) ExitInfo() (pidfd.Exit, bool, error) {
	return pidfd.Exit{}, false, pidfd.ErrUnsupported
}
