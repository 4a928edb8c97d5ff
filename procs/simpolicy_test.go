package procs

import (
	"slices"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
)

// A policyModel is what the observer expects of superd's own end.
type policyModel struct {
	shutdownRequested bool   // whether the simulation has requested a shutdown
	begun             bool   // whether a program was started
	shutdownSeen      bool   // whether superd is shutting down
	shutdownTurn      uint64 // turn in which that began
	// Possible exit statuses of superd: several if several causes fall into one turn; nil:
	// undecided
	statuses  []int
	decidedIn uint64 // turn in which they were decided
	restSince uint64 // turn since which all instances are at rest; 0: they are not
}

// observeShutdown checks that superd has a reason to shut down.
func (h *history) observeShutdown() {
	p := &h.policy
	if p.shutdownSeen || !inspect(h.sup).shutdownBegun() {
		return
	}
	p.shutdownSeen, p.shutdownTurn = true, h.v.Turns()
	switch {
	case p.shutdownRequested && p.statuses == nil:
		p.statuses = []int{0}
	case p.shutdownRequested, p.statuses != nil:
	case inspect(h.sup).config().Superd.ExitWhen == config.ExitAllExited && p.begun && h.allAtRest():
		p.statuses = h.firstFailures(func(in instanceView) bool { return !inspect(h.sup).isExtra(in.name()) })
	default:
		h.fail("superd shuts down: %s", inspect(h.sup).shutdownReason())
	}
	for _, name := range sortedKeys(h.models) {
		h.want(name, false)
	}
}

// recordFinalExit records the status of an instance that has ended and stays down.
func (h *history) recordFinalExit(in instanceView, ran *hosttest.Process) {
	model := h.models[in.name()]
	model.exitStatus = statusOf(in, ran)
	h.recordExitDecision(in, model)
}

// recordExitDecision records whether an instance that stays down ends superd, and with which
// status.
func (h *history) recordExitDecision(in instanceView, model *model) {
	p, turn := &h.policy, h.v.Turns()
	if inspect(h.sup).isExtra(in.name()) {
		return
	}
	decides := in.program().Essential || inspect(h.sup).config().Superd.ExitWhen == config.ExitAnyFailed && in.state() == fsm.Failed
	if decides && !p.shutdownSeen && !p.shutdownRequested && (p.statuses == nil || p.decidedIn == turn) {
		p.statuses, p.decidedIn = append(p.statuses, model.exitStatus), turn
	}
}

// observeReload follows a reload. If instances that stay failed now end superd, the first of them
// decides the status.
func (h *history) observeReload() {
	p := &h.policy
	for in := range inspect(h.sup).instances() { // a slow retry may have been cancelled
		if model := h.models[in.name()]; in.state() == fsm.Failed && !in.RetryPending() && model.in == in {
			if model.lastRun != "" {
				model.exitStatus = statusOf(in, h.kernel.Main(model.lastRun))
			}
			if model.retrying {
				model.retrying = false
				h.recordExitDecision(in, model)
			}
		}
	}
	if inspect(h.sup).config().Superd.ExitWhen != config.ExitAnyFailed || p.shutdownSeen || p.shutdownRequested || p.statuses != nil {
		return
	}
	failedFinally := func(in instanceView) bool {
		return in.state() == fsm.Failed && !in.RetryPending() && !inspect(h.sup).isExtra(in.name())
	}
	if h.anyInstance(failedFinally) {
		p.statuses, p.decidedIn = h.firstFailures(failedFinally), h.v.Turns()
	}
}

// statusOf returns superd's exit status if the instance decides it.
func statusOf(in instanceView, ran *hosttest.Process) int {
	e, _ := in.LastExit()
	switch {
	case ran == nil, !e.Known, in.state() == fsm.Failed && ran.Exit.Signal == 0 && ran.Exit.Code == 0:
		return 1
	case ran.Exit.Signal != 0:
		return 128 + int(ran.Exit.Signal)
	default:
		return ran.Exit.Code
	}
}

// firstFailures returns the statuses of the instances that failed first, among those that count.
func (h *history) firstFailures(counts func(instanceView) bool) []int {
	var first []int
	var at = h.v.Now() + 1
	for in := range inspect(h.sup).instances() {
		switch m := h.models[in.name()]; {
		case m == nil || m.in != in || m.state != fsm.Failed || !counts(in) || m.stateAt > at:
		case m.stateAt == at:
			first = append(first, m.exitStatus)
		default:
			first, at = []int{m.exitStatus}, m.stateAt
		}
	}
	if first == nil {
		return []int{0}
	}
	return first
}

// checkPolicy checks that superd shuts down in the turn after the cause, and ends with its status.
func (h *history) checkPolicy() {
	p, turn := &h.policy, h.v.Turns()
	switch {
	case p.shutdownSeen:
		if h.ended && !slices.Contains(p.statuses, h.sup.ExitStatus()) {
			h.fail("superd ends with status %d, want one of %v: %s", h.sup.ExitStatus(), p.statuses, inspect(h.sup).shutdownReason())
		}
		return
	case p.statuses != nil && turn > p.decidedIn+1:
		h.fail("superd still runs, want it to end with status %v", p.statuses)
	case inspect(h.sup).config().Superd.ExitWhen != config.ExitAllExited || !p.begun || !h.allAtRest():
		p.restSince = 0
	case p.restSince == 0:
		p.restSince = turn
	case turn > p.restSince+1+maxReactionTurns:
		h.fail("superd still runs, though all programs have ended")
	}
}

// allAtRest reports whether each instance is down, or waits for one that is down, and none is about
// to start.
func (h *history) allAtRest() bool {
	for in := range inspect(h.sup).instances() {
		if !in.state().AtRest() && (in.state() != fsm.Waiting || !h.mayWait(in) || in.awaitsSchedule()) || in.RetryPending() || in.leaves() {
			return false
		}
	}
	return true
}
