package instance

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
)

// A stopping is the stop of a main process: its signals and time-outs.
type stopping struct {
	run       *run
	deadline  time.Duration // end of the stop time-out; 0 before a stop
	limit     time.Duration // latest deadline that the program can request
	timer     *loop.Timer   // StopTimeout; nil before a stop
	killTimer *loop.Timer   // KillTimeout; nil before SIGKILL
}

// begin sends the program the stop signal. A logger that does not start again gets the end of
// its input instead.
func (s *stopping) begin() {
	r := s.run
	in := r.in
	if in.IsLogger() && in.neverStartsAgain() {
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
		in.killTree()
	}
	r.main.signalGroup(unix.SIGKILL)
}

func (in *Instance) killTree() {
	if err := in.Tree.Kill(); err != nil {
		in.Env.Log.Error("process tree not killed at once", "instance", in.Name, "error", err)
	}
}

// signalGroup signals the process group of the main process. A process that became the main one by
// MAINPID= may lead no group: then it alone is signalled, and the others get their signal in the
// teardown.
func (m *mainProcess) signalGroup(sig syscall.Signal) {
	err := m.process.SignalGroup(sig)
	if errors.Is(err, pidfd.ErrGone) {
		m.signal(sig)
		return
	}
	m.logUnsent(sig, err)
}

// signal signals the main process alone.
func (m *mainProcess) signal(sig syscall.Signal) {
	m.logUnsent(sig, m.process.Signal(sig))
}

func (m *mainProcess) logUnsent(sig syscall.Signal, err error) {
	r := m.run
	if err != nil && !errors.Is(err, pidfd.ErrGone) {
		r.in.Env.Log.Error("signal not sent", "instance", r.in.Name, "pid", m.process.Pid(),
			"signal", SignalName(sig), "error", err)
	}
}

// reportUnkillable reports processes that survived SIGKILL, and their wait states.
func (in *Instance) reportUnkillable(pids ...int) {
	var text []string
	for _, pid := range pids {
		text = append(text, fmt.Sprintf("process %d survives SIGKILL: state %s",
			pid, in.Env.Host.WaitsIn(pid).Text))
	}
	in.markUnkillable(strings.Join(text, "; "))
}

// markUnkillable records that the instance has an unkillable process. A shutdown does not wait for
// it.
func (in *Instance) markUnkillable(why string) {
	in.clearUnkillable()
	in.ownProblems().Unkillable = why
	in.Env.Log.Error("program is unkillable", "instance", in.Name, "reason", why)
	in.Node.Publish()
	in.Env.Owner.Changed()
	in.Env.Owner.UnkillableChanged(in, true)
}

func (in *Instance) clearUnkillable() {
	if in.Unkillable != "" {
		in.Unkillable = ""
		in.Env.Owner.UnkillableChanged(in, false)
		in.Node.Publish()
	}
}
