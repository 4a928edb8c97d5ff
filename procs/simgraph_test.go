package procs

import (
	"fmt"
	"slices"
	"strings"

	"superd/config"
)

// lag is how many turns superd may take to see what follows from a change elsewhere in the graph: one, and a few where many are to be looked at.
const lag = 4

// A graphModel is what an observer notes of an instance among the others: since which turn something is so that must not last; 0: it is not so.
type graphModel struct {
	heldDown  bool   // the operator has said so last
	unstuck   int    // turns since it was named as stuck last
	by        string // who wants it up, or down
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
		exists[p.Name] = true
	}
	missing := func(name string) bool { return !exists[name] }
	place := h.rng.Perm(8)
	for i, p := range c.Programs {
		if keep[p] {
			if slices.ContainsFunc(p.Requires, missing) || slices.ContainsFunc(p.After, missing) {
				changed := *p
				changed.Requires = slices.DeleteFunc(slices.Clone(p.Requires), missing)
				changed.After = slices.DeleteFunc(slices.Clone(p.After), missing)
				c.Programs[i] = &changed
			}
			continue
		}
		for j, other := range c.Programs {
			switch {
			case place[j] >= place[i]:
			case h.kernel.chance(h.density):
				p.Requires = append(p.Requires, other.Name)
			case h.kernel.chance(h.density):
				p.After = append(p.After, other.Name)
			}
		}
	}
	for i := 0; i < len(c.Programs) && cyclic(c); i++ {
		if p := c.Programs[i]; len(p.Requires)+len(p.After) > 0 {
			free := *p
			free.Requires, free.After = nil, nil
			c.Programs[i] = &free
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
			other := tableOf(c, name)
			return other != nil && visit(other)
		})
	}
	return slices.ContainsFunc(c.Programs, visit)
}

// named returns what the program of an instance names, as it is in force.
func (h *history) named(in *instance) (requires, after []*instance) {
	table := tableOf(h.sup.config, in.program.Name)
	if table == nil {
		table = in.program
	}
	all := func(names []string) (found []*instance) {
		for _, name := range names {
			found = append(found, h.sup.byName[name])
		}
		return found
	}
	return all(table.Requires), all(table.After)
}

// there reports whether those who require the instance may be started. in may be nil: it is yet to come.
func there(in *instance) bool {
	if in == nil {
		return false
	}
	if in.program.Type == config.TypeOneshot {
		return in.machine.state == Exited
	}
	return in.machine.state == Running
}

// onItsWay reports whether those who come after the instance wait for it.
func onItsWay(in *instance) bool {
	return in != nil && in.machine.wanted.up && !in.machine.state.AtRest() && !there(in)
}

// gone reports whether those who require the instance can't be up either.
func gone(in *instance) bool { return in == nil || in.machine.state.AtRest() && !there(in) }

// lives reports whether something of the instance lives that can be ended.
func lives(in *instance) bool { return in.run != nil && in.stuck == "" }

// going reports whether the instance is to end.
func (h *history) going(in *instance) bool {
	requires, _ := h.named(in)
	return !in.machine.wanted.up || in.machine.again || slices.ContainsFunc(requires, func(r *instance) bool {
		return r == nil || r.level() == down
	})
}

// dependents returns the living ones that have to be down before the instance.
func (h *history) dependents(in *instance) (all []*instance) {
	for _, other := range h.sup.instances {
		requires, after := h.named(other)
		if lives(other) && (slices.Contains(requires, in) || slices.Contains(after, in) && h.going(other)) {
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
	for _, r := range requires {
		if !there(r) {
			h.fail("%s is started before what it requires is ready", name)
		}
	}
	if slices.ContainsFunc(after, onItsWay) {
		h.fail("%s is started before what it comes after is ready", name)
	}
}

// checkGraph holds what the graph says of an instance.
func (h *history) checkGraph(in *instance) {
	model, m := h.models[in.name], in.machine
	if in.run != nil {
		h.begun[in.run.invocationID] = true
	}
	requires, after := h.named(in)
	if strings.HasPrefix(m.wanted.by, operator+forAnother) && m.wanted.by != model.graph.by {
		model.forgive() // he has started somebody who requires it
	}
	model.graph.by = m.wanted.by
	unasked := m.wanted.up && slices.ContainsFunc(requires, func(r *instance) bool {
		return r != nil && !r.machine.wanted.up && !r.removed && r.machine.wanted.by != operator && r.machine.wanted.by != theShutdown
	})
	if h.lasts(&model.graph.unasked, unasked) {
		h.fail("%s is wanted up, and nobody has asked for what it requires", in.name)
	}
	unfounded := m.state == Running || m.state == Spawning && in.run.hook == nil && h.committed(in.run) == nil
	if h.lasts(&model.graph.unfounded, unfounded && slices.ContainsFunc(requires, gone)) {
		h.fail("%s is %s, and what it requires is down", in.name, m.state)
	}
	idle := false
	switch m.state {
	case Lingering:
		idle = len(h.dependents(in)) == 0
	case Waiting:
		free := !slices.ContainsFunc(requires, func(r *instance) bool { return !there(r) }) && !slices.ContainsFunc(after, onItsWay)
		idle = free && (!m.again || len(h.dependents(in)) == 0)
	}
	if h.lasts(&model.graph.idle, idle) {
		h.fail("%s is %s for nobody: %s", in.name, stateNames[m.state], in.reason())
	}
}

// checkStop holds that nobody is stopped before those who require him, and none in a shutdown before those who come after him.
func (h *history) checkStop(in *instance) {
	if h.sup.inHurry() || in.removed && tableOf(h.sup.config, in.program.Name) != nil {
		return
	}
	for _, other := range h.sup.instances {
		requires, after := h.named(other)
		first := slices.Contains(requires, in) || h.sup.shutdown != nil && slices.Contains(after, in)
		if first && lives(other) && h.models[other.name].graph.unstuck != 1 {
			h.fail("%s is stopped while %s is %s", in.name, other.name, stateNames[other.machine.state])
		}
	}
}

// calledUp notes that somebody who is wanted up has asked for what he requires.
func (h *history) calledUp(in *instance) {
	if !in.machine.wanted.up || h.models[in.name].graph.heldDown {
		return
	}
	for _, other := range h.sup.instances {
		if requires, _ := h.named(other); other.machine.wanted.up && slices.Contains(requires, in) {
			h.want(in.name, true)
			return
		}
	}
}

// revived forgives those whom the operator's start of in starts again.
func (h *history) revived(in *instance) {
	requires, _ := h.named(in)
	for _, r := range requires {
		if r == nil || there(r) {
			continue
		}
		if r.machine.wanted.up && r.machine.state.AtRest() {
			h.models[r.name].forgive()
		}
		if r.machine.wanted.up || !h.models[r.name].graph.heldDown {
			h.revived(r)
		}
	}
}

// rightlyWaits reports whether an instance may wait when the faults have ceased long ago.
func (h *history) rightlyWaits(in *instance) bool {
	requires, after := h.named(in)
	return slices.ContainsFunc(requires, func(r *instance) bool { return !there(r) }) || slices.ContainsFunc(after, onItsWay)
}

func showDependencies(c *config.Config) (text []string) {
	for _, p := range c.Programs {
		text = append(text, fmt.Sprintf("%s requires %v after %v", p.Name, p.Requires, p.After))
	}
	return text
}
