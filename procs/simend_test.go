package procs

import (
	"math"
	"slices"
	"strings"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
)

// observe updates the model of an instance after each turn, and compares what follows the end of a
// run with the configuration.
func (h *history) observe(in instanceView, model *model) {
	if model.in != in {
		*model = model.renewed(in)
	}
	if change := h.defect.program; change != nil && h.altered[in] != in.program() {
		h.altered[in] = in.program()
		in.RedefineMachine(altered(in.program(), change))
	}
	if h.defect.eachTurn != nil {
		h.defect.eachTurn(in)
	}
	before, after := model.state, in.state()
	if in.Run() != model.run && model.run.Exists() && !model.run.Closed() {
		h.fail("%s began a run while the scope of the previous one is open", in.name())
	}
	if last := model.run; last.Exists() && last != in.Run() && last != model.endedRun {
		model.endedRun = last
		ran := h.kernel.Main(last.ID())
		_, at := in.LastExit()
		if ran != nil && !model.unknownMain && last.Stable(at) >= in.program().Backoff.ResetAfter {
			model.retries, model.startLimitHit = 0, false
		}
	}
	if r := in.Run(); r.Exists() {
		if model.run != r {
			model.runFailed = false
			model.run, model.lastRun = r, r.ID()
			if in.Machine().StartReason() == fsm.ReasonStarted.With(fsm.By(fsm.ActorRoll).String()) {
				model.resetFailed()
			}
		}
		model.unknownMain = r.Unidentified()
		h.policy.begun = true
		h.checkReady(in, model)
	}
	if before == after {
		if after != fsm.Killing {
			return
		}
		since := max(model.stateAt, inspect(h.sup).startedAt())
		if main := h.kernel.Main(model.lastRun); main != nil {
			since = max(since, main.MainAt)
			if main.Zombie { // superd polls, then reads the notify socket
				since = max(since, main.EndedAt+host.UnwatchedPause)
			}
		}
		if late := h.now - since; late > host.KillPause+time.Second && in.unkillable() == "" {
			h.fail("%s got SIGKILL %v ago, and is neither gone nor reported", in.name(), late)
		}
		return
	}
	forAnOperator := strings.HasPrefix(in.Machine().StartReason().String(), "started by the operator, for ")
	byReload := in.Machine().StartReason().String() == "started by the configuration (changed)"
	if model.wantUp && before == fsm.Failed && byReload {
		// By the new success_exit_codes it may have succeeded
		model.startLimitHit = model.startLimitHit && in.Machine().StartLimitHit()
	}
	if model.wantUp && before.AtRest() && forAnOperator {
		// The operator has started one of its dependents, perhaps again
		model.resetFailed()
	}
	endedAt := h.now
	if before == fsm.TearingDown {
		endedAt = model.stateAt
	}
	model.state, model.stateAt = after, h.now
	if before != fsm.TearingDown && before != fsm.Backoff && !before.AtRest() {
		model.failed = model.runFailed || model.run.Exists() && model.run.ReadyAt() == 0
		model.endedBySuperd = model.runFailed
	}
	stops := (before == fsm.Running || before == fsm.StopPending) && (after == fsm.Stopping || after == fsm.Killing)
	// Otherwise it is treated like a crash
	if stops && in.failureReason().Kind == fsm.ReasonNone {
		h.checkStop(in, before)
	}
	ended := after == fsm.Backoff || after == fsm.Failed || after == fsm.Exited
	if !ended && (after != fsm.Waiting || before.AtRest() || !in.Machine().AwaitsTrigger()) {
		return
	}
	// A reload may have given it a schedule during the run
	began := h.kernel.Definition(model.lastRun)
	scheduled := in.program().Scheduled() && began != nil && !began.Scheduled()
	if after == fsm.Waiting && (scheduled || in.Machine().Outcome() == fsm.RunEndedRestart) {
		model.resetFailed()
		return // A requested restart
	}
	model.retrying = after == fsm.Failed && in.RetryPending()
	if before == fsm.Backoff || before == fsm.Failed {
		h.observePolicyChange(in, model)
		return
	}
	ran := h.kernel.Main(model.lastRun)
	if ran != nil {
		h.checkExit(in, ran)
	}
	h.checkOutcome(in, model, ran, endedAt)
	if after == fsm.Waiting {
		model.resetFailed()
	}
	if after != fsm.Backoff && after != fsm.Waiting && !in.RetryPending() {
		h.recordFinalExit(in, ran)
	}
	if after == fsm.Backoff {
		h.checkDelay(in, model)
	}
}

// checkExit checks that superd knows how the main process exited.
func (h *history) checkExit(in instanceView, ran *hosttest.Process) {
	e, _ := in.LastExit()
	if e.Known && (e.Code != ran.Exit.Code || e.Signal != int(ran.Exit.Signal)) {
		h.fail("%s ended with %v, superd says %v", in.name(), ran.Exit, e)
	}
	// If a message of the run is lost, superd may not know the main process
	if !e.Known && !ran.Reparented && !h.kernel.SocketOf(ran.Run).Lost {
		h.fail("%s: superd does not know how its own child ended", in.name())
	}
}

// checkDelay checks the backoff before the next start.
func (h *history) checkDelay(in instanceView, model *model) {
	model.retries++
	b := in.program().Backoff
	got := float64(in.RetryDue() - h.v.Now())
	fits := func(retries int) bool {
		want := min(float64(b.Initial)*math.Pow(b.Factor, float64(retries-1)), float64(b.Max))
		// The clock may advance a little between the end and this check.
		return got <= want*(1+b.Jitter)+float64(time.Millisecond) && got >= want-float64(50*time.Millisecond)
	}
	name := in.program().Name
	taken := h.rolling.rolls[name].Turns[in.name()].Taken || h.rolling.begun[name] || h.rolling.failed[name]
	switch {
	case fits(model.retries):
	// The roll has restarted it, which a crash of superd has hidden
	case taken && inspect(h.sup).startedAt() > h.began && fits(1):
		last := model.failures[max(0, len(model.failures)-1):] // of the run that has just failed
		model.resetFailed()
		model.retries, model.failures = 1, slices.Clone(last)
	default:
		h.fail("%s: restart %d in %v, want that of %v", in.name(), model.retries, time.Duration(got), b)
	}
}

// observePolicyChange checks the state of an instance whose restart policy changed during its
// backoff, or while it had failed at its start limit: it must be the state after an exit under the
// new policy.
func (h *history) observePolicyChange(in instanceView, model *model) {
	if in.state() == fsm.Exited {
		model.startLimitHit = model.startLimitHit && in.Machine().StartLimitHit()
	}
	if model.lastRun == "" { // superd was killed since
		if model.exitStatus = in.exitStatus(); in.staysDown() {
			h.recordExitDecision(in, model)
		}
		return
	}
	p, ran := in.program(), h.kernel.Main(model.lastRun)
	success, prevented := h.succeeded(in, model, ran), h.prevents(in, model, ran)
	switch {
	case in.state() == fsm.Exited:
		h.expect(in, success && (!p.RestartsAfterSuccess() || prevented), "in backoff")
	case in.state() == fsm.Failed:
		h.expect(in, !success && (p.Restart == config.RestartNever || prevented), "in backoff")
	case in.state() == fsm.Waiting:
		ends := success || p.Restart == config.RestartNever || prevented
		h.expect(in, p.Scheduled() && ends, "in backoff")
		model.resetFailed()
		return
	}
	if !in.RetryPending() {
		h.recordFinalExit(in, ran)
	}
}

// checkOutcome checks the state after an exit against the restart policy alone. ran is the main
// process; nil if the start failed.
func (h *history) checkOutcome(in instanceView, model *model, ran *hosttest.Process, endedAt time.Duration) {
	p, got, retry := in.program(), in.state(), in.RetryPending()
	success, uncertain := h.succeeded(in, model, ran), model.outcomeUncertain
	prevented := h.prevents(in, model, ran)
	model.outcomeUncertain = false
	switch {
	case model.outdatedRun == model.lastRun:
		// The restart needs no decision; a program with a schedule waits for that
		h.expect(in, got == fsm.Waiting && p.Scheduled(), "restarted")
	case ran == nil && h.kernel.Shortage(model.lastRun): // retried, whatever the policy
		h.expect(in, got == fsm.Backoff, "in backoff")
	case uncertain && ran != nil && hasStatus(p, ran): // a reload may have changed the codes
		model.failures = slices.Clone(in.Machine().Failures())
		model.startLimitHit = in.Machine().StartLimitHit()
	case p.Scheduled() && (success || p.Restart == config.RestartNever || prevented):
		h.expect(in, got == fsm.Waiting && !retry, "waiting for the next time")
	case prevented && success:
		h.expect(in, got == fsm.Exited && !retry, "exited, by no_restart_exit_codes")
	case prevented:
		h.expect(in, got == fsm.Failed && !retry, "failed, by no_restart_exit_codes")
	case success && !p.RestartsAfterSuccess():
		h.expect(in, got == fsm.Exited && !retry, "exited after success")
	case success:
		h.expect(in, got == fsm.Backoff, "in backoff")
		if uncertain { // a reload may have changed what success is
			model.failures = slices.Clone(in.Machine().Failures())
			model.startLimitHit = in.Machine().StartLimitHit()
		}
	case p.Restart == config.RestartNever:
		h.expect(in, got == fsm.Failed && !retry, "failed for good")
		if uncertain {
			model.failures = slices.Clone(in.Machine().Failures())
		}
	default:
		surely, perhaps := model.overLimit(p.StartLimit, endedAt)
		if uncertain {
			surely, perhaps = false, true
			model.failures = slices.Clone(in.Machine().Failures())
		}
		hitLimit := got == fsm.Failed && retry == (p.StartLimit.RetryAfter > 0)
		if p.Scheduled() {
			hitLimit = got == fsm.Waiting && !retry
		}
		switch {
		case surely:
			h.expect(in, hitLimit, "failed at the start limit")
		case perhaps:
			h.expect(in, hitLimit || got == fsm.Backoff, "in backoff, or failed at the start limit")
		default:
			h.expect(in, got == fsm.Backoff, "in backoff, below its limit")
		}
		if got == fsm.Failed {
			model.startLimitHit, model.failures = true, nil
		}
	}
}

func (h *history) expect(in instanceView, ok bool, what string) {
	if !ok {
		h.fail("%s is %s, retry pending: %v, want it %s: restart %v, limit %d: %s",
			in.name(), in.state(), in.RetryPending(), what,
			in.program().Restart, in.program().StartLimit.Failures, in.reason())
	}
}

// succeeded reports whether the last run succeeded. ran is its main process; nil if the start
// failed.
func (h *history) succeeded(in instanceView, model *model, ran *hosttest.Process) bool {
	e, _ := in.LastExit()
	return ran != nil && e.Known && !model.failed &&
		ran.Exit.Signal == 0 && slices.Contains(in.program().SuccessExitCodes, ran.Exit.Code)
}

// overLimit records a failure and reports whether it hits the start limit. Failures near the edge
// of the window count as possible only, as the clock advances between observations.
func (m *model) overLimit(limit config.StartLimit, at time.Duration) (surely, perhaps bool) {
	if limit.Failures == 0 {
		return false, false
	}
	const edge = 10 * time.Millisecond
	m.failures = append(m.failures, at)
	certain, possible := 0, 0
	for _, failed := range m.failures {
		if at-failed < limit.Within-edge {
			certain++
		}
		if at-failed < limit.Within+edge {
			possible++
		}
	}
	return m.startLimitHit || certain >= limit.Failures, m.startLimitHit || possible >= limit.Failures
}

func (m *model) renewed(in instanceView) model {
	return model{wantUp: m.wantUp, since: m.since, in: in}
}
