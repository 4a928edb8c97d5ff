package procs

import (
	"errors"
	"syscall"
	"time"

	"superd/loop"
	"superd/pidfd"
)

// fatePatience is how long the status of a process may take to become known that is not superd's child. Its parent reaps it as soon as
// it can; where the kernel doesn't keep the status, the keeper tells it.
const fatePatience = time.Second

// An adopted is a process that an earlier superd has started. After an upgrade in place it is still superd's child; else somebody else,
// the keeper, is its parent, and reaps it.
type adopted struct {
	Process // nil: it has ended and nothing is left of it
	sup     *Supervisor
	id      pidfd.Identity
	reap    func()        // of who owns it, unless it is superd's child
	gone    bool          // nothing is left of it
	endedAt time.Duration // when it was seen to have ended; 0 before
	told    *pidfd.Exit   // by the keeper; nil before
}

// reapHere takes the status of the process if it has become superd's child, as one whose parent ends, and has ended.
func (a *adopted) reapHere() bool {
	if a.Process == nil {
		return false
	}
	exit, ended, err := a.Process.Wait()
	if err != nil || !ended {
		return false
	}
	a.told = &exit
	a.reap()
	return true
}

// adopt returns the process as one that an earlier superd has started. p is nil where nothing is left of it.
func (s *Supervisor) adopt(p Process, id pidfd.Identity) *adopted {
	a := &adopted{Process: p, sup: s, id: id, gone: p == nil}
	key := processKey{id.Pid, id.Start}
	s.adopted[key] = a
	for _, e := range s.options.Inherited.Exits {
		if (processKey{e.Pid, e.Start}) == key {
			a.told = &e.Exit
		}
	}
	return a
}

// KeptExit takes the end of a process from the keeper. It is called on the loop.
func (s *Supervisor) KeptExit(e KeptExit) {
	a := s.adopted[processKey{e.Pid, e.Start}]
	if a == nil {
		s.keeper.Acknowledge(e.Pid, e.Start) // nobody waits for it
		return
	}
	a.told = &e.Exit
	if a.reap != nil {
		a.reap()
	}
}

// isChild reports whether the process is superd's child, as it is after an upgrade in place.
func (a *adopted) isChild() bool {
	if a.Process == nil {
		return false
	}
	_, _, err := a.Process.Wait()
	return !errors.Is(err, pidfd.ErrNotChild)
}

// Pid implements [Process].
func (a *adopted) Pid() int { return a.id.Pid }

// FD implements [Process]. It is -1 where nothing is left of the process.
func (a *adopted) FD() int {
	if a.Process == nil {
		return -1
	}
	return a.Process.FD()
}

// Signal implements [Process].
func (a *adopted) Signal(sig syscall.Signal) error {
	if a.Process == nil {
		return pidfd.ErrGone
	}
	return a.Process.Signal(sig)
}

// SignalGroup implements [Process]. Where a group can't be signalled through the pidfd of somebody else's child, the main process gets the
// signal alone; the others get theirs when it is gone.
func (a *adopted) SignalGroup(sig syscall.Signal) error {
	if a.Process == nil {
		return pidfd.ErrGone
	}
	err := a.Process.SignalGroup(sig)
	if errors.Is(err, pidfd.ErrNotChild) {
		return a.Process.Signal(sig)
	}
	return err
}

// Close implements [Process].
func (a *adopted) Close() error {
	if a.Process == nil {
		return nil
	}
	return a.Process.Close()
}

// Wait implements [Process]: by whoever knows. When nobody has told in time, the exit is not known.
func (a *adopted) Wait() (pidfd.Exit, bool, error) {
	if a.Process != nil {
		exit, ended, err := a.Process.Wait()
		if err == nil || !errors.Is(err, pidfd.ErrNotChild) && !errors.Is(err, pidfd.ErrGone) {
			return exit, ended, err
		}
	}
	if a.told != nil {
		return *a.told, true, nil
	}
	if a.Process != nil {
		if exit, ended, err := a.Process.ExitInfo(); err == nil && ended {
			return exit, true, nil
		}
		if errors.Is(a.Process.Signal(0), pidfd.ErrGone) { // reaped: if anybody can tell now, it is the keeper
			a.gone = true
			if a.endedAt == 0 { // nobody watches it
				a.endedAt = a.sup.loop.Now()
			}
		}
	}
	if a.endedAt != 0 && a.sup.loop.Now()-a.endedAt >= a.patience() {
		return pidfd.Exit{}, true, nil
	}
	return pidfd.Exit{}, false, nil
}

// mainEnded reports whether the main process has ended, though that, or how, may be about to be told.
func (r *run) mainEnded() bool { return r.process == nil || r.process.Ended() }

// Ended implements [Process].
func (a *adopted) Ended() bool { return a.Process == nil || a.endedAt != 0 || a.Process.Ended() }

// patience is how long to wait for the status: of who is gone without a trace, only the keeper can know it.
func (a *adopted) patience() time.Duration {
	if a.gone && a.sup.keeper == Keeper(nobody{}) {
		return 0
	}
	return fatePatience
}

// watch has reap called until scope is closed, when the process has ended and whenever more is known about that.
func (a *adopted) watch(scope *loop.Scope, reap func()) error {
	if a.Process == nil {
		scope.Post(func() { a.ended(scope, reap) })
		return nil
	}
	var watch *loop.Watch
	watch, err := scope.OnReadable(a.FD(), func() {
		watch.Stop() // it stays readable
		a.ended(scope, reap)
	})
	return err
}

// ended is told that the process has ended. Readable comes before the status can be had, hung up comes with it.
func (a *adopted) ended(scope *loop.Scope, reap func()) {
	if a.endedAt == 0 {
		a.endedAt = a.sup.loop.Now()
	}
	reap()
	if scope.Closed() {
		return
	}
	scope.After(a.patience(), reap)
	if a.Process == nil {
		return
	}
	var watch *loop.Watch
	watch, err := scope.OnHangup(a.FD(), func() {
		watch.Stop()
		reap()
	})
	if err != nil {
		a.sup.log.Error("process is not watched", "pid", a.id.Pid, "error", err)
	}
}
