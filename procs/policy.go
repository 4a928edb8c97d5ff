package procs

import (
	"fmt"
	"slices"

	"superd/config"
)

// endedForGood is told of each instance that stays down by itself: exited, or failed without another try. It ends superd
// where the configuration says so of one instance.
func (s *Supervisor) endedForGood(in *instance) {
	switch when := s.config.Superd.ExitWhen; {
	case s.shutdown != nil || s.endDecided:
	case in.program.Essential:
		s.endWith(in, fmt.Sprintf("%s is essential and ended for good: %s", in.name, in.machine.cause))
	case when == config.ExitAnyFailed && in.machine.state == Failed:
		s.endWith(in, fmt.Sprintf("exit_when = %q and %s failed: %s", when, in.name, in.machine.cause))
	}
}

// endIfAnyFailed ends superd where a new configuration says so of an instance that has failed before.
func (s *Supervisor) endIfAnyFailed() {
	if s.config.Superd.ExitWhen != config.ExitAnyFailed || s.shutdown != nil || s.endDecided {
		return
	}
	if first := s.firstFailed(); first != nil {
		s.endedForGood(first)
	}
}

// endWith shuts down, after the turn's other work, and has superd end with the status of the instance. Who comes first decides.
func (s *Supervisor) endWith(in *instance, why string) {
	s.endDecided = true
	s.exitStatus = in.exitStatus()
	s.scope.Post(func() {
		if s.shutdown == nil {
			s.Shutdown(why)
		}
	})
}

// endIfAllEnded ends superd where the configuration says so of all instances. It looks after the turn's other work, which may start one.
func (s *Supervisor) endIfAllEnded() {
	if s.config.Superd.ExitWhen != config.ExitAllExited || s.endPosted || !s.allEnded() {
		return
	}
	s.endPosted = true
	s.scope.Post(func() {
		s.endPosted = false
		if s.shutdown == nil && !s.endDecided && s.allEnded() {
			s.exitStatus = s.firstFailure()
			s.Shutdown(fmt.Sprintf("exit_when = %q and all have ended", config.ExitAllExited))
		}
	})
}

// firstFailure returns the exit status of the instance that failed first, of those that are failed; 0 if none is.
func (s *Supervisor) firstFailure() int {
	if first := s.firstFailed(); first != nil {
		return first.exitStatus()
	}
	return 0
}

// firstFailed returns the instance that failed first, of those that stay failed; nil if none does.
func (s *Supervisor) firstFailed() (first *instance) {
	for _, in := range s.instances {
		if in.machine.state == Failed && in.restartTimer == nil && (first == nil || in.sinceAt < first.sinceAt) {
			first = in
		}
	}
	return first
}

// allEnded reports whether every instance is down and none will be started again by itself: of those that wait, each does so for one that is down. Before the first start nothing has ended, and
// one that is being removed may make room for another.
func (s *Supervisor) allEnded() bool {
	if !s.begun || s.counts[Stopped]+s.counts[Exited]+s.counts[Failed]+s.counts[Waiting] < len(s.instances)-int(s.loggers) || len(s.unsettled) > 0 {
		return false
	}
	return !slices.ContainsFunc(s.instances, func(in *instance) bool {
		if in.isLogger() {
			return false // it ends by the shutdown
		}
		return !in.machine.state.AtRest() && in.machine.state != Waiting || in.restartTimer != nil || in.removed || in.machine.state == Waiting && in.level() == coming || in.awaitsSchedule()
	})
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
