package procs

import (
	"slices"
	"strings"
	"syscall"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/sandbox"
)

// drawStops draws how a program is killed, after which ends it stays down, and its sandbox.
func (h *history) drawStops(p *config.Program) {
	p.KillSignal, p.NoFinalKill, p.NoRestartExitCodes, p.Sandbox = 0, h.chance(0.3), nil, nil
	if h.chance(0.5) {
		p.KillSignal = syscall.SIGQUIT
	}
	h.kernel.AllowKill(p)
	for _, status := range []config.ExitStatus{
		config.KilledBy(syscall.SIGSEGV), config.KilledBy(syscall.SIGTERM), config.KilledBy(syscall.SIGKILL), 0, 1, 2,
	} {
		if h.chance(0.2) {
			p.NoRestartExitCodes = append(p.NoRestartExitCodes, status)
		}
	}
	slices.Sort(p.NoRestartExitCodes)
	if h.chance(0.5) {
		p.Sandbox = &sandbox.Settings{PrivateTmp: h.chance(0.5)}
	}
}

// prevents reports whether no_restart_exit_codes has the end of the main process of the last run,
// if it is known and superd has not caused it.
func (h *history) prevents(in instanceView, model *model, ran *hosttest.Process) bool {
	e, _ := in.LastExit()
	switch in.Machine().ExitReason().Kind {
	// Also where the process had ended by itself before superd noticed that
	case fsm.ReasonStartTimeout, fsm.ReasonUnhealthy, fsm.ReasonWatchdogTimeout, fsm.ReasonExitTimeout, fsm.ReasonHookFailed:
		return false
	}
	return ran != nil && e.Known && !model.endedBySuperd && hasStatus(in.program(), ran)
}

func hasStatus(p *config.Program, ran *hosttest.Process) bool {
	status := config.ExitStatus(ran.Exit.Code)
	if ran.Exit.Signal != 0 {
		status = config.KilledBy(ran.Exit.Signal)
	}
	return slices.Contains(p.NoRestartExitCodes, status)
}

// mayPrevent reports whether no_restart_exit_codes of the active configuration may keep the
// instance down.
func (h *history) mayPrevent(in instanceView) bool {
	p := in.program()
	if definition := inspect(h.sup).config().Program(p.Name); definition != nil {
		p = definition
	}
	e, _ := in.LastExit()
	status := config.ExitStatus(e.Code)
	if e.Signal != 0 {
		status = config.KilledBy(syscall.Signal(e.Signal))
	}
	return e.Known && slices.Contains(p.NoRestartExitCodes, status)
}

// outlivesStop reports whether the instance has live processes that are not killed after the stop
// time-out.
func (h *history) outlivesStop(w *observedInstance) bool {
	return w.run.Exists() && w.run.Program().NoFinalKill && w.processes.Main+w.processes.Others > 0
}

// staysAlive reports whether the instance stops and never ends, as its live processes ignore the
// stop signal and are not killed.
func (h *history) staysAlive(in instanceView) bool {
	main, others := h.kernel.CountLiving(in.name())
	return in.state() != fsm.Running && in.Run().Exists() && in.Run().Program().NoFinalKill && main+others > 0
}

// checkSpared checks that superd shows a process that has outlived the stop time-out, and is not
// killed.
func (h *history) checkSpared(in instanceView, w *observedInstance) {
	if w.state != fsm.Stopping || !w.run.HasProcess() || !w.run.Program().NoFinalKill || w.unkillable {
		return
	}
	main := simProcessOf(w.run.Process())
	if main == nil || main.Zombie || inspect(h.sup).shutdownHurried() {
		return
	}
	late := h.now - max(w.run.StopDeadline(), h.reloadedAt, inspect(h.sup).startedAt())
	if late > margin && !strings.Contains(in.reason(), "final_kill = false") {
		h.fail("%s has outlived the stop time-out by %v, and that is not shown: %s", in.name(), late, in.reason())
	}
}

// checkSandbox checks that superd shows what of the sandbox of the run could not be enforced. A
// successor does not know it if the result of the start was not recorded.
func (h *history) checkSandbox(in instanceView, w *observedInstance) {
	shown := in.In.Report().Sandbox
	if !w.run.HasProcess() {
		if !w.run.Exists() && len(shown) > 0 {
			h.fail("%s has no run, and a sandbox that lacks %q", in.name(), shown)
		}
		return
	}
	lacks := h.kernel.SandboxLacks(w.run.ID())
	known := len(shown) > 0 || w.model.sandboxRun == w.run.ID()
	if known && !slices.Equal(shown, lacks) {
		h.fail("the sandbox of %s lacks %q, superd shows %q", in.name(), lacks, shown)
	}
	if len(shown) > 0 {
		w.model.sandboxRun = w.run.ID()
	}
}

// checkTmps checks that the private_tmp of each run that is over is removed, or its removal was
// requested.
func (h *history) checkTmps() {
	current := map[string]bool{}
	for in := range inspect(h.sup).instances() {
		if r := in.Run(); r.Exists() {
			current[r.ID()] = true
		}
	}
	if run := h.kernel.KeptTmp(func(run string) bool { return !current[run] }); run != "" {
		h.fail("the private_tmp of run %s, which is over, is not removed", run)
	}
}
