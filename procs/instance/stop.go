package instance

import (
	"cmp"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/signame"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance/teardown"
	"superd/procs/snapshot"
)

// A stopping is the stop of a main process: its signals and time-outs.
type stopping struct {
	run       *run
	deadline  time.Duration // end of the stop time-out; 0 before a stop
	limit     time.Duration // latest deadline that the program can request
	timer     *loop.Timer   // StopTimeout; nil before a stop
	killTimer *loop.Timer   // KillTimeout; nil before the kill signal
	// When leftover processes get SIGKILL; 0 while the main process lives
	teardownDeadline time.Duration
}

// maxExtension bounds the duration of a stop that the program extends, in stop time-outs.
const maxExtension = 10

// isLast reports whether this superd starts no further run of the instance.
func (r *run) isLast() bool {
	in := r.in
	return in.Membership.Leaves() || in.Env.Owner.Phase().Ending
}

// begin runs stop_command, or sends the stop signal if there is none. A program that was never
// ready, and a stop without time, get the signal at once.
func (s *stopping) begin() {
	r := s.run
	p := r.program
	if len(p.StopCommand) == 0 || r.readyAt == 0 || s.timeout() == 0 || r.in.Env.Owner.Phase().Hurry {
		s.signal()
		return
	}
	s.runCommand()
}

// runCommand runs stop_command. It and its effect have the stop time-out. If it fails, the stop
// signal follows at once.
func (s *stopping) runCommand() {
	in := s.run.in
	s.run.ownBeside().StopCommand(func(err error) {
		if err != nil && in.Machine.State() == fsm.Stopping {
			s.commandOver()
			return
		}
		in.Save()
		in.Env.Owner.Changed()
	})
}

// commandOver sends the stop signal to a program that outlives its stop_command. It has the stop
// time-out again.
func (s *stopping) commandOver() {
	s.run.beside.DropStopCommand()
	s.limit = 0
	s.signal()
	s.timer.Stop()
	s.arm(s.timeout())
	s.run.in.Save()
	s.run.in.Env.Owner.Changed()
}

// stage returns what the stop does, if that is more than the state says; else "".
func (s *stopping) stage() string {
	switch {
	case s.run.in.Machine.State() != fsm.Stopping:
	case s.run.beside.StopState() == snapshot.StopCommandRuns:
		return s.run.beside.StopStage()
	case s.run.beside.StopState() != "":
		return "stop_command has ended; the stop signal follows if the program does not end in time"
	case s.overdue():
		return "still alive after stop_timeout; " + teardown.SparedText
	case s.run.main.drains:
		return "drains for the rolling restart"
	}
	return ""
}

// signal sends the program the stop signal. A logger that does not start again gets the end of
// its input instead.
func (s *stopping) signal() {
	r := s.run
	in := r.in
	if in.IsLogger() && r.isLast() {
		endInput(in)
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

// timeout returns the time-out of a stop that begins now.
func (s *stopping) timeout() time.Duration {
	return stopTimeout(s.run.program, s.run.in.Machine.Drains())
}

// stopTimeout returns the stop time-out of a program, or its drain time-out.
func stopTimeout(p *config.Program, drains bool) time.Duration {
	if drains && p.DrainTimeout != 0 {
		return p.DrainTimeout
	}
	return p.StopTimeout
}

// endDrain gives a program that drains no more than the stop time-out from now on, as another actor
// than the rolling restart has requested its stop.
func (s *stopping) endDrain() {
	in := s.run.in
	if !s.run.main.drains || in.Machine.Drains() {
		return
	}
	now := in.Env.Loop.Now()
	s.run.main.drains = false
	s.limit = now + maxExtension*s.run.program.StopTimeout
	deadline := now + s.run.program.StopTimeout
	if s.timer.Active() && deadline < s.deadline {
		s.deadline = deadline
		s.timer.Reset(deadline - now)
	}
	t, by := s.run.teardown, deadline-s.teardownDeadline
	if t != nil && by < 0 && t.Redefine(by) {
		s.teardownDeadline = deadline
	}
}

// arm arms StopTimeout. A timeout that is negative, or a hurried shutdown, means at once.
func (s *stopping) arm(timeout time.Duration) {
	r := s.run
	in := r.in
	if timeout < 0 || in.Env.Owner.Phase().Hurry {
		timeout = 0
	}
	r.main.drains = in.Machine.Drains()
	s.deadline = in.Env.Loop.Now() + timeout
	if s.limit == 0 {
		s.limit = in.Env.Loop.Now() + maxExtension*stopTimeout(r.program, r.main.drains)
	}
	s.timer = r.main.scope.After(timeout, s.timedOut)
}

// timedOut handles the end of the stop time-out.
func (s *stopping) timedOut() {
	r := s.run
	in := r.in
	switch {
	case s.run.beside.StopState() != "" && !in.Env.Owner.Phase().Hurry:
		r.beside.LogStopCommandLate()
		s.commandOver()
		return
	case r.stop.spared():
		r.stop.recordSpared()
		return
	}
	s.run.beside.DropStopCommand()
	in.Apply(in.Machine.StopTimedOut(signame.Name(r.stop.killSignal())))
}

// overdue reports whether the main process has outlived the stop time-out and is not killed.
func (s *stopping) overdue() bool {
	return s.spared() && s.timer != nil && !s.timer.Active()
}

// kill sends the kill signal to the processes that kill_mode names.
func (s *stopping) kill() {
	r := s.run
	in := r.in
	s.timer.Stop() // a hurried stop does not wait for it
	if r.main.killing == 0 || in.Env.Owner.Phase().Hurry {
		r.main.killing = int32(s.killSignal())
	}
	sig := syscall.Signal(r.main.killing)
	limit := "stop_timeout"
	if r.main.drains && r.program.DrainTimeout != 0 {
		limit = "drain_timeout"
	}
	in.Env.Log.Warn(limit+" is over, killing", "instance", in.Name, "pid", r.main.process.Pid(),
		"signal", signame.Name(sig), limit, stopTimeout(r.program, r.main.drains))
	if r.program.KillMode == config.KillProcess {
		r.main.signal(sig)
	} else {
		if r.program.KillMode.KillsTree() {
			r.killTree(sig)
		}
		r.main.signalGroup(sig)
	}
	if sig != unix.SIGKILL {
		s.sendContinue()
	}
}

// killSignal returns the signal for what has not ended in time. A hurried shutdown always kills.
func (s *stopping) killSignal() syscall.Signal {
	if s.run.in.Env.Owner.Phase().Hurry {
		return unix.SIGKILL
	}
	return cmp.Or(s.run.program.KillSignal, unix.SIGKILL)
}

// spared reports whether what has not ended in time gets no signal.
func (s *stopping) spared() bool {
	return s.run.program.NoFinalKill && !s.run.in.Env.Owner.Phase().Hurry
}

// recordSpared records that processes of the run have outlived the stop time-out: once a run, also
// across superds.
func (s *stopping) recordSpared() {
	r := s.run
	in := r.in
	in.Env.Owner.Changed()
	if r.sparedRecorded {
		return
	}
	r.sparedRecorded = true
	in.Env.Log.Warn("stop_timeout is over, and final_kill is false: not killed",
		"instance", in.Name, "stop_timeout", r.program.StopTimeout)
	state := in.Machine.State().String()
	e := eventlog.Event{Kind: eventlog.State, From: state, State: state}
	in.Record(eventlog.WithReason(e, fsm.Reason{Kind: fsm.ReasonNotKilled}))
	in.Save()
}

// killTree sends a signal to all processes of the tree; SIGKILL at once, where the kernel can.
// Others reach the main process and its group by their own way.
func (r *run) killTree(sig syscall.Signal) {
	in := r.in
	if sig == unix.SIGKILL {
		if err := in.Tree.Kill(); err != nil {
			in.Env.Log.Error("process tree not killed at once", "instance", in.Name, "error", err)
		}
		return
	}
	main := r.main.process.Pid()
	r.signalTree(sig, func(m host.Member, foreign bool) bool { return m.Group != main && !foreign })
}

// signalTree sends a signal to the chosen processes of the tree, except the main process. foreign
// reports that a process is in the group of the main process, which does not lead it.
func (r *run) signalTree(sig syscall.Signal, chosen func(m host.Member, foreign bool) bool) {
	in, main, group := r.in, r.main.process.Pid(), r.main.foreignGroup()
	in.Tree.Look(func(found []host.Member) {
		isMain := func(m host.Member) bool { return m.Process.Pid() == main && m.Group == group }
		shared := slices.ContainsFunc(found, isMain) // MAINPID= may have named another one since
		for _, m := range found {
			if m.Process.Pid() != main && chosen(m, shared && m.Group == group) {
				logUnsent(in, m.Process.Pid(), sig, m.Process.Signal(sig))
			}
			m.Process.Close()
		}
	})
}

// armKill arms KillTimeout.
func (s *stopping) armKill() {
	m := &s.run.main
	s.killTimer.Stop() // of an earlier main process
	s.killTimer = m.scope.After(host.KillPause, func() {
		s.run.in.Apply(s.run.in.Machine.KillTimedOut())
	})
}
