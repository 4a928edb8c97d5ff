package procs

import (
	"fmt"

	"superd/config"
)

// endedForGood is told of each instance that stays down by itself: exited, or failed without another try. It ends superd
// where the configuration says so.
func (s *Supervisor) endedForGood(in *instance) {
	status := in.exitStatus()
	switch when := s.config.Superd.ExitWhen; {
	case s.shutdown != nil:
	case in.program.Essential:
		s.endWith(status, fmt.Sprintf("%s is essential and ended for good: %s", in.name, in.machine.cause))
	case when == config.ExitAnyFailed && in.machine.state == Failed:
		s.endWith(status, fmt.Sprintf("exit_when = %q and %s failed: %s", when, in.name, in.machine.cause))
	case when == config.ExitAllExited && s.allEnded():
		s.endWith(s.firstFailure(), fmt.Sprintf("exit_when = %q and all have ended", when))
	}
}

// firstFailure returns the exit status of the instance that failed first, of those that are failed; 0 if none is.
func (s *Supervisor) firstFailure() int {
	var first *instance
	for _, in := range s.instances {
		if in.machine.state == Failed && (first == nil || in.sinceAt < first.sinceAt) {
			first = in
		}
	}
	if first == nil {
		return 0
	}
	return first.exitStatus()
}

// endWith shuts down, after the turn's other work, and has superd end with the status.
func (s *Supervisor) endWith(status int, why string) {
	s.scope.Post(func() {
		if s.shutdown == nil {
			s.exitStatus = status
			s.Shutdown(why)
		}
	})
}

// allEnded reports whether every instance is down and none will be started again by itself.
func (s *Supervisor) allEnded() bool {
	for _, in := range s.instances {
		if !in.machine.state.AtRest() || in.restartTimer != nil {
			return false
		}
	}
	return true
}

// exitStatus returns what superd ends with if this instance decides it: its exit code, 128 and the signal's number if a
// signal ended it, 1 if it could not be started or its end is not known.
func (in *instance) exitStatus() int {
	switch e := in.lastExit; {
	case in.machine.notStarted || e == nil || !e.Known, in.machine.state == Failed && e.Signal == "" && e.Code == 0:
		return 1
	case e.Signal != "":
		return 128 + e.signal
	default:
		return e.Code
	}
}

// ExitStatus returns what superd is to end with, once it has shut down: 0 unless a program decides it.
func (s *Supervisor) ExitStatus() int { return s.exitStatus }
