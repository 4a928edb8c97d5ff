package procs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance"
	"superd/procs/snapshot"
)

// archive returns the number of a configuration, and restore the configuration of a number.
func (h *history) archive(c *config.Config) []byte {
	i := slices.Index(h.configs, c)
	if i < 0 {
		i = len(h.configs)
		h.configs = append(h.configs, c)
	}
	return fmt.Appendf(nil, "%d", i)
}

func (h *history) restore(archive []byte) (*config.Config, error) {
	var i int
	if err := json.Unmarshal(archive, &i); err != nil {
		return nil, err
	}
	return h.configs[i], nil
}

// A beforeCrash is the state of an instance when superd was killed.
type beforeCrash struct {
	machine       fsm.Machine
	due           time.Duration // time of the next start; 0: none
	stopDeadline  time.Duration
	stopCommand   bool // whether stop_command is under way
	startDeadline time.Duration
	process       *hosttest.Process // main process; nil: none
	hook          *hosttest.Process
	removed       bool
}

// crashStateOf returns the present state of an instance.
func crashStateOf(in instanceView) beforeCrash {
	m := beforeCrash{machine: *in.Machine(), removed: in.leaves()}
	if in.RetryPending() {
		m.due = in.RetryDue()
	}
	if r := in.Run(); r.Exists() {
		m.stopDeadline, m.startDeadline = r.StopDeadline(), r.StartDeadline()
		m.process = simProcessOf(r.Process())
		if beside := in.record().Run.Beside; beside != nil {
			m.stopCommand = beside.StopCommand == snapshot.StopCommandRuns
		}
		if r.Hook().Exists() {
			m.hook = simProcessOf(r.Hook().Process())
		}
	}
	return m
}

// simProcessOf returns the simulated process behind a process of superd; nil if there is none.
func simProcessOf(p host.Process) *hosttest.Process {
	if h, ok := p.(*hosttest.Handle); ok {
		return h.Process
	}
	return nil
}

// crash kills superd and starts another one: as its keeper would, or as a person.
func (h *history) crash() {
	if h.err != nil || h.ended {
		return
	}
	resumed := h.chance(0.7)
	before := map[string]beforeCrash{}
	for in := range inspect(h.sup).instances() {
		before[in.name()] = crashStateOf(in)
		// The messages are read, though the journal is full and does not have their effects
		if in.Run().Exists() && h.journal.failedKeys[snapshot.InstanceKey(in.name())] {
			h.kernel.SocketOf(in.Run().ID()).Lost = true
		}
	}
	shuttingDown := inspect(h.sup).shutdownBegun()
	state, pending := h.journal.end()
	h.logf("--- superd is killed; its successor resumes: %v; not written: %v", resumed, sortedKeys(pending))
	h.killSuperd()
	if h.chance(0.5) {
		h.runWithoutSuperd(h.upTo(time.Duration(h.pick(0.001, 1, 20) * float64(time.Second))))
	}
	if h.chance(h.clockJumps) {
		h.changeClock()
	}
	h.pending = 0
	clear(h.checks)
	h.executes.forget()
	clear(h.files.changes)
	values, full := h.journal.values, h.journal.full
	h.journal = newSimJournal(h, h.journal.writeDelay)
	h.journal.values, h.journal.full = values, full

	var self snapshot.Superd
	if text := state.Values[snapshot.SuperdKey]; text != nil && json.Unmarshal(text, &self) == nil && self.Before != 0 && state.Values[snapshot.ConfigKey(self.Before)] == nil {
		h.fail("the journal refers to configuration %d, which it does not have", self.Before)
	}
	recovery := snapshot.Read(state, h.restore)
	if recovery.Incomplete && len(state.Values) > 0 && state.Values[snapshot.SuperdKey] != nil {
		h.fail("journal record not understood")
	}
	for run := range recovery.Runs() { // the outcome may not be in the journal
		for name := range h.models {
			v, start := recovery.Instances[name], recovery.Starts[name]
			of := v != nil && v.Run != nil && v.Run.ID == run
			decided := of && v.State == fsm.TearingDown.Name()
			begun := start != nil && start.Run == run
			lost := pending[snapshot.InstanceKey(name)] || begun && pending[snapshot.StartKey(name, start.Number)]
			if lost && !decided && (of || begun) {
				h.kernel.ForgetShortage(run)
			}
		}
	}
	recovery.Incomplete = false // the journal lacks its end, but is not damaged
	for key := range pending {
		if strings.HasPrefix(key, snapshot.ScaleKey("")) { // from now on the written scales count
			h.setScales(recovery.Scales)
		}
	}
	if h.defect.recovery != nil {
		h.defect.recovery(h, recovery)
	}
	o := h.options()
	o.Predecessor.Snapshot, o.Predecessor.Resumed = recovery, resumed
	h.startedBoot = h.v.Boot()
	h.sup = h.newSupervisor(o)
	h.adopting = true
	if err := h.sup.Adopt(); err != nil {
		h.fail("adopt: %v", err)
		return
	}
	reload := pending[snapshot.SuperdKey] && inspect(h.sup).previousConfig() != 0
	for key := range pending {
		reload = reload || strings.HasPrefix(key, "config/") || strings.HasPrefix(key, snapshot.ScaleKey(""))
	}
	for in := range inspect(h.sup).instances() {
		was, ok := before[in.name()]
		if r := in.Run(); r.Exists() && h.kernel.Main(r.ID()) != nil {
			h.kernel.Main(r.ID()).Began = r.StartedAt()
		}
		h.checkIdentity(in)
		if ok && !pending[snapshot.InstanceKey(in.name())] && !reload {
			h.checkAdopted(in, was)
		}
	}
	h.checkScales(reload)
	h.checkRolls(pending, reload || shuttingDown)
	h.adopted = inspect(h.sup).config()
	h.sup.Start(func() { h.ended = true })
	if h.activatedAnother() {
		h.reloadedAt, reload = h.v.Now(), true
	}
	h.adopting = false
	h.listens.forgetRemoved(inspect(h.sup).config())
	if reload {
		h.setScales(inspect(h.sup).scales())
	}
	h.resyncModels(before, pending, reload || shuttingDown)
	h.check()
}

// activatedAnother reports whether the start of superd has activated another configuration than
// that of its predecessor. It may have ended an operator's scale.
func (h *history) activatedAnother() bool {
	return h.adopting && inspect(h.sup).config() != h.adopted
}

// runWithoutSuperd runs the history for d without a superd.
func (h *history) runWithoutSuperd(d time.Duration) {
	done := false
	h.v.Root().After(d, func() { done = true })
	for !done && h.err == nil && h.v.Step() {
		h.steps++
	}
}

// setScales sets the operator's scales to those that superd has.
func (h *history) setScales(scales map[string]snapshot.Scale) {
	clear(h.scales)
	for name, scaled := range scales {
		h.scales[name] = scaled.Replicas
	}
	h.scaleEdits++
}

// checkScales checks that the operator's scales survive, if they were written.
func (h *history) checkScales(lost bool) {
	for name, scaled := range inspect(h.sup).scales() {
		if n, ok := h.scales[name]; !lost && (!ok || n != scaled.Replicas) {
			h.fail("%s is scaled to %d, it was scaled to %d", name, scaled.Replicas, n)
		}
	}
	for name := range h.scales {
		if _, ok := inspect(h.sup).scales()[name]; !ok && !lost {
			h.fail("the scale of %s is lost", name)
		}
	}
}

// checkIdentity checks that superd has adopted the right process, and no other one as a hook.
func (h *history) checkIdentity(in instanceView) {
	r := in.Run()
	if hook := r.Hook(); hook.Exists() && hook.Process() != nil {
		p := simProcessOf(hook.Process())
		if p != nil && (p.Run != r.ID() || p.Role != hosttest.RolePreStart && p.Role != hosttest.RolePostStop) {
			h.fail("%s has adopted %d of %s, which is not its hook", in.name(), p.Pid, p.Instance)
		}
	}
	if !r.HasProcess() {
		return
	}
	if p := simProcessOf(r.Process()); p != nil && (p.Instance != in.name() || p.Run != r.ID() || p.Role != hosttest.RoleMain) {
		h.fail("%s has adopted %d of %s, which is not its main process", in.name(), p.Pid, p.Instance)
	}
}

// checkAdopted checks that an instance has the state that was written.
func (h *history) checkAdopted(in instanceView, was beforeCrash) {
	is := crashStateOf(in)
	if p := was.hook; p != nil && !p.Zombie && is.hook != p {
		h.fail("%s: its hook %d is alive and not adopted", in.name(), p.Pid)
	}
	a, b := was.machine, is.machine
	if a.State() == fsm.Spawning || in.Run().Exists() && in.Run().Hook().Exists() || a.State() == fsm.TearingDown {
		if a.Desired().Up != b.Desired().Up {
			h.fail("%s: wanted up = %v, it was %v", in.name(), b.Desired().Up, a.Desired().Up)
		}
		return // it may have changed at recovery
	}
	if is, was := recordedOf(in, &b), recordedOf(in, &a); is != was {
		h.fail("%s is recovered as %s; it was %s", in.name(), is, was)
	}
	// Without stop_command in the definition, the stop signal follows, with the whole time-out
	signaled := was.stopCommand && len(in.Run().Program().StopCommand) == 0
	if a.State() == fsm.Stopping && was.stopDeadline != is.stopDeadline && is.stopDeadline > h.v.Now() && !signaled {
		h.fail("%s: the stop time-out is over at %v, it should be at %v", in.name(), is.stopDeadline, was.stopDeadline)
	}
	if a.State() == fsm.Starting && was.startDeadline != is.startDeadline && is.startDeadline > h.v.Now()+2*time.Second {
		h.fail("%s: the start time-out is over at %v, it should be at %v", in.name(), is.startDeadline, was.startDeadline)
	}
	if was.due != is.due && is.due > h.v.Now() {
		h.fail("%s: the next start is due at %v, it should be at %v", in.name(), is.due, was.due)
	}
	if p := was.process; p != nil && !p.Zombie && is.process != p {
		h.fail("%s: its process %d is alive and not adopted", in.name(), p.Pid)
	}
}

// recordedOf returns the part of m that the journal has, apart from texts for people, as text.
func recordedOf(in instanceView, m *fsm.Machine) string {
	v := m.Snapshot()
	v.StartReason, v.StateReason = fsm.SavedReason{}, fsm.SavedReason{}
	v.Outcome, v.Delay, v.DesiredBeforeShutdown = "", 0, nil
	v.RunPending = v.RunPending && in.program().Scheduled()
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if v.Outdated && !in.leaves() {
		return string(text) + ", outdated"
	}
	return string(text)
}

// resyncModels updates the models after superd was killed. The observer does not know what an
// unwritten change led to, so it takes that from the new superd.
func (h *history) resyncModels(before map[string]beforeCrash, pending map[string]bool, all bool) {
	p := &h.policy
	if !inspect(h.sup).shutdownBegun() {
		*p = policyModel{begun: p.begun}
	}
	p.restSince = 0
	p.begun = p.begun && (inspect(h.sup).anyStarted() || !pending[snapshot.SuperdKey])
	for in := range inspect(h.sup).instances() {
		if h.models[in.name()] == nil {
			h.models[in.name()] = &model{}
		}
		model := h.models[in.name()]
		_, known := before[in.name()]
		lost := all || pending[snapshot.InstanceKey(in.name())] || !known || in.leaves()
		model.graph = graphModel{stoppedByOperator: in.finalTarget().By.Is(fsm.ActorOperator) && !in.finalTarget().Up, by: in.target().By}
		if lost {
			model.wantUp, model.since = in.finalTarget().Up && !inspect(h.sup).shutdownBegun(), h.v.Now()
			model.retries, model.startLimitHit = in.Machine().RestartAttempts(), in.Machine().StartLimitHit()
			model.failures = slices.Clone(in.Machine().Failures())
			model.outcomeUncertain = in.state() == fsm.TearingDown
			model.lastRun, model.outdatedRun, model.failed = "", "", in.Machine().Snapshot().Failed
			model.sandboxRun = ""
			model.retrying = in.state() == fsm.Failed && in.RetryPending()
			model.state, model.stateAt = in.state(), h.v.Now()
			if model.exitStatus = in.exitStatus(); in.state().AtRest() {
				model.stateAt = in.stateSince()
			}
		}
		model.in, model.run, model.hook, model.runFailed = in, in.Run(), instance.HookView{}, in.Machine().FailureReason().Kind != fsm.ReasonNone
		if in.Run().Exists() {
			model.lastRun = in.Run().ID()
			if lost && in.Machine().RestartPending() {
				model.outdatedRun, model.restartRequested = model.lastRun, !in.Machine().Outdated()
			}
		}
		model.excusedAt, model.justifiedAt, model.reportJustified = h.v.Now(), h.v.Now(), true
		h.resyncSchedule(in, model, !lost)
		if !inspect(h.sup).shutdownBegun() && in.staysDown() {
			h.recordExitDecision(in, model)
		}
	}
}
