package instance

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/loop"
	"superd/procs/host"
)

// A stopping is the stop of a main process: its signals and time-outs.
type stopping struct {
	run       *run
	deadline  time.Duration // end of the stop time-out; 0 before a stop
	limit     time.Duration // latest deadline that the program can request
	timer     *loop.Timer   // StopTimeout; nil before a stop
	killTimer *loop.Timer   // KillTimeout; nil before SIGKILL
}

// maxExtension bounds the duration of a stop that the program extends, in stop time-outs.
const maxExtension = 10

// isLast reports whether this superd starts no further run of the instance.
func (r *run) isLast() bool {
	in := r.in
	return in.Membership.Leaves() || in.Env.Owner.Phase().Ending
}

// begin sends the program the stop signal. A logger that does not start again gets the end of
// its input instead.
func (s *stopping) begin() {
	r := s.run
	in := r.in
	if in.IsLogger() && r.isLast() {
		in.Output.endInput()
		s.sendContinue()
		return
	}
	s.send(r.program.StopSignal)
}

// send sends a signal to the processes that kill_mode names for a stop, then SIGCONT so that
// stopped ones handle it.
func (s *stopping) send(sig syscall.Signal) {
	r := s.run
	if r.program.KillMode.StopsGroup() {
		r.main.signalGroup(sig)
	} else {
		r.main.signal(sig)
	}
	s.sendContinue()
}

// sendContinue sends SIGCONT to all processes that may be stopped. Even if only the main process
// gets the stop signal, it may wait for others, so these get SIGCONT, too.
func (s *stopping) sendContinue() {
	r := s.run
	if r.program.KillMode == config.KillProcess {
		r.main.signal(unix.SIGCONT)
	} else {
		r.main.signalGroup(unix.SIGCONT)
	}
}

// arm arms StopTimeout. A timeout that is negative, or a hurried shutdown, means at once.
func (s *stopping) arm(timeout time.Duration) {
	r := s.run
	in := r.in
	if timeout < 0 || in.Env.Owner.Phase().Hurry {
		timeout = 0
	}
	s.deadline = in.Env.Loop.Now() + timeout
	if s.limit == 0 {
		s.limit = in.Env.Loop.Now() + maxExtension*r.program.StopTimeout
	}
	s.timer = r.main.scope.After(timeout, func() { in.Apply(in.Machine.StopTimedOut()) })
}

// kill sends SIGKILL to the processes that kill_mode names.
func (s *stopping) kill() {
	r := s.run
	in := r.in
	s.timer.Stop() // a hurried stop does not wait for it
	in.Env.Log.Warn("stop_timeout is over, killing", "instance", in.Name, "pid", r.main.process.Pid(), "stop_timeout", r.program.StopTimeout)
	if r.program.KillMode == config.KillProcess {
		r.main.signal(unix.SIGKILL)
		return
	}
	if r.program.KillMode.KillsTree() {
		r.killTree()
	}
	r.main.signalGroup(unix.SIGKILL)
}

// killTree sends SIGKILL to all processes of the tree at once, where the kernel can.
func (r *run) killTree() {
	in := r.in
	if err := in.Tree.Kill(); err != nil {
		in.Env.Log.Error("process tree not killed at once", "instance", in.Name, "error", err)
	}
}

// armKill arms KillTimeout.
func (s *stopping) armKill() {
	m := &s.run.main
	s.killTimer.Stop() // of an earlier main process
	s.killTimer = m.scope.After(host.KillPause, func() {
		s.run.in.Apply(s.run.in.Machine.KillTimedOut())
	})
}
