package procs

import (
	"fmt"
	"slices"

	"superd/config"
	"superd/procs/deps"
	"superd/procs/fsm"
	"superd/procs/instance"
)

// maxReactionTurns bounds the turns that superd needs to react to a change elsewhere in the graph:
// one, and a few if many instances are queued.
const maxReactionTurns = 4

// A graphModel is what the observer records of an instance in the graph. A uint64 is the turn since
// which a condition holds that must not last; 0: it does not hold.
type graphModel struct {
	stoppedByOperator bool             // whether the operator wanted it down in the last turn
	turnsKillable     int              // turns since it was last reported as unkillable
	by                fsm.Actor        // actor of its desired state
	run               instance.RunView // last run that has begun
	startable         uint64           // a requirement was not requested to start
	requirementDown   uint64           // it runs while a requirement is down
	idle              uint64           // it waits, or its stop is pending, without a blocker
}

// lastsTooLong records whether a condition holds, and reports whether it has held for too long.
func (h *history) lastsTooLong(since *uint64, is bool) bool {
	turn := h.v.Turns()
	switch {
	case !is:
		*since = 0
	case *since == 0:
		*since = turn
	}
	return is && turn > *since+maxReactionTurns
}

// drawDependencies draws requirements and orderings for the programs of a configuration, without a
// cycle, by the density of this history. The programs in keep retain theirs, as far as the named
// programs exist.
func (h *history) drawDependencies(c *config.Config, keep map[*config.Program]bool) {
	exists := map[string]bool{}
	for _, p := range c.Programs {
		exists[p.Name] = p.Schedule == "" // a scheduled program can't be a dependency
	}
	unknown := func(name string) bool { return !exists[name] }
	place := h.rng.Perm(8)
	for i, p := range c.Programs {
		if keep[p] {
			if slices.ContainsFunc(p.Requires, unknown) || slices.ContainsFunc(p.After, unknown) {
				changed := p.Clone()
				changed.Requires = slices.DeleteFunc(slices.Clone(p.Requires), unknown)
				changed.After = slices.DeleteFunc(slices.Clone(p.After), unknown)
				c.Programs[i] = changed
			}
			continue
		}
		p.Requires, p.After = nil, nil
		for j, other := range c.Programs {
			switch {
			case place[j] >= place[i] || other.Schedule != "":
			case h.chance(h.density):
				p.Requires = append(p.Requires, other.Name)
			case h.chance(h.density):
				p.After = append(p.After, other.Name)
			}
		}
	}
	for i := 0; i < len(c.Programs) && cyclic(c); i++ {
		if p := c.Programs[i]; len(p.Requires)+len(p.After) > 0 {
			free := p.Clone()
			free.Requires, free.After = nil, nil
			c.Programs[i] = free
		}
	}
}

// cyclic reports whether a program depends on itself, directly or indirectly.
func cyclic(c *config.Config) bool {
	open := map[string]bool{}
	var visit func(p *config.Program) bool
	visit = func(p *config.Program) bool {
		if open[p.Name] {
			return true
		}
		open[p.Name] = true
		defer delete(open, p.Name)
		return slices.ContainsFunc(slices.Concat(p.Requires, p.After), func(name string) bool {
			other := c.Program(name)
			return other != nil && visit(other)
		})
	}
	return slices.ContainsFunc(c.Programs, visit)
}

// A simGraph caches the dependencies until the configuration, the scales or the instances change.
type simGraph struct {
	config    *config.Config
	scales    int // [history.scaleEdits]
	instances []instanceView
	edges     map[instanceView][2][][]instanceView
	number    int  // changes with each change of the graph
	checked   bool // whether the cache was checked in this turn
}

// refresh clears the cache if the configuration, the scales or the instances have changed.
func (g *simGraph) refresh(h *history) {
	if g.config != inspect(h.sup).config() || g.scales != h.scaleEdits || !sameInstances(g.instances, h.sup) {
		*g = simGraph{
			config: inspect(h.sup).config(), scales: h.scaleEdits,
			instances: slices.Collect(inspect(h.sup).instances()),
			edges:     map[instanceView][2][][]instanceView{}, number: g.number + 1,
		}
	}
}

// sameInstances reports whether the supervisor has these instances.
func sameInstances(all []instanceView, s *Supervisor) bool {
	if len(all) != inspect(s).count() {
		return false
	}
	for i, in := range all {
		if inspect(s).at(i) != in {
			return false
		}
	}
	return true
}

// anyInstance reports whether an instance is such.
func (h *history) anyInstance(is func(instanceView) bool) bool {
	for in := range inspect(h.sup).instances() {
		if is(in) {
			return true
		}
	}
	return false
}

// dependencies returns the instances of each program that the active definition of in names.
func (h *history) dependencies(in instanceView) (requires, after [][]instanceView) {
	g := &h.graph
	if !g.checked {
		g.refresh(h)
	}
	edges, ok := g.edges[in]
	if !ok {
		edges[0], edges[1] = h.computeDependencies(in)
		g.edges[in] = edges
	}
	return edges[0], edges[1]
}

// computeDependencies returns the result of dependencies, without the cache.
func (h *history) computeDependencies(in instanceView) (requires, after [][]instanceView) {
	definition := inspect(h.sup).config().Program(in.program().Name)
	if definition == nil {
		definition = in.program()
	}
	all := func(names []string) (found [][]instanceView) {
		for _, name := range names {
			found = append(found, h.countedInstances(name))
		}
		return found
	}
	return all(definition.Requires), all(definition.After)
}

// countedInstances returns the instances of a program that count for dependents: those that are not
// being removed by a smaller number of replicas.
func (h *history) countedInstances(program string) []instanceView {
	all := inspect(h.sup).of(program)
	if inspect(h.sup).config().Program(program) == nil {
		return all
	}
	return slices.DeleteFunc(all, func(in instanceView) bool { return !h.belongs(in) })
}

// isUp reports whether an instance satisfies its dependents.
func isUp(in instanceView) bool {
	if in.program().Type == config.TypeOneshot {
		return in.state() == fsm.Exited
	}
	return in.state() == fsm.Running
}

// allUp reports whether all instances of a requirement are up.
func allUp(peers []instanceView) bool {
	for _, in := range peers {
		if !isUp(in) {
			return false
		}
	}
	return len(peers) > 0
}

func notAllUp(peers []instanceView) bool { return !allUp(peers) }

// anyComing reports whether programs ordered after these instances have to wait.
func anyComing(peers []instanceView) bool {
	return slices.ContainsFunc(peers, func(in instanceView) bool {
		return in.target().Up && !in.state().AtRest() && !isUp(in)
	})
}

// anyLost reports whether a requirement is lost, so that its dependents can't be up either.
func anyLost(peers []instanceView) bool {
	for _, in := range peers {
		if in.state().AtRest() && !isUp(in) {
			return true
		}
	}
	return len(peers) == 0
}

// anyStartable reports whether a requirement is wanted down, though superd may start it.
func anyStartable(requires [][]instanceView) bool {
	for _, peers := range requires {
		for _, in := range peers {
			target := in.target()
			if !target.Up && !in.leaves() && !target.By.Is(fsm.ActorOperator) && target.By.Kind != fsm.ActorShutdown {
				return true
			}
		}
	}
	return false
}

// isAlive reports whether the instance has a run that can be ended.
func isAlive(in instanceView) bool { return in.Run().Exists() && in.unkillable() == "" }

// isStopping reports whether the instance must stop.
func (h *history) isStopping(in instanceView) bool {
	requires, _ := h.dependencies(in)
	return !in.target().Up || in.restartPending() || in.Machine().Outdated() || slices.ContainsFunc(requires, func(peers []instanceView) bool {
		return len(peers) == 0 || slices.ContainsFunc(peers, func(r instanceView) bool { return r.availability() <= deps.Returning })
	})
}

// contains reports whether all contains the instance.
func contains(all [][]instanceView, in instanceView) bool {
	return slices.ContainsFunc(all, func(peers []instanceView) bool { return slices.Contains(peers, in) })
}

// dependents returns the live instances that have to be down before in.
func (h *history) dependents(in instanceView) (all []instanceView) {
	for other := range inspect(h.sup).instances() {
		requires, after := h.dependencies(other)
		if isAlive(other) && (contains(requires, in) || contains(after, in) && h.isStopping(other)) {
			all = append(all, other)
		}
	}
	return all
}

// checkStart checks that an instance does not start before its dependencies are ready. It is called
// at the first spawn of each run.
func (h *history) checkStart(run string, name string) {
	in := inspect(h.sup).instance(name)
	if h.spawnedRuns[run] || !in.exists() {
		return
	}
	h.spawnedRuns[run] = true
	if h.activatedAnother() {
		h.setScales(inspect(h.sup).scales())
	}
	requires, after := h.dependencies(in)
	if slices.ContainsFunc(requires, notAllUp) {
		h.fail("%s is started before its requirements are ready", name)
	}
	if slices.ContainsFunc(after, anyComing) {
		h.fail("%s is started before its orderings are ready", name)
	}
	for _, other := range h.unreconciledOrderings(in) {
		h.fail("%s is started before %s, after which it is ordered; both were requested at once", name, other)
	}
}

// unreconciledOrderings returns the instances before in that are wanted up and that superd has not
// reconciled yet.
func (h *history) unreconciledOrderings(in instanceView) (names []string) {
	definition := inspect(h.sup).config().Program(in.program().Name)
	if definition == nil || h.adopting {
		return nil
	}
	for _, program := range definition.After {
		for _, name := range h.instanceNames(inspect(h.sup).config().Program(program)) {
			model, other := h.models[name], inspect(h.sup).instance(name)
			if model != nil && model.wantUp && (!other.exists() || !other.leaves() && other.state() == fsm.Stopped) {
				names = append(names, name)
			}
		}
	}
	return names
}

// checkGraph checks an instance against the graph.
func (h *history) checkGraph(in instanceView, w *observedInstance) {
	model, requires, after, by := w.model, w.requires, w.after, w.target.By
	if model.in != in {
		model.graph = graphModel{} // the old one is of another instance of that name
	}
	if w.run.Exists() && w.run != model.graph.run {
		model.graph.run = w.run
		h.spawnedRuns[w.run.ID()] = true
	}
	if by != model.graph.by {
		if by.Kind == fsm.ActorOperator && by.For != "" {
			model.resetFailed() // the operator has started one of its dependents
		}
		model.graph.by = by
	}
	startable := w.target.Up && anyStartable(requires)
	if h.lastsTooLong(&model.graph.startable, startable) {
		h.fail("%s is wanted up, and its requirements were not started", in.name())
	}
	model.graph.stoppedByOperator = !w.target.Up && by.Is(fsm.ActorOperator)
	requirementDown := w.state == fsm.Running ||
		w.state == fsm.Spawning && !w.run.Hook().Exists() && h.committed(w.run) == nil
	requirementDown = requirementDown && slices.ContainsFunc(requires, anyLost)
	if h.lastsTooLong(&model.graph.requirementDown, requirementDown) {
		h.fail("%s is %s, and a requirement is down", in.name(), w.state)
	}
	idle := false
	switch w.state {
	case fsm.StopPending:
		idle = len(h.dependents(in)) == 0
	case fsm.Waiting:
		if in.machineAwaitsTrigger() || slices.ContainsFunc(requires, notAllUp) || slices.ContainsFunc(after, anyComing) {
			break
		}
		occupied := func(other instanceView) bool { return h.precludes(other, in) }
		// During a shutdown nothing starts: such an instance waits for its stop
		lacks, _ := h.lacksSocket(in)
		idle = !lacks && !h.anyInstance(occupied) && (!in.restartPending() || len(h.dependents(in)) == 0) && !in.awaitsStop()
	}
	if h.lastsTooLong(&model.graph.idle, idle) {
		h.fail("%s is %s without a blocker: %s", in.name(), w.state.Name(), in.reason())
	}
}

// precludes reports whether other must be removed, or release a log file, before in may start.
func (h *history) precludes(other, in instanceView) bool {
	sameProgram := config.ProgramOf(other.name()) == config.ProgramOf(in.name())
	return other.leaves() && sameProgram && numbered(other.name()) != numbered(in.name()) ||
		h.drawsOutput && other != in && sharesLogFile(in, other)
}

// checkStop checks that an instance is not stopped before its dependents and, in a shutdown, not
// before the instances ordered after it.
func (h *history) checkStop(in instanceView, before fsm.State) {
	if inspect(h.sup).shutdownHurried() {
		return
	}
	// A stop in this turn may have preceded the shutdown
	ordered := inspect(h.sup).shutdownBegun() && (before != fsm.StopPending || h.policy.shutdownTurn != h.v.Turns())
	for other := range inspect(h.sup).instances() {
		requires, after := h.dependencies(other)
		first := contains(requires, in) || ordered && contains(after, in)
		if first && isAlive(other) && h.models[other.name()].graph.turnsKillable != 1 {
			h.fail("%s is stopped while %s is %s", in.name(), other.name(), other.state().Name())
		}
	}
}

// allowStartForDependent expects the instance to be up if a dependent that is wanted up may have
// started it.
func (h *history) allowStartForDependent(in instanceView) {
	if was := h.models[in.name()].graph; in.target().By.For == "" || was.stoppedByOperator {
		return
	}
	for other := range inspect(h.sup).instances() {
		if requires, _ := h.dependencies(other); other.target().Up && contains(requires, in) {
			h.want(in.name(), true)
			return
		}
	}
}

// resetRequirements resets the failures of the requirements that the operator's start of in starts.
func (h *history) resetRequirements(in instanceView) {
	requires, _ := h.dependencies(in)
	for _, peers := range requires {
		if allUp(peers) {
			continue
		}
		for _, r := range peers {
			desired := r.target()
			if desired.Up && r.state().AtRest() && !isUp(r) {
				h.models[r.name()].resetFailed()
			}
			if desired.Up || !desired.By.Is(fsm.ActorOperator) {
				h.resetRequirements(r)
			}
		}
	}
}

// mayWait reports whether an instance may wait long after the last fault.
func (h *history) mayWait(in instanceView) bool {
	requires, after := h.dependencies(in)
	_, failed := h.lacksSocket(in)
	return failed || slices.ContainsFunc(requires, notAllUp) || slices.ContainsFunc(after, anyComing) ||
		h.anyInstance(func(other instanceView) bool { return h.staysAlive(other) && h.precludes(other, in) })
}

func showDependencies(c *config.Config) (text []string) {
	for _, p := range c.Programs {
		text = append(text, fmt.Sprintf("%s requires %v after %v", p.Name, p.Requires, p.After))
	}
	return text
}
