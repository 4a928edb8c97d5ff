package procs

import (
	"fmt"

	"superd/config"
)

// want notes what is wanted of an instance from now on.
func (h *history) want(name string, up bool) {
	m := h.models[name]
	if m == nil {
		m = &model{}
		h.models[name] = m
	}
	m.wantUp, m.since = up, h.v.Now()
}

// command draws one command of the operator.
func (h *history) command() {
	if len(h.sup.instances) == 0 || h.rng.IntN(10) == 9 {
		if h.sup.shutdown == nil {
			h.reload()
		}
		return
	}
	in := h.sup.instances[h.rng.IntN(len(h.sup.instances))]
	name := in.name
	op := []Op{OpStart, OpStop, OpRestart}[h.rng.IntN(3)]
	h.note("%s %s", op, name)
	if op == OpStop || h.sup.refuses(op, in) == "" {
		h.want(name, op != OpStop)
		if op != OpStop && !in.removed {
			h.models[name].forgive()
		}
	}
	h.pending++
	h.asked[name]++
	asked := h.asked[name]
	if _, err := h.sup.Command(op, []string{name}, true, func(outcomes []Outcome) {
		h.pending--
		h.note("%s %s: %v", op, name, outcomes)
		if outcomes[0].OK && h.asked[name] == asked {
			h.journal.checkReply(name, op != OpStop)
		}
	}); err != nil {
		h.fail("%s %s: %v", op, name, err)
	}
}

// reload draws a new configuration.
func (h *history) reload() {
	next := &config.Config{Superd: h.sup.config.Superd}
	if h.kernel.chance(0.2) {
		next.Superd.ExitWhen = h.drawExitWhen()
	}
	old := map[string]*config.Program{}
	for _, p := range h.sup.config.Programs {
		old[p.Name] = p
	}
	for i := range 5 {
		name := fmt.Sprintf("p%d", i)
		switch had := old[name]; {
		case h.kernel.chance(0.2): // not there, or removed
			if had != nil {
				h.want(name, false)
			}
		case had != nil && h.kernel.chance(0.7):
			next.Programs = append(next.Programs, had)
		default:
			p := h.drawProgram(name)
			next.Programs = append(next.Programs, p)
			in := h.sup.byName[name]
			switch {
			case had == nil:
				h.want(name, p.Autostart)
			case in.removed && in.nextWish == nil:
				h.want(name, p.Autostart) // it is yet to take its place
			case h.models[name].wantUp:
				h.want(name, true)
			case p.Autostart && !had.Autostart && in.wish().by != operator:
				h.want(name, true)
			}
		}
	}
	for _, name := range config.Compare(h.sup.config, next).Changed {
		if in := h.sup.byName[name]; in.run != nil && in.program.Scheduled() && programOf(next, name).Scheduled() {
			continue // the run goes on
		} else if !in.removed && in.machine.state != Backoff && h.models[name].wantUp {
			h.models[name].forgive()
		}
	}
	h.note("reload: %v", programNames(next))
	h.file = next
	h.sup.apply(next)
	h.reloaded()
}

// wish returns what is wanted of the instance or of what will take its place.
func (in *instance) wish() wish {
	if in.nextWish != nil {
		return *in.nextWish
	}
	return in.machine.wanted
}

func programNames(c *config.Config) (names []string) {
	for _, p := range c.Programs {
		names = append(names, p.Name)
	}
	return names
}
