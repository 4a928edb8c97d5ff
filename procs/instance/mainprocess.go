package instance

import (
	"time"

	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// A mainProcess is the process whose exit ends a run. MAINPID= makes another one the main process.
type mainProcess struct {
	run     *run
	process host.Process  // nil before it exists and after its exit
	first   pidfd.Process // storage of process for the process that was started
	scope   loop.Scope    // its timers and notifications
	// Of its pidfd; within scope, reopened when the main process changes
	pidfdScope loop.Scope
	// By which closing pidfdScope closes process and releases its stored pidfd
	releaseLink loop.Link
	watch       *loop.Watch // for its exit; nil if its pidfd can't be watched
	firstWatch  loop.Watch  // storage of watch for the first main process
	group       int32       // process group of the first main process, once that is gone
	id          pidfd.Identity
	fdName      host.FDName   // name of its pidfd in the descriptor store
	count       int32         // number of main processes so far
	startedAt   time.Duration // just before its fork
	oomKills    int32         // OOM kills in the tree when the run began
	exitedEarly bool          // it exited with success within earlyExitTime
	drain       notifyDrain   // whether all messages of it are read
}

// notifyDrain is the progress of reading the notifications that a main process sent before its
// exit.
type notifyDrain uint8

const (
	drainNotStarted notifyDrain = iota
	drainStarted
	drainDone
)

// setFirst sets the first main process of the run. storedName is the name of its pidfd in the
// descriptor store.
func (m *mainProcess) setFirst(process host.Process, id pidfd.Identity, storedName string) {
	r := m.run
	r.hadProcess = true
	m.scope.Open(&r.scope)
	m.set(process, id, storedName)
}

// set sets the main process, whose exit ends the run.
func (m *mainProcess) set(process host.Process, id pidfd.Identity, storedName string) {
	m.process, m.id, m.fdName = process, id, host.FDNameOf(storedName)
	m.pidfdScope.Open(&m.scope)
	m.pidfdScope.Adopt(&m.releaseLink, m)
	m.drain = drainNotStarted
	m.count++
	number := m.count
	m.watch = &m.firstWatch
	if number > 1 {
		m.watch = new(loop.Watch) // the loop may still use the watch of the process before
	}
	watching, _ := m.run.in.Env.Reaper.WatchExit(&m.pidfdScope, m.watch, process, func() {
		if m.count == number && m.process != nil {
			m.reap(m.process)
		}
	})
	if !watching {
		m.watch = nil
	}
}

// Release closes the main process and releases its stored pidfd. It is called when pidfdScope
// closes.
func (m *mainProcess) Release() {
	loop.Unlink(&m.releaseLink)
	m.process.Close()
	m.run.in.Env.FDs.ReleaseProcess(m.fdName.String())
}

// ended reports whether the main process has ended, even if its exit status is not known yet.
func (m *mainProcess) ended() bool {
	return m.process == nil || m.process.Ended()
}

// endAwaited reports whether the main process has ended and superd waits for its exit status or its
// last messages. Both waits are bounded.
func (m *mainProcess) endAwaited() bool {
	return m.drain == drainStarted || m.run.in.Env.Reaper.AwaitsStatus(m.process)
}
