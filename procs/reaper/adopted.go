package reaper

import (
	"errors"
	"syscall"
	"time"

	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// Adopt returns an adopted process. p is nil if the process no longer exists.
func (r *Reaper) Adopt(p host.Process, id pidfd.Identity) host.Process {
	a := &adoptedProcess{Process: p, reaper: r, id: id, gone: p == nil}
	r.adopted[a.key()] = a
	for _, e := range r.Exits {
		if (host.ProcessKey{Pid: e.Pid, Start: e.Start}) == a.key() {
			a.keeperExit = &e.Exit
		}
	}
	return a
}

// OnStoredExit handles an exit that the keeper reports. It is called on the loop.
func (r *Reaper) OnStoredExit(e host.StoredExit) {
	a := r.adopted[host.ProcessKey{Pid: e.Pid, Start: e.Start}]
	if a == nil {
		// No instance waits for it: the process is unattributed, or its exit is known already and
		// may not be in the journal yet
		r.AfterRecorded(func() { r.acknowledge(e.Pid, e.Start) })
		return
	}
	a.keeperExit = &e.Exit
	if a.reap != nil {
		a.reap()
	}
}

// AcknowledgeUnclaimed acknowledges the stored exits that no instance needs.
func (r *Reaper) AcknowledgeUnclaimed() {
	for _, e := range r.Exits {
		if r.adopted[host.ProcessKey{Pid: e.Pid, Start: e.Start}] == nil {
			r.acknowledge(e.Pid, e.Start)
		}
	}
}

// acknowledge acknowledges an exit that the keeper has reported.
func (r *Reaper) acknowledge(pid int, start uint64) {
	if r.Keeper != nil {
		r.Keeper.Acknowledge(pid, start)
	}
}

// AwaitsStatus reports whether a process has ended and its exit status may still come.
func (r *Reaper) AwaitsStatus(p host.Process) bool {
	a, isAdopted := p.(*adoptedProcess)
	return isAdopted && a.endedAt != 0 && r.Loop.Now()-a.endedAt <= a.statusTimeout()
}

// An adoptedProcess is a process that a predecessor started. After an upgrade in place it is still
// superd's child; otherwise the keeper is its parent and reaps it.
type adoptedProcess struct {
	host.Process // nil: it no longer exists
	reaper       *Reaper
	id           pidfd.Identity
	reap         func()        // its owner's callback; nil if it is superd's child
	gone         bool          // the process no longer exists
	endedAt      time.Duration // when its end was noticed; 0 before
	keeperExit   *pidfd.Exit   // exit that the keeper reported; nil before
}

// key returns what identifies the process in reports of the keeper.
func (a *adoptedProcess) key() host.ProcessKey {
	return host.ProcessKey{Pid: a.id.Pid, Start: a.id.Start}
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
	if a.gone && a.reaper.Keeper == nil {
		return 0
	}
	return a.reaper.StatusTimeout
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
