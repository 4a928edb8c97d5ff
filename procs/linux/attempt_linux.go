package linux

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/pidfd"
	"superd/procs/host"
)

// An attempt is the state that the worker of a spawn and the loop share: the stage of the worker,
// and whether the spawn is cancelled. Each stage of the spawn has it as its first argument. It is
// the [host.PendingSpawn] of the supervisor.
type attempt struct {
	post  func(func()) // runs a function on the loop
	queue *startQueue
	start start // entry of the queue

	stage atomic.Pointer[stage]

	mu   sync.Mutex // never held while blocking, as the loop takes it
	slot *startSlot // nil while it is queued

	sockets []*host.SharedFD // of the program, until it is started

	// Cancellation.
	waits     bool   // no worker has taken it yet
	committed bool   // it can't be cancelled: it makes a FIFO, forks, or has failed; done will run
	unwanted  bool   // Cancel was called too late to prevent the fork
	returned  func() // set by Cancel

	// The child.
	progress *pidfd.Progress // between fork and exec; nil: none
	shim     host.Process    // a running exec shim; nil: none
	killed   bool            // the child or the shim got SIGKILL, as the spawn was cancelled
	hungAs   int             // its pid
	hungIn   host.WaitState  // its wait state before the kill
}

// Cancel implements [host.PendingSpawn].
func (a *attempt) Cancel(returned func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.committed {
		a.unwanted = true
		a.killChild()
		return false
	}
	a.returned = returned
	if a.waits {
		a.queue.cancel(&a.start)
		a.dropSockets()
		a.post(returned)
	}
	return true
}

// Child implements [host.PendingSpawn].
func (a *attempt) Child() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.child()
}

// child is Child with a.mu held.
func (a *attempt) child() int {
	switch {
	case a.shim != nil:
		return a.shim.Pid()
	case a.progress != nil:
		return a.progress.Pid()
	}
	return 0
}

// killChild kills a child that has not executed the program yet. The caller holds a.mu.
func (a *attempt) killChild() {
	pid := a.child()
	if pid == 0 || a.killed {
		return
	}
	a.hungAs, a.hungIn = pid, waitsIn(pid) // before the signal changes it
	switch {
	case a.shim != nil:
		// It is a separate process, not a fork that superd waits for.
		a.killed = a.shim.Signal(unix.SIGKILL) == nil
	default:
		a.killed = a.progress.Kill()
	}
}

// forkBegins registers a child about to be forked, which may hang before its exec. It reports
// whether the spawn is still wanted.
func (a *attempt) forkBegins(progress *pidfd.Progress) (wanted bool) {
	a.slot.mayHang()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.progress = progress
	return !a.unwanted
}

// forkEnds unregisters the child: it has executed something, or is gone.
func (a *attempt) forkEnds() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.progress = nil
}

// shimBegins registers a running exec shim. It may hang where superd's own checks could not foresee
// it.
func (a *attempt) shimBegins(shim host.Process) {
	a.slot.mayHang()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shim = shim
	if a.unwanted { // cancelled before the shim was registered
		a.killChild()
	}
}

// shimEnds reports whether the shim was killed, as the spawn was cancelled.
func (a *attempt) shimEnds() (killed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shim = nil
	return a.killed
}

// errHung returns the error of a start whose child was killed before it executed the program.
func (a *attempt) errHung() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hungAs == 0 {
		return errors.New("cancelled")
	}
	return fmt.Errorf("no answer in time: process %d was in state %s before its exec; %s",
		a.hungAs, a.hungIn.Text, a.hungIn.Hint())
}

// childState returns the child's state from /proc; 0 without a child.
func (a *attempt) childState() byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	pid := a.child()
	if pid == 0 && a.progress != nil {
		return stateRunning // about to run for the first time
	}
	if pid == 0 {
		return 0
	}
	s, err := procfs.ReadStat(pid)
	if err != nil {
		return 0
	}
	return s.State
}

// releaseSockets ends the use of the program's sockets.
func (a *attempt) releaseSockets() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropSockets()
}

// dropSockets is releaseSockets with a.mu held.
func (a *attempt) dropSockets() {
	for _, s := range a.sockets {
		s.Release()
	}
	a.sockets = nil
}

// begin registers the slot of the start. It reports whether the spawn was not cancelled.
func (a *attempt) begin(s *startSlot) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits, a.slot = false, s
	return a.returned == nil
}

// Queued implements [host.PendingSpawn].
func (a *attempt) Queued() bool { return a.stage.Load().queued }

// A stage is what a worker does, with a path if it is about a file.
type stage struct {
	does, path string
	queued     bool // waits for a worker
}

// Stage implements [host.PendingSpawn].
func (a *attempt) Stage() string {
	s := a.stage.Load()
	if s.path == "" {
		return s.does
	}
	return s.does + " " + s.path
}

func (a *attempt) enter(does, path string) { a.stage.Store(&stage{does: does, path: path}) }

// unlessCanceled runs f unless the spawn was cancelled. The spawn can't be cancelled while f runs,
// so what f uses of the instance, such as its FIFO, stays.
func (a *attempt) unlessCanceled(f func() error) error {
	if !a.commit() {
		return errCanceled
	}
	err := f()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.committed = false
	return err
}

// canceled reports whether the spawn was cancelled.
func (a *attempt) canceled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.returned != nil
}

var errCanceled = errors.New("cancelled")

// commit reports whether the spawn continues. From then on it can't be cancelled.
func (a *attempt) commit() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.committed = a.returned == nil
	return a.committed
}
