package procs

import (
	"errors"
	"syscall"
	"time"

	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// exitStatusTimeout is how long superd waits for the exit status of a process that is not its child. The
// parent reaps it as soon as it can. Where the kernel does not keep the status, the keeper reports
// it.
const exitStatusTimeout = time.Second

// An adoptedProcess is a process that a predecessor has started. After an upgrade in place it is
// still superd's child; otherwise the keeper is its parent and reaps it.
type adoptedProcess struct {
	host.Process // nil: it has ended and is gone
	sup          *Supervisor
	id           pidfd.Identity
	reap         func()        // its owner's callback; nil if it is superd's child
	gone         bool          // the process no longer exists
	endedAt      time.Duration // when its end was noticed; 0 before
	keeperExit   *pidfd.Exit   // exit from the keeper; nil before
}

// reapAsChild takes the exit status if the process has become superd's child, as after the end of its
// parent, and has ended.
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

// adopt returns an adopted process. p is nil if the process is gone.
func (s *Supervisor) adopt(p host.Process, id pidfd.Identity) *adoptedProcess {
	a := &adoptedProcess{Process: p, sup: s, id: id, gone: p == nil}
	key := host.ProcessKey{Pid: id.Pid, Start: id.Start}
	s.adopted[key] = a
	for _, e := range s.options.StoredFDs.Exits {
		if (host.ProcessKey{Pid: e.Pid, Start: e.Start}) == key {
			a.keeperExit = &e.Exit
		}
	}
	return a
}

// OnStoredExit takes the exit of a process from the keeper. It is called on the loop.
func (s *Supervisor) OnStoredExit(e host.StoredExit) {
	a := s.adopted[host.ProcessKey{Pid: e.Pid, Start: e.Start}]
	if a == nil {
		// No instance waits for it: it is unattributed, or the exit is known otherwise and may not
		// be in the journal.
		s.afterRecorded(func() { s.keeper.Acknowledge(e.Pid, e.Start) })
		return
	}
	a.keeperExit = &e.Exit
	if a.reap != nil {
		a.reap()
	}
}

// isChild reports whether the process is superd's child, as after an upgrade in place.
func (a *adoptedProcess) isChild() bool {
	if a.Process == nil {
		return false
	}
	_, _, err := a.Process.Wait()
	return !errors.Is(err, pidfd.ErrNotChild)
}

// Pid implements [host.Process].
func (a *adoptedProcess) Pid() int { return a.id.Pid }

// FD implements [host.Process]. It is -1 if the process is gone.
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
// come in time, the exit is unknown.
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
		// reaped: only the keeper can report the status now
		if errors.Is(a.Process.Signal(0), pidfd.ErrGone) {
			a.gone = true
			if a.endedAt == 0 { // no watch has noticed it
				a.endedAt = a.sup.loop.Now()
			}
		}
	}
	if a.endedAt != 0 && a.sup.loop.Now()-a.endedAt >= a.statusTimeout() {
		return pidfd.Exit{}, true, nil
	}
	return pidfd.Exit{}, false, nil
}

// mainEnded reports whether the main process has ended, even if its exit status is not known yet.
func (r *run) mainEnded() bool { return r.process == nil || r.process.Ended() }

// endAwaited reports whether the main process has ended, and its exit status or its last messages
// are awaited. That takes bounded time.
func (r *run) endAwaited() bool {
	a, isAdopted := r.process.(*adoptedProcess)
	return r.notifyDrain == drainStarted ||
		isAdopted && a.endedAt != 0 && a.sup.loop.Now()-a.endedAt <= a.statusTimeout()
}

// Ended implements [host.Process].
func (a *adoptedProcess) Ended() bool { return a.Process == nil || a.endedAt != 0 || a.Process.Ended() }

// statusTimeout returns how long to wait for the status. Of a process that is gone, only the keeper can
// know it.
func (a *adoptedProcess) statusTimeout() time.Duration {
	if a.gone && a.sup.keeper == host.FDStore(noopKeeper{}) {
		return 0
	}
	return exitStatusTimeout
}

// watch calls reap, until scope is closed, when the process has ended and whenever more may be
// known about its exit.
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

// onEnd is called when the pidfd is readable, which precedes the status. The hang-up comes together
// with the status.
func (a *adoptedProcess) onEnd(scope *loop.Scope, reap func()) {
	if a.endedAt == 0 {
		a.endedAt = a.sup.loop.Now()
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
		a.sup.log.Error("process not watched", "pid", a.id.Pid, "error", err)
	}
}
