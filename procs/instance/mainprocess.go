package instance

import (
	"errors"
	"syscall"
	"time"

	"superd/internal/signame"
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
	group       int32       // see [port.Group]; 0 while that is its pid
	// Kill signal that it gets; 0 before. Definitions that come later have no effect on it
	killing     int32
	id          pidfd.Identity
	fdName      host.FDName   // name of its pidfd in the descriptor store
	count       int32         // number of main processes so far
	startedAt   time.Duration // just before its fork
	oomKills    int32         // OOM kills in the tree when the run began
	exitedEarly bool          // it exited with success within earlyExitTime
	drains      bool          // a rolling restart stops it, within the drain time-out
	drain       notifyDrain   // whether all messages of it are read
	launch      launchState   // of a forking program
}

// notifyDrain is the progress of reading the notifications that a main process sent before its
// exit.
type notifyDrain uint8

const (
	drainNotStarted notifyDrain = iota
	drainStarted
	drainDone
)

// ended reports whether the main process has ended, even if its exit status is not known yet.
func (m *mainProcess) ended() bool {
	return m.process == nil || m.process.Ended()
}

// endAwaited reports whether the main process has ended and superd waits for its exit status or its
// last messages. Both waits are bounded.
func (m *mainProcess) endAwaited() bool {
	return m.drain == drainStarted || m.run.in.Env.Reaper.AwaitsStatus(m.process)
}

// signalGroup signals the process group of the main process. A process that became the main one by
// MAINPID= may lead no group: then it alone is signalled, and the others get their signal in the
// teardown.
func (m *mainProcess) signalGroup(sig syscall.Signal) {
	err := m.process.SignalGroup(sig)
	if !errors.Is(err, pidfd.ErrGone) {
		logUnsent(m.run.in, m.process.Pid(), sig, err)
		return
	}
	m.signal(sig)
	if m.foreignGroup() != 0 {
		m.run.signalTree(sig, func(_ host.Member, foreign bool) bool { return foreign })
	}
}

// foreignGroup returns the process group in which the main process of a forking program was found,
// unless it leads it: its leader has forked again and ended. Otherwise it returns 0.
func (m *mainProcess) foreignGroup() int {
	if m.launch != launched || int(m.group) == m.process.Pid() {
		return 0
	}
	return int(m.group)
}

// signal signals the main process alone.
func (m *mainProcess) signal(sig syscall.Signal) {
	logUnsent(m.run.in, m.process.Pid(), sig, m.process.Signal(sig))
}

// logUnsent logs that a process has not got a signal, unless it has ended.
func logUnsent(in *Instance, pid int, sig syscall.Signal, err error) {
	if err != nil && !errors.Is(err, pidfd.ErrGone) {
		in.Env.Log.Error("signal not sent", "instance", in.Name, "pid", pid,
			"signal", signame.Name(sig), "error", err)
	}
}
