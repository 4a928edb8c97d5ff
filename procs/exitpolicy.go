package procs

import (
	"fmt"
	"slices"

	"superd/config"
)

// checkExitPolicy ends superd if the configuration says so for this instance, which stays down by
// itself: it has exited, or failed without a retry.
func (s *Supervisor) checkExitPolicy(in *instance) {
	switch when := s.config.active.Superd.ExitWhen; {
	case s.shutdown != nil || s.endDecided:
	case in.program.Essential:
		s.endWith(in, Reason{ReasonEssentialEnded,
			fmt.Sprintf("%s is essential and stays down: %s", in.name, in.machine.stateReason)})
	case when == config.ExitAnyFailed && in.machine.state == Failed:
		s.endWith(in, Reason{ReasonAnyFailed,
			fmt.Sprintf("exit_when = %q and %s failed: %s", when, in.name, in.machine.stateReason)})
	}
}

// endIfAnyFailed ends superd if a new configuration says so for an instance that has already
// failed.
func (s *Supervisor) endIfAnyFailed() {
	if s.config.active.Superd.ExitWhen != config.ExitAnyFailed || s.shutdown != nil || s.endDecided {
		return
	}
	if first := s.firstFailed(); first != nil {
		s.checkExitPolicy(first)
	}
}

// endWith begins a shutdown with the exit status of the instance, after the turn's other work. The
// first call decides.
func (s *Supervisor) endWith(in *instance, why Reason) {
	s.endDecided = true
	s.exitStatus = in.exitStatus()
	s.scope.Post(func() {
		if s.shutdown == nil {
			s.beginShutdown(why, 0)
		}
	})
}

// endIfAllEnded ends superd if the configuration says so and all instances have ended. It checks
// that after the turn's other work, which may start an instance.
func (s *Supervisor) endIfAllEnded() {
	if s.config.active.Superd.ExitWhen != config.ExitAllExited || s.endPosted || !s.allEnded() {
		return
	}
	s.endPosted = true
	s.scope.Post(func() {
		s.endPosted = false
		if s.shutdown == nil && !s.endDecided && s.allEnded() {
			s.exitStatus = s.firstFailureStatus()
			s.beginShutdown(Reason{ReasonAllEnded,
				fmt.Sprintf("exit_when = %q and all programs have ended", config.ExitAllExited)}, 0)
		}
	})
}

// firstFailureStatus returns the exit status of the instance that failed first, among those that
// stay failed; 0 if there is none.
func (s *Supervisor) firstFailureStatus() int {
	if first := s.firstFailed(); first != nil {
		return first.exitStatus()
	}
	return 0
}

// firstFailed returns the instance that failed first, among those that stay failed; nil if there is
// none.
func (s *Supervisor) firstFailed() (first *instance) {
	for _, in := range s.registry.instances {
		if in.machine.state == Failed && in.restartTimer == nil && (first == nil || in.sinceAt < first.sinceAt) {
			first = in
		}
	}
	return first
}

// allEnded reports whether every instance is down and none starts by itself. A waiting instance
// counts as ended if its blocker is down. Before the first start nothing has ended. A retiring
// instance counts as live, as it may block another one.
func (s *Supervisor) allEnded() bool {
	if !s.anyStarted || s.registry.atRest()+s.registry.counts[Waiting] < len(s.registry.instances)-int(s.registry.loggers) || !s.reconciler.idle() {
		return false
	}
	return !slices.ContainsFunc(s.registry.instances, func(in *instance) bool {
		if in.isLogger() {
			return false // the shutdown ends it
		}
		return !in.machine.state.AtRest() && in.machine.state != Waiting || in.restartTimer != nil || in.retiring || in.machine.state == Waiting && in.isComing() || in.awaitsSchedule()
	})
}

// exitStatus returns superd's exit status if this instance decides it: its exit code; 128 plus the
// number of the signal; 1 if it could not be started or its exit is unknown.
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

// ExitStatus returns superd's exit status after the shutdown: 0 unless a program decides it.
func (s *Supervisor) ExitStatus() int { return s.exitStatus }
