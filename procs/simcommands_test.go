package procs

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/instance"
	"superd/procs/snapshot"
)

// drawCommands draws commands beside the main process.
func (h *history) drawCommands(p *config.Program) {
	command := func(arguments ...string) []string {
		return append([]string{hosttest.BesideCommand}, arguments...)
	}
	if h.chance(0.5) && p.Type != config.TypeOneshot {
		hooks := [][]string{command(hosttest.PostStartArgument)}
		p.PostStart = slices.Repeat(hooks, 1+h.rng.IntN(2))
	}
	switch h.rng.IntN(3) {
	case 0:
		p.StopCommand = command(hosttest.StopKeyArgument)
	case 1:
		p.StopCommand = command(hosttest.StopKeyArgument, hosttest.StopArgument)
	}
	if h.chance(0.5) {
		p.CheckCommand = command(hosttest.CheckArgument)
	}
	if p.ReloadCommand = command(hosttest.ReloadArgument); h.chance(0.5) {
		p.ReloadCommand, p.ReloadSignal = nil, syscall.SIGHUP
		p.ReloadNotify = p.Ready != nil && p.Ready.Notify
	}
}

// A restartCheck is a restart that is carried out after checks: those of all programs that are
// restarted with it.
type restartCheck struct {
	run string        // that has a check_command; empty for one without
	at  time.Duration // when the restart was requested
	by  int           // number of the operator's command
}

// beginChecks records restarts that are carried out later, after the check_command of one of the
// programs, and reports whether there is such a check.
func (h *history) beginChecks(selected []instanceView) (any bool) {
	begun := map[string]restartCheck{}
	for _, in := range selected {
		if in.refusal(OpRestart) != "" {
			continue
		}
		c := restartCheck{at: h.v.Now(), by: h.commands + 1}
		if r := in.Run(); in.state() == fsm.Running && len(r.Program().CheckCommand) > 0 {
			c.run, any = r.ID(), true
		}
		begun[in.name()] = c
	}
	if any {
		for name, c := range begun {
			h.checks[name] = append(h.checks[name], c)
		}
	}
	return any
}

// dropChecks forgets the restart of an instance by a command that was refused.
func (h *history) dropChecks(name string, command int) {
	h.checks[name] = slices.DeleteFunc(h.checks[name], func(c restartCheck) bool { return c.by == command })
}

// onCommand is called before a command is carried out for an instance. One that comes later than it
// was given is a restart after checks.
func (h *history) onCommand(on *instance.Instance, op Op) {
	checks := h.checks[on.Name]
	in := inspect(h.sup).instance(on.Name)
	if h.listens.drawn && !h.commanding && in.In == on && !in.target().Up {
		h.expectCommand(in, op) // a roll starts it
	}
	if h.commanding || len(checks) == 0 || in.In != on {
		return
	}
	c := checks[0]
	h.checks[on.Name] = checks[1:]
	if r := in.Run(); r.Exists() && r.ID() == c.run && in.state() == fsm.Running {
		if ended := h.kernel.Commands(c.run, hosttest.CheckArgument); ended.SucceededAt < c.at {
			h.fail("%s is restarted, and its check_command has not succeeded: %+v", in.name(), ended)
		}
	}
	h.expectCommand(in, op)
}

// expectCommand records the desired state that follows a command.
func (h *history) expectCommand(in instanceView, op Op) {
	h.want(in.name(), op != OpStop)
	if op != OpStop && !in.leaves() {
		h.resetRequirements(in)
		h.models[in.name()].resetFailed()
	}
}

// checkReloaded checks what must have happened in a run since at, when a reload was requested that
// has succeeded.
func (h *history) checkReloaded(in, run string, at time.Duration) {
	p := h.kernel.Definition(run)
	if p == nil || h.reloadedAt >= at {
		return
	}
	done := max(h.kernel.Commands(run, hosttest.ReloadArgument).SucceededAt, h.kernel.ReloadSignalAt(run))
	if done < at {
		h.fail("%s is said to be reloaded, and has had neither reload_signal nor reload_command", in)
	}
	reloaded := inspect(h.sup).instance(in)
	if !reloaded.exists() {
		return // removed before the answer was on record
	}
	r := reloaded.Run()
	if !r.Exists() || r.ID() != run || len(r.Program().CheckCommand) == 0 && len(p.CheckCommand) == 0 {
		return
	}
	if checked := h.kernel.Commands(run, hosttest.CheckArgument); checked.SucceededAt < at {
		if current := inspect(h.sup).config().Program(p.Name); current != nil && len(current.CheckCommand) > 0 {
			h.fail("%s is reloaded, and its check_command has not succeeded: %+v", in, checked)
		}
	}
}

// checkPostStart checks that a program that became ready after the last reload of superd has had
// all its post_start hooks.
func (h *history) checkPostStart(in instanceView, r instance.RunView) {
	began := h.kernel.Definition(r.ID())
	if began == nil || len(began.PostStart) == 0 || h.reloadedAt >= h.kernel.RequestedAt(r.ID()) {
		return
	}
	if c := h.kernel.Commands(r.ID(), hosttest.PostStartArgument); c.Succeeded < len(began.PostStart) {
		h.fail("%s is ready, and has had %d of %d post_start hooks", in.name(), c.Succeeded, len(began.PostStart))
	}
}

// checkStopCommand checks that a main process gets the stop signal only after its stop_command. It
// is called when a process gets it.
func (h *history) checkStopCommand(p *hosttest.Process) {
	in := inspect(h.sup).instance(p.Instance)
	if !in.exists() || !in.Run().Exists() || in.Run().ID() != p.Run || inspect(h.sup).shutdownHurried() {
		return
	}
	r := in.Run()
	// stop_command may wait for the journal, or for a check, until the stop time-out is over. A
	// successor ends what is left of it.
	if r.StopDeadline() != 0 && r.StopDeadline() <= h.v.Now() {
		return
	}
	for other := range h.kernel.Processes() {
		if len(r.Program().StopCommand) == 0 {
			break // a reload has removed it, and a successor does not wait for what runs of it
		}
		if other.Run == p.Run && other.Key == hosttest.StopKeyArgument && !other.Zombie && !other.Dying && other.Known() {
			h.fail("%s gets the stop signal while its stop_command runs as %d", in.name(), other.Pid)
		}
	}
	began := h.kernel.Definition(p.Run)
	if began == nil || len(began.StopCommand) == 0 || r.ReadyAt() == 0 || h.reloadedAt >= h.kernel.RequestedAt(p.Run) {
		return
	}
	if begun := h.kernel.Commands(p.Run, hosttest.StopKeyArgument).Begun; begun == 0 && !h.commandsMayHang &&
		r.Program().StopTimeout > 0 && in.failureReason().Kind == fsm.ReasonNone {
		h.fail("%s gets the stop signal before its stop_command", in.name())
	}
}

// checkAcknowledged checks that the keeper is not told to forget the exit of a process that the
// journal has as the main process of a run.
func (h *history) checkAcknowledged(pid int, start uint64) {
	state, _ := h.journal.content()
	for key, text := range state.Values {
		var v snapshot.Instance
		if !strings.HasPrefix(key, snapshot.InstanceKey("")) || json.Unmarshal(text, &v) != nil ||
			v.Run == nil || v.Run.Main == nil || laterStart(state.Values, key, v.Run.ID) {
			continue
		}
		if v.Run.Main.Pid == pid && v.Run.Main.Start == start && v.Run.Launch != snapshot.LaunchSearched {
			h.fail("the exit of %d is acknowledged, and the journal has it as alive: %s", pid, key)
		}
	}
}

// laterStart reports whether the journal has the start of another run of the instance than the
// record of that key: that run is later, and the successor restores it.
func laterStart(values map[string]json.RawMessage, key, run string) bool {
	starts := snapshot.StartKey(strings.TrimPrefix(key, snapshot.InstanceKey("")), 0)
	for other, text := range values {
		var start snapshot.Start
		if strings.HasPrefix(other, strings.TrimSuffix(starts, "0")) && json.Unmarshal(text, &start) == nil &&
			start.Run != run {
			return true
		}
	}
	return false
}

// checkExits checks that the keeper need not keep any exit of a process that superd knows.
func (h *history) checkExits() {
	if inspect(h.sup).shutdownBegun() {
		return // what is stored goes with the keeper
	}
	for _, e := range h.kernel.StoredExits() {
		h.fail("the exit of %d is not acknowledged: %v", e.Pid, e.Exit)
	}
}
