package procs

import (
	"math"
	"time"

	"superd/config"
)

// A model is what an observer who does not know the machine expects of an instance.
type model struct {
	wantUp bool
	since  time.Duration // when wantUp was said last

	in       *instance // the one observed; another one begins anew
	state    State     // after the turn before
	stateAt  time.Duration
	run      *run
	process  *simProcess     // main process of run
	retries  int             // ends in a row that were followed by a restart, without a stable run or the operator between
	failures []time.Duration // bad ends since the operator's last command
}

func (m *model) forgive() { m.retries, m.failures = 0, nil }

// check holds the invariants of every moment.
func (h *history) check() {
	for _, in := range h.sup.instances {
		h.checkState(in)
		h.observe(in)
	}
}

func (h *history) checkState(in *instance) {
	now, m := h.v.Now(), in.machine
	process := in.run != nil && in.run.process != nil
	main, others := h.kernel.living(in.name)
	switch m.state {
	case Running, Stopping, Killing:
		if !process {
			h.fail("%s is %s without a process", in.name, m.state)
		}
	case Spawning, Clearing:
		if in.run == nil {
			h.fail("%s is %s without a run", in.name, m.state)
		}
	default:
		if in.run != nil || main > 0 {
			h.fail("%s is %s with a run", in.name, m.state)
		}
		if others > 0 && !h.kernel.spared[in.name] {
			h.fail("%s is %s while %d processes of it live", in.name, m.state, others)
		}
	}
	if (m.state == Backoff) != (in.restartTimer != nil) && m.state != Failed {
		h.fail("%s is %s, restart pending: %v", in.name, m.state, in.restartTimer != nil)
	}
	if in.removed {
		return
	}
	model := h.models[in.name]
	if m.wanted.up != model.wantUp {
		h.fail("%s: wanted up = %v, but it should be %v", in.name, m.wanted.up, model.wantUp)
	}
	h.checkBound(in, now-model.since)
}

// checkBound holds that what is to be down is down in bounded time: hooks, stop time-out, what is left, hooks again.
func (h *history) checkBound(in *instance, since time.Duration) {
	m := in.machine
	if m.wanted.up || m.state.AtRest() || in.stuck != "" {
		return
	}
	const margin = 5 * time.Second
	bound := in.program.StopTimeout + killPause + margin
	if r := in.run; r != nil {
		bound = max(bound, r.program.StopTimeout+killPause+margin)
		bound += time.Duration(len(r.program.PostStop)) * (r.program.StartTimeout + margin)
		bound += r.program.StopTimeout + killPause + h.kernel.mix.slowSpawn
		if h.immortals {
			bound += time.Hour // each of several waits for somebody who dies when he likes
		}
	}
	if since > bound {
		h.fail("%s is to be down since %v and still %s", in.name, since, stateNames[m.state])
	}
}

// observe follows an instance from turn to turn and compares what it does after an end with what its configuration says.
func (h *history) observe(in *instance) {
	model := h.models[in.name]
	if model.in != in {
		*model = model.renewed(in)
	}
	if planted := h.defect.program; planted != nil && in.machine.program == in.program {
		crooked := *in.program
		planted(&crooked)
		in.machine.program = &crooked
	}
	before, after := model.state, in.machine.state
	if in.run != model.run && model.run != nil && !model.run.scope.Closed() {
		h.fail("%s has begun a run while the scope of the one before is open", in.name)
	}
	if in.run != nil && in.run != model.run {
		model.run, model.process = in.run, nil
	}
	if in.run != nil && in.run.process != nil {
		if handle, ok := in.run.process.(*simHandle); ok {
			model.process = handle.p
		}
	}
	if before == after {
		if late := h.v.Now() - model.stateAt; after == Killing && late > killPause+time.Second && in.stuck == "" {
			h.fail("%s got SIGKILL %v ago, lives, and is not named", in.name, late)
		}
		return
	}
	model.state, model.stateAt = after, h.v.Now()
	if after != Backoff && after != Failed && after != Exited {
		return
	}
	p, ran := in.program, model.process
	model.process = nil
	failed, stable := true, false
	if ran != nil {
		failed = ran.exit.Signal != 0 || ran.exit.Code != 0
		stable = in.lastExitAt-ran.began >= p.Backoff.ResetAfter
	}
	if stable {
		model.retries = 0
	}
	h.checkVerdict(in, model, ran != nil, failed)
	if after == Backoff {
		model.retries++
		want := min(float64(p.Backoff.Initial)*math.Pow(p.Backoff.Factor, float64(model.retries-1)), float64(p.Backoff.Max))
		got := float64(in.restartTimer.Due() - h.v.Now())
		// The clock may creep a little between the end and this look.
		if got > want*(1+p.Backoff.Jitter)+float64(time.Millisecond) || got < want-float64(50*time.Millisecond) {
			h.fail("%s: restart %d in %v, want %v", in.name, model.retries, time.Duration(got), time.Duration(want))
		}
	}
}

// checkVerdict holds what state may follow an end, by the restart policy alone.
func (h *history) checkVerdict(in *instance, model *model, ran, failed bool) {
	p, state := in.program, in.machine.state
	switch {
	case state == Exited && !ran: // it came and went between two looks
	case state == Exited && (failed || p.Restart == config.RestartAlways):
		h.fail("%s is exited: failed %v, restart %v", in.name, failed, p.Restart)
	case state == Backoff && p.Restart == config.RestartNever && ran:
		h.fail("%s is in back-off with restart = never", in.name)
	case state == Backoff && p.Restart == config.RestartOnFailure && !failed:
		h.fail("%s is in back-off after success with restart = on-failure", in.name)
	case state == Failed && p.Restart != config.RestartNever && p.StartLimit.Failures == 0:
		h.fail("%s is failed without a limit: %s", in.name, in.reason())
	case state == Failed && (in.restartTimer == nil) != (p.Restart == config.RestartNever || p.StartLimit.RetryAfter == 0):
		h.fail("%s is failed, retry pending: %v", in.name, in.restartTimer != nil)
	}
	if limit := p.StartLimit; limit.Failures > 0 && p.Restart != config.RestartNever && ran && failed {
		model.failures = append(model.failures, h.v.Now())
		recent := 0
		for _, at := range model.failures {
			if h.v.Now()-at <= limit.Within-time.Second {
				recent++
			}
		}
		if state == Failed {
			model.failures = nil
		}
		if state == Backoff && recent > limit.Failures {
			h.fail("%s is in back-off after %d failures within %v, limit %d", in.name, recent, limit.Within, limit.Failures)
		}
	}
}

func (m *model) renewed(in *instance) model {
	return model{wantUp: m.wantUp, since: m.since, in: in}
}

// checkRest holds what must be true when the faults have ceased long ago.
func (h *history) checkRest(shutdown bool) {
	for _, in := range h.sup.instances {
		if in.isOneShot() && in.machine.state == Running {
			h.pending -= len(in.waiters) // it runs for ever here
		}
	}
	if h.pending > 0 {
		h.fail("%d commands never came to an end", h.pending)
	}
	if shutdown != h.ended {
		h.fail("shutdown: asked for %v, complete %v", shutdown, h.ended)
	}
	mains, living := 0, 0
	for _, p := range h.kernel.byPid {
		if !p.zombie {
			living++
		}
	}
	for _, in := range h.sup.instances {
		m, p := in.machine, in.program
		main, others := h.kernel.living(in.name)
		mains += main
		limited := p.StartLimit.Failures > 0 && p.StartLimit.RetryAfter == 0
		switch {
		case in.removed:
			h.fail("%s was removed and is still there: %s", in.name, m.state)
		case !m.wanted.up && (main > 0 || !m.state.AtRest()):
			h.fail("%s is to be down: %s with %d processes", in.name, m.state, main)
		case !m.wanted.up && others > 0 && !h.kernel.spared[in.name]:
			h.fail("%s is to be down: %d processes are left", in.name, others)
		case !m.wanted.up:
		case m.state == Running && main == 1:
		case m.state == Exited && p.Restart != config.RestartAlways:
		case m.state == Failed && (p.Restart == config.RestartNever || limited):
		default:
			h.fail("%s is to be up: %s with %d processes, reason %q", in.name, m.state, main, in.reason())
		}
	}
	if zombies := len(h.kernel.zombies); zombies > 0 {
		h.fail("%d zombies are left", zombies)
	}
	if k := h.kernel; k.spawned != k.reaped+living {
		h.fail("%d processes were born, %d reaped, %d live", k.spawned, k.reaped, living)
	}
	if fds := h.v.OpenFDs(); fds != mains {
		h.fail("%d descriptors are open, %d main processes live", fds, mains)
	}
}
