package procs

import (
	"strings"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance"
)

// simMaxDelay bounds how late something may happen in the simulation.
const simMaxDelay = 5 * time.Second

// maxDelayOf bounds the delay of a decision that waits for messages: each may have to wait until
// its effects are in the journal.
func maxDelayOf(s *hosttest.Socket) time.Duration {
	return simMaxDelay * time.Duration(1+s.MaxAwaited)
}

// drawChecks draws readiness, health checks and watchdog of the program.
func (h *history) drawChecks(p *config.Program) {
	command := []string{hosttest.ProbeCommand}
	if p.Type != config.TypeOneshot && h.chance(0.4) {
		ready := &config.Ready{Interval: time.Second, Timeout: 2 * time.Second}
		switch h.rng.IntN(4) {
		case 0:
			ready.Notify = true
		case 1:
			ready.FD = 3
		case 2:
			ready.TCP = p.Name
		case 3:
			ready.Exec = command
		}
		p.Ready = ready
	}
	if h.chance(0.3) {
		p.Health = &config.Health{Interval: time.Minute, Timeout: 2 * time.Second, Failures: 1 + h.rng.IntN(3), Action: config.HealthRestart}
		if h.kernel.Mix.Reloads > 0 { // several may fail during a reload of the program
			p.Health.Interval = 10 * time.Second
		}
		if h.chance(0.2) {
			p.Health.Action = config.HealthNone
		}
		if h.chance(0.5) {
			p.Health.Exec = command
		} else {
			p.Health.TCP = p.Name
		}
	}
	if h.chance(0.2) {
		p.Watchdog = time.Minute
	}
}

// checkReady checks that a run is ready if and only if its main process is, and that it is ended as
// not ready, unhealthy or hanging only with good reason.
func (h *history) checkReady(in instanceView, model *model) {
	r, now := in.Run(), h.now
	if !r.HasProcess() {
		return
	}
	p := simProcessOf(r.Process())
	if p == nil || p.Role != hosttest.RoleMain || p.Run != r.ID() {
		p = h.kernel.Main(r.ID())
	}
	if p == nil {
		return
	}
	switch in.state() {
	case fsm.Running:
		// A reload may have changed the kind of readiness after the instance was ready. Numbered
		// instances share one address, also with an extra replica.
		shared := numbered(in.name()) || h.rolling.drawn
		if ready := r.Program().Ready; ready != nil && p.ReadyAt == 0 && (reportsReadiness(ready) || !shared) && h.reloadedAt < p.Began {
			h.fail("%s is running, and its process was never ready", in.name())
		}
		if h.drawsCommands {
			h.checkPostStart(in, r)
		}
	case fsm.Starting:
		most := time.Duration(1+len(r.Program().PostStart))*r.Program().StartTimeout + maxDelayOf(h.kernel.SocketOf(p.Run))
		if len(r.Program().PostStart) > 0 {
			most += 2 * margin // a hook waits for the end of an exec check, and for the journal
		}
		// A hook is started again, without limit, after a resource shortage
		since := max(p.Began, inspect(h.sup).startedAt(), h.reloadedAt, r.CommandEndedAt())
		if late := now - since; late > most {
			h.fail("%s is starting for %v, start time-out %v", in.name(), late, r.Program().StartTimeout)
		}
	}
	if in.state() == fsm.Running && model.state == fsm.Running {
		h.checkUnhealthy(in, r, p, model)
	}
	if in.failureReason().Kind != fsm.ReasonNone && !model.runFailed {
		model.runFailed = true
		h.checkFailureReason(in, r, p)
	}
}

// reportsReadiness reports whether a program itself reports its readiness; otherwise superd checks
// it.
func reportsReadiness(ready *config.Ready) bool { return ready.Notify || ready.FD != 0 }

// checkUnhealthy checks that superd ends an unhealthy process as soon as its checks or its watchdog
// can tell.
func (h *history) checkUnhealthy(in instanceView, r instance.RunView, p *hosttest.Process, model *model) {
	if !p.Unhealthy || r.Reloads() || r.StopsItself() || p.ReadyAt == 0 {
		return
	}
	unhealthyFor := h.now - max(p.UnhealthySince, inspect(h.sup).startedAt(), h.reloadedAt, r.ReloadedAt(), r.CommandAt(), model.stateAt)
	if health := r.Program().Health; health != nil && health.Action == config.HealthRestart && !h.commandMayFail(in) && !strings.Contains(in.name(), "@") {
		// One check may just have passed. Each may be a tenth of the interval late and take
		// its time-out.
		if most := time.Duration(health.Failures+1)*(health.Interval*11/10+health.Timeout) + simMaxDelay; unhealthyFor > most {
			h.fail("%s is unhealthy for %v and is not ended, limit %d failures", in.name(), unhealthyFor, health.Failures)
		}
	}
	if p.Watchdog > 0 && unhealthyFor > p.Watchdog+maxDelayOf(h.kernel.SocketOf(p.Run)) {
		h.fail("%s hangs for %v and is not ended, watchdog %v", in.name(), unhealthyFor, p.Watchdog)
	}
}

// checkFailureReason checks that the reason for which superd ends a run is true.
func (h *history) checkFailureReason(in instanceView, r instance.RunView, p *hosttest.Process) {
	now, failureReason := h.now, in.failureReason()
	switch failureReason.Kind {
	case fsm.ReasonStartTimeout:
		ready, socket := r.Program().Ready, h.kernel.SocketOf(p.Run)
		if ready != nil && reportsReadiness(ready) && p.ReadyAt != 0 && now-p.ReadyAt > maxDelayOf(socket)+2*ready.Interval && !socket.Lost {
			h.fail("%s was ended as not ready, and is ready for %v", in.name(), now-p.ReadyAt)
		}
		if now-p.Began < r.Program().StartTimeout-simMaxDelay {
			h.fail("%s was ended as not ready after only %v", in.name(), now-p.Began)
		}
	case fsm.ReasonHookFailed:
		if !h.drawsCommands {
			h.fail("%s ended by a post_start hook, and no program has any: %s", in.name(), failureReason)
		}
	case fsm.ReasonUnhealthy:
		command := r.Program().Health == nil || r.Program().Health.Exec != nil
		// A failed check waits for messages. superd ignores a reload that takes too long.
		idle := !p.Busy && now > p.IdleAt+maxDelayOf(h.kernel.SocketOf(p.Run))
		if p.UnhealthySince == 0 && p.ReadyAt != 0 && now-p.ReadyAt > 5*time.Minute && idle && !h.checksMayHang && !(command && h.commandMayFail(in)) {
			h.fail("%s was ended as unhealthy, and never was: %s", in.name(), failureReason)
		}
		lost := h.kernel.SocketOf(p.Run).Lost
		if health := r.Program().Health; health != nil && health.TCP != "" && !h.checksMayHang && p.UnhealthySince == 0 && p.ReadyAt != 0 && !lost {
			// Checks begun before it was ready, or during its reload, have a result
			// by now.
			resultsDue := now > p.ReadyAt+health.Timeout+simMaxDelay
			// A change of the time-out does not prolong a reload that was too long before
			timeoutKnown := h.reloadedAt < p.BusyAt
			if resultsDue && p.Busy && timeoutKnown && now < p.BusyAt+r.Program().StartTimeout-simMaxDelay {
				h.fail("%s was ended as unhealthy during its reload", in.name())
			}
			if resultsDue && idle {
				h.fail("%s was ended as unhealthy, and is healthy: %s", in.name(), failureReason)
			}
		}
	case fsm.ReasonWatchdogTimeout:
		// Unsaved messages delay the time-out: a ping after the deadline is too late
		age := now - p.PingedAt
		if p.UnhealthySince == 0 && age < p.Watchdog && age > maxDelayOf(h.kernel.SocketOf(p.Run)) {
			h.fail("%s was ended by its watchdog, pinged %v ago", in.name(), age)
		}
	default:
		h.fail("%s ended: %s", in.name(), failureReason)
	}
}

// commandMayFail reports whether exec checks of the instance may fail though it is healthy: in a
// resource shortage, or because an unkillable child of one delays the next.
func (h *history) commandMayFail(in instanceView) bool {
	for p := range h.kernel.Processes() {
		if p.Instance == in.name()+host.ProbeSuffix && p.Unkillable {
			return true
		}
	}
	return h.commandsMayFail
}
