package procs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"superd/config"
)

// lag is how many turns superd may take to see what follows from a change elsewhere in the graph: one, and a few where many are to be looked at.
const lag = 4

// A graphModel is what an observer notes of an instance among the others: since which turn something is so that must not last; 0: it is not so.
type graphModel struct {
	heldDown  bool   // the operator wanted it down when it was looked at last
	unstuck   int    // turns since it was named as stuck last
	by        string // who wants it up, or down
	run       *run   // that has begun
	unasked   uint64 // what it requires has not been asked for
	unfounded uint64 // it runs, and what it requires is down
	idle      uint64 // it waits, or lingers, for nobody
}

// lasts notes whether something is so and reports whether it has lasted too long.
func (h *history) lasts(since *uint64, is bool) bool {
	turn := h.v.Turns()
	switch {
	case !is:
		*since = 0
	case *since == 0:
		*since = turn
	}
	return is && turn > *since+lag
}

// drawDependencies has the programs of a configuration name others, without a cycle, by the density of this history. Those in keep stay as they are,
// as far as those whom they name are there.
func (h *history) drawDependencies(c *config.Config, keep map[*config.Program]bool) {
	exists := map[string]bool{}
	for _, p := range c.Programs {
		exists[p.Name] = p.Schedule == "" // for one that has a schedule nobody can wait
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
			case h.kernel.chance(h.density):
				p.Requires = append(p.Requires, other.Name)
			case h.kernel.chance(h.density):
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

// cyclic reports whether somebody waits for himself in the end.
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

// A simGraph is who names whom, as long as the configuration, the scales and the instances stay the same.
type simGraph struct {
	config    *config.Config
	scales    map[string]int
	instances []*instance
	edges     map[*instance][2][][]*instance
	number    int  // another one whenever something has changed
	checked   bool // that it is the same still, as nothing changes now
}

// renew begins anew where something has changed.
func (g *simGraph) renew(h *history) {
	same := len(g.scales) == len(h.scales) && (len(h.scales) == 0 || maps.Equal(g.scales, h.scales))
	if g.config != h.sup.config || !same || !slices.Equal(g.instances, h.sup.instances) {
		*g = simGraph{h.sup.config, maps.Clone(h.scales), slices.Clone(h.sup.instances), map[*instance][2][][]*instance{}, g.number + 1, false}
	}
}

// named returns what the program of an instance names, as it is in force: the instances of each.
func (h *history) named(in *instance) (requires, after [][]*instance) {
	g := &h.graph
	if !g.checked {
		g.renew(h)
	}
	edges, ok := g.edges[in]
	if !ok {
		edges[0], edges[1] = h.drawn(in)
		g.edges[in] = edges
	}
	return edges[0], edges[1]
}

// drawn finds what named returns.
func (h *history) drawn(in *instance) (requires, after [][]*instance) {
	table := h.sup.config.Program(in.program.Name)
	if table == nil {
		table = in.program
	}
	all := func(names []string) (found [][]*instance) {
		for _, name := range names {
			found = append(found, h.peers(name))
		}
		return found
	}
	return all(table.Requires), all(table.After)
}

// peers returns the instances of a program that count for others: not those that go while it stays.
func (h *history) peers(program string) []*instance {
	all := slices.Clone(h.sup.instancesOf(program))
	if h.sup.config.Program(program) == nil {
		return all
	}
	return slices.DeleteFunc(all, func(in *instance) bool { return !h.belongs(in) })
}

// isUp reports whether an instance lets those start who require it.
func isUp(in *instance) bool {
	if in.program.Type == config.TypeOneshot {
		return in.machine.state == Exited
	}
	return in.machine.state == Running
}

// there reports whether those who require a program may be started.
func there(peers []*instance) bool {
	return len(peers) > 0 && !slices.ContainsFunc(peers, func(in *instance) bool { return !isUp(in) })
}

func missing(peers []*instance) bool { return !there(peers) }

// onItsWay reports whether those who come after a program wait for it.
func onItsWay(peers []*instance) bool {
	return slices.ContainsFunc(peers, func(in *instance) bool {
		return in.machine.wanted.up && !in.machine.state.AtRest() && !isUp(in)
	})
}

// gone reports whether those who require a program can't be up either.
func gone(peers []*instance) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(in *instance) bool { return in.machine.state.AtRest() && !isUp(in) })
}

// lives reports whether something of the instance lives that can be ended.
func lives(in *instance) bool { return in.run != nil && in.stuck == "" }

// going reports whether the instance is to end.
func (h *history) going(in *instance) bool {
	requires, _ := h.named(in)
	m := &in.machine
	return !m.wanted.up || m.again || m.stale || slices.ContainsFunc(requires, func(peers []*instance) bool {
		return len(peers) == 0 || slices.ContainsFunc(peers, func(r *instance) bool { return r.level() == down })
	})
}

// among reports whether the instance is one of those.
func among(all [][]*instance, in *instance) bool {
	return slices.ContainsFunc(all, func(peers []*instance) bool { return slices.Contains(peers, in) })
}

// dependents returns the living ones that have to be down before the instance.
func (h *history) dependents(in *instance) (all []*instance) {
	for _, other := range h.sup.instances {
		requires, after := h.named(other)
		if lives(other) && (among(requires, in) || among(after, in) && h.going(other)) {
			all = append(all, other)
		}
	}
	return all
}

// checkStart holds that nobody is started before what he waits for is ready. It is called at the first spawn of each run.
func (h *history) checkStart(run string, name string) {
	in := h.sup.byName[name]
	if h.begun[run] || in == nil {
		return
	}
	h.begun[run] = true
	requires, after := h.named(in)
	if slices.ContainsFunc(requires, missing) {
		h.fail("%s is started before what it requires is ready", name)
	}
	if slices.ContainsFunc(after, onItsWay) {
		h.fail("%s is started before what it comes after is ready", name)
	}
	for _, other := range h.yetToCome(in) {
		h.fail("%s is started before %s, which it comes after and which was asked for at the same time", name, other)
	}
}

// yetToCome returns those whom the instance comes after and who are wanted up, though superd has not come to that yet.
func (h *history) yetToCome(in *instance) (names []string) {
	table := h.sup.config.Program(in.program.Name)
	if table == nil || h.adopting {
		return nil
	}
	for _, program := range table.After {
		for _, name := range h.instanceNames(h.sup.config.Program(program)) {
			model, other := h.models[name], h.sup.byName[name]
			if model != nil && model.wantUp && (other == nil || !other.removed && other.machine.state == Stopped) {
				names = append(names, name)
			}
		}
	}
	return names
}

// checkGraph holds what the graph says of an instance.
func (h *history) checkGraph(in *instance, w *watched) {
	m, model, requires, after := &in.machine, w.model, w.requires, w.after
	if in.run != nil && in.run != model.graph.run {
		model.graph.run = in.run
		h.begun[in.run.invocationID] = true
	}
	if strings.HasPrefix(m.wanted.by, operator+forAnother) && m.wanted.by != model.graph.by {
		model.forgive() // he has started somebody who requires it
	}
	model.graph.by = m.wanted.by
	unasked := m.wanted.up && slices.ContainsFunc(requires, func(peers []*instance) bool {
		return slices.ContainsFunc(peers, func(r *instance) bool {
			return !r.machine.wanted.up && !r.removed && r.machine.wanted.by != operator && r.machine.wanted.by != theShutdown
		})
	})
	if h.lasts(&model.graph.unasked, unasked) {
		h.fail("%s is wanted up, and nobody has asked for what it requires", in.name)
	}
	model.graph.heldDown = !m.wanted.up && m.wanted.by == operator
	unfounded := m.state == Running || m.state == Spawning && in.run.hook == nil && h.committed(in.run) == nil
	if h.lasts(&model.graph.unfounded, unfounded && slices.ContainsFunc(requires, gone)) {
		h.fail("%s is %s, and what it requires is down", in.name, m.state)
	}
	idle := false
	switch m.state {
	case Lingering:
		idle = len(h.dependents(in)) == 0
	case Waiting:
		occupied := func(other *instance) bool {
			return other.removed && programOf(other.name) == programOf(in.name) && numbered(other.name) != numbered(in.name)
		}
		free := !slices.ContainsFunc(h.sup.instances, occupied) && !slices.ContainsFunc(requires, missing) && !slices.ContainsFunc(after, onItsWay)
		idle = free && !m.awaitsSchedule() && (!m.again || len(h.dependents(in)) == 0)
	}
	if h.lasts(&model.graph.idle, idle) {
		h.fail("%s is %s for nobody: %s", in.name, stateNames[m.state], in.reason())
	}
}

// checkStop holds that nobody is stopped before those who require him, and none in a shutdown before those who come after him.
func (h *history) checkStop(in *instance, before State) {
	if h.sup.inHurry() {
		return
	}
	// One that was to be stopped anyhow may have been, in this turn, before the shutdown began.
	ordered := h.sup.shutdown != nil && (before != Lingering || h.policy.seenIn != h.v.Turns())
	for _, other := range h.sup.instances {
		requires, after := h.named(other)
		first := among(requires, in) || ordered && among(after, in)
		if first && lives(other) && h.models[other.name].graph.unstuck != 1 {
			h.fail("%s is stopped while %s is %s", in.name, other.name, stateNames[other.machine.state])
		}
	}
}

// calledUp notes that somebody who is wanted up has asked for what he requires.
func (h *history) calledUp(in *instance) {
	if was := h.models[in.name].graph; !strings.Contains(in.machine.wanted.by, forAnother) || was.heldDown {
		return
	}
	for _, other := range h.sup.instances {
		if requires, _ := h.named(other); other.machine.wanted.up && among(requires, in) {
			h.want(in.name, true)
			return
		}
	}
}

// revived forgives those whom the operator's start of in starts again.
func (h *history) revived(in *instance) {
	requires, _ := h.named(in)
	for _, peers := range requires {
		if there(peers) {
			continue
		}
		for _, r := range peers {
			w := r.machine.wanted
			if w.up && r.machine.state.AtRest() && !isUp(r) {
				h.models[r.name].forgive()
			}
			if w.up || w.by != operator {
				h.revived(r)
			}
		}
	}
}

// rightlyWaits reports whether an instance may wait when the faults have ceased long ago.
func (h *history) rightlyWaits(in *instance) bool {
	requires, after := h.named(in)
	return slices.ContainsFunc(requires, missing) || slices.ContainsFunc(after, onItsWay)
}

func showDependencies(c *config.Config) (text []string) {
	for _, p := range c.Programs {
		text = append(text, fmt.Sprintf("%s requires %v after %v", p.Name, p.Requires, p.After))
	}
	return text
}
