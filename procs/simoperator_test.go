package procs

import (
	"fmt"
	"slices"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/snapshot"
)

// want records the expected desired state of an instance.
func (h *history) want(name string, up bool) {
	m := h.models[name]
	if m == nil {
		m = &model{}
		h.models[name] = m
	}
	m.wantUp, m.since = up, h.v.Now()
	if !up && m.restartRequested {
		m.outdatedRun = ""
	}
}

// command draws one command of the operator.
func (h *history) command() {
	switch draw := h.rng.IntN(10); {
	case inspect(h.sup).count() == 0 || draw == 9:
		if !inspect(h.sup).shutdownBegun() {
			h.reload()
		}
		return
	case draw == 8:
		h.scale()
		return
	}
	if h.rolling.drawn && h.chance(0.4) {
		h.drawRoll()
		return
	}
	name := inspect(h.sup).at(h.rng.IntN(inspect(h.sup).count())).name()
	if h.drawsCommands {
		if h.rng.IntN(3) == 0 {
			h.reloadPrograms(name)
			return
		}
	}
	if h.listens.drawn && h.listens.rng.IntN(6) == 0 {
		h.resetFailed(name)
		return
	}
	if h.executes.drawn && h.executes.rng.IntN(2) == 0 {
		h.execute(name)
		return
	}
	op := []Op{OpStart, OpStop, OpRestart}[h.rng.IntN(3)]
	if h.drawsCommands && !h.drawsRestarts && op == OpRestart {
		op = OpStart
	}
	h.logf("%s %s", op, name)
	selected := inspect(h.sup).selected(name)
	if op != OpRestart || !h.beginChecks(selected) {
		for _, in := range selected {
			if op == OpStop || in.refusal(op) == "" {
				h.expectCommand(in, op)
			}
		}
	}
	h.pending++
	h.commands++
	asked := h.commands
	for _, in := range selected {
		h.lastCommand[in.name()] = asked
	}
	h.commanding = true
	defer func() { h.commanding = false }()
	if _, err := h.sup.Command(op, []string{name}, true, func(outcomes []CommandResult) {
		h.pending--
		h.logf("%s %s: %v", op, name, outcomes)
		for _, o := range outcomes {
			if !o.OK {
				h.dropChecks(o.Name, asked)
			}
			if o.OK && h.lastCommand[o.Name] == asked {
				h.journal.checkReply(o.Name, op != OpStop)
			}
		}
	}); err != nil {
		h.fail("%s %s: %v", op, name, err)
	}
}

// resetFailed resets the failures of a program. One that has failed is stopped from then on.
func (h *history) resetFailed(name string) {
	selected := inspect(h.sup).selected(name)
	for _, in := range selected {
		if in.state() == fsm.TearingDown {
			return // its outcome is decided, and the observer does not know it yet
		}
	}
	h.logf("reset-failed %s", name)
	for _, in := range selected {
		if in.state() == fsm.Failed {
			h.want(in.name(), false)
		}
		h.models[in.name()].resetFailed()
	}
	if h.defect.keepsFailures {
		return
	}
	if _, err := ResetFailed(h.sup, []string{name}); err != nil {
		h.fail("reset-failed %s: %v", name, err)
	}
}

// reloadPrograms makes programs reload. Each gets one answer.
func (h *history) reloadPrograms(name string) {
	h.logf("reload %s", name)
	h.pending++
	answers, at, runs := 0, h.v.Now(), map[string]string{}
	for _, in := range inspect(h.sup).selected(name) {
		if r := in.Run(); r.Exists() {
			runs[in.name()] = r.ID()
		}
	}
	if _, err := h.sup.ReloadPrograms([]string{name}, func(outcomes []CommandResult) {
		h.pending--
		for _, o := range outcomes {
			if o.OK {
				h.checkReloaded(o.Name, runs[o.Name], at)
			}
		}
		h.logf("reload %s: %v", name, outcomes)
		if answers++; answers > 1 {
			h.fail("reload %s is answered twice", name)
		}
	}); err != nil {
		h.fail("reload %s: %v", name, err)
	}
}

// scale draws another number of replicas for a program.
func (h *history) scale() {
	programs := inspect(h.sup).config().Programs
	if len(programs) == 0 || inspect(h.sup).shutdownBegun() {
		return
	}
	p := programs[h.rng.IntN(len(programs))]
	n := h.rng.IntN(4)
	if _, rolls := inspect(h.sup).rolls()[p.Name]; rolls || p.Log.File != "" && n > 0 {
		return // refused
	}
	h.logf("scale %s=%d", p.Name, n)
	before, desired := h.instanceNames(p), inspect(h.sup).desiredFor(p.Name)
	if len(before) == 0 {
		desired = &fsm.Target{Up: true, By: fsm.By(fsm.ActorOperator)}
	}
	switch {
	case n == len(before):
	case n == p.Replicas && n != 1: // the configuration has numbered instances, too
		h.setScale(p.Name, -1)
	default:
		h.setScale(p.Name, n)
	}
	h.expectNames(p, desired, h.instanceNames(p))
	h.pending++
	if _, err := h.sup.Scale([]Scaling{{p.Name, n}}, true, func(all []ScaleResult) {
		h.pending--
		h.logf("scale %s=%d: %v", p.Name, n, all)
		if _, ok := h.journal.values[snapshot.ScaleKey(p.Name)]; ok != (inspect(h.sup).scales()[p.Name] != snapshot.Scale{}) && !h.journal.queued(snapshot.ScaleKey(p.Name)) {
			h.fail("%s: the operator was answered before the scale was written", p.Name)
		}
	}); err != nil {
		h.fail("scale %s=%d: %v", p.Name, n, err)
	}
}

// setScale sets the operator's scale of a program; negative: none.
func (h *history) setScale(program string, n int) {
	if h.scaleEdits++; n < 0 {
		delete(h.scales, program)
	} else {
		h.scales[program] = n
	}
}

// instanceNames returns the names of the instances that a program has by scale or configuration.
func (h *history) instanceNames(p *config.Program) []string {
	if n, ok := h.scales[p.Name]; ok {
		return config.NumberedNames(p.Name, n)
	}
	return p.Instances()
}

// expectNames records the expected desired states of a program's instances when it has those names.
// desired is that of new ones; nil: that of the configuration.
func (h *history) expectNames(p *config.Program, desired *fsm.Target, names []string) {
	stays := h.withExtras(p, names)
	for _, in := range inspect(h.sup).of(p.Name) {
		if !slices.Contains(stays, in.name()) {
			h.want(in.name(), false)
		}
	}
	up := p.Autostart
	if desired != nil {
		up = desired.Up
	}
	for _, name := range names {
		switch in := inspect(h.sup).instance(name); {
		case !in.exists(), in.leaves() && !in.hasReplacement():
			h.want(name, up)
			delete(h.lastCommand, name) // the last command was for another instance of that name
		// Its replacement does not exist yet
		case in.leaves() && !in.hasReplacementTarget():
			h.want(name, p.Autostart)
		}
	}
}

// reload draws a new configuration.
func (h *history) reload() {
	next := &config.Config{Superd: inspect(h.sup).config().Superd}
	if h.chance(0.2) {
		next.Superd.ExitWhen = h.drawExitWhen()
	}
	for i := range 5 {
		name := fmt.Sprintf("p%d", i)
		switch had := inspect(h.sup).config().Program(name); {
		case h.chance(0.2): // not added, or removed
		case had != nil && h.chance(0.5):
			next.Programs = append(next.Programs, had)
		case had != nil && h.chance(0.7):
			next.Programs = append(next.Programs, h.alterProgram(had))
		default:
			next.Programs = append(next.Programs, h.drawProgram(name))
		}
	}
	keep := map[*config.Program]bool{}
	for _, p := range inspect(h.sup).config().Programs {
		keep[p] = true
	}
	h.drawDependencies(next, keep)
	separateLogFiles(next, keep)
	h.drawSockets(next, inspect(h.sup).config(), keep)
	diff := config.Compare(inspect(h.sup).config(), next)
	for i := range diff.Programs {
		h.expectChange(&diff.Programs[i])
	}
	h.logf("reload: %v", showDependencies(next))
	h.file, h.reloadedAt = next, h.v.Now()
	h.listens.forgetRemoved(next)
	if h.defect.reload != nil {
		h.defect.reload(h, &diff)
	}
	untouched := h.untouched(&diff)
	inspect(h.sup).apply(next, diff)
	for in, was := range untouched {
		if in.state() != was.state || in.Run() != was.run {
			h.fail("%s was %s and is %s after a reload that does not concern it, or is to be applied live", in.name(), was.state, in.state())
		}
	}
	h.observeReload()
}

// A stateAndRun is the state and run of an instance.
type stateAndRun struct {
	state fsm.State
	run   instance.RunView
}

// untouched returns the instances that a reload must not stop, start or restart.
func (h *history) untouched(diff *config.Diff) map[instanceView]stateAndRun {
	all := map[instanceView]stateAndRun{}
	for in := range inspect(h.sup).instances() {
		program := h.file.Program(in.program().Name)
		c := diff.Of(in.program().Name)
		if program == nil || c == nil || in.leaves() || !slices.Contains(h.instanceNames(program), in.name()) {
			continue
		}
		same := program == in.program()
		if r := in.Run(); r.Exists() && !same && in.state() == fsm.Running {
			change := config.CompareProgram(r.Program(), program)
			same = !change.Restarts() || h.rolls(in, c)
		}
		if same {
			all[in] = stateAndRun{in.state(), in.Run()}
		}
	}
	return all
}

// expectChange records the expected desired states after a change of a program.
func (h *history) expectChange(c *config.Change) {
	p := c.Program
	switch c.Kind {
	case config.Unchanged:
	case config.ProgramRemoved:
		h.setScale(c.Name, -1)
		for _, in := range inspect(h.sup).of(c.Name) {
			h.want(in.name(), false)
		}
	case config.ProgramAdded:
		h.expectNames(p, nil, p.Instances())
	default:
		desired := inspect(h.sup).desiredFor(c.Name)
		if c.Key("replicas") != nil || p.Log.File != "" && h.scales[c.Name] > 0 {
			h.setScale(c.Name, -1)
		}
		names := h.instanceNames(p)
		h.expectNames(p, desired, names)
		for _, in := range inspect(h.sup).of(c.Name) {
			if in.leaves() || !slices.Contains(h.withExtras(p, names), in.name()) {
				continue
			}
			model := h.models[in.name()]
			model.excusedAt = h.v.Now() // its time-outs may have changed
			model.outcomeUncertain = model.outcomeUncertain || in.state() == fsm.TearingDown
			starts := !model.wantUp && (p.Autostart && !in.program().Autostart && !in.target().By.Is(fsm.ActorOperator) || p.Scheduled() && in.target().By.Is(fsm.ActorUnscheduled))
			if model.wantUp && in.state() == fsm.Waiting && !in.Machine().RunPending() && fsm.Unschedules(in.program(), p) {
				h.want(in.name(), false)
			}
			if starts {
				h.want(in.name(), true)
			}
			restarts := !in.Run().Exists() && c.Restarts()
			if in.Run().Exists() {
				change := config.CompareProgram(in.Run().Program(), p)
				restarts = change.Restarts()
			}
			if in.Run().Exists() && in.program().Scheduled() && p.Scheduled() {
				restarts = false // the run continues
			}
			if h.rolls(in, c) {
				restarts = false // later
			}
			if restarts && model.wantUp && (in.state() != fsm.Backoff || starts) {
				model.resetFailed()
				if in.Run().Exists() {
					model.outdatedRun, model.restartRequested = in.Run().ID(), false
				}
			}
		}
	}
}

// alterProgram draws a definition that shares some keys with the old one.
func (h *history) alterProgram(had *config.Program) *config.Program {
	p, other := had.Clone(), h.drawProgram(had.Name)
	for range 1 + h.rng.IntN(3) {
		switch h.rng.IntN(11) {
		case 0:
			p.Restart = other.Restart
			if p.Type == config.TypeOneshot && p.Restart == config.RestartAlways {
				p.Restart = config.RestartNever
			}
		case 1:
			p.SuccessExitCodes = other.SuccessExitCodes
		case 2:
			p.Backoff.Max = time.Duration(h.pick(1, 60) * float64(time.Second))
		case 3:
			p.StartLimit = other.StartLimit
		case 4:
			p.StartTimeout, p.StopTimeout = other.StartTimeout, other.StopTimeout
		case 5:
			p.KillMode = other.KillMode
		case 6:
			p.PreStart, p.PostStop = other.PreStart, other.PostStop
		case 7:
			p.Autostart, p.Essential = other.Autostart, other.Essential
		case 8:
			p.Replicas = h.rng.IntN(4)
		case 10:
			if p.Schedule = ""; p.Type == config.TypeOneshot && h.chance(0.7) {
				h.drawSchedule(p)
			}
		case 9:
			p.Environment = map[string]string{"N": fmt.Sprint(h.rng.IntN(3))}
		}
	}
	if h.drawsOutput && h.chance(0.3) {
		h.drawOutput(p)
	}
	if h.drawsStops && h.chance(0.3) {
		h.drawStops(p)
	}
	if h.files.drawn && h.files.rng.IntN(3) == 0 {
		h.drawWatch(p)
	}
	if h.rolling.drawn && h.chance(0.3) {
		p.Rolling, p.DrainTimeout = other.Rolling, other.DrainTimeout
		if p.Type == config.TypeOneshot {
			p.Rolling = nil
		}
	}
	return p
}
