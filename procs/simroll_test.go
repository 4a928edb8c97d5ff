package procs

import (
	"maps"
	"slices"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/rolling"
	"superd/procs/snapshot"
)

// A rollModel is what the observer knows of the rolling restarts of a history.
type rollModel struct {
	drawn bool // whether programs are rolled
	// As of the last turn:
	rolls map[string]snapshot.Roll // those under way, by program
	up    map[instanceView]bool    // instances that are up, of programs with a roll
	// Programs with a roll that has failed, so that old definitions may be left
	failed map[string]bool
	extras map[instanceView]bool    // instances that are, or were, extra replicas
	staged map[string]time.Duration // when the roll of a program began its present stage
	begun  map[string]bool          // programs with a roll, even one that was over in the same turn
}

// drawRolling draws how a program is rolled.
func (h *history) drawRolling(p *config.Program) {
	if p.Type == config.TypeOneshot || h.chance(0.3) {
		return
	}
	k := config.Rolling{Surge: h.rng.IntN(3), MaxUnavailable: h.rng.IntN(3), AbortOnFailure: h.chance(0.7)}
	if k.Surge+k.MaxUnavailable == 0 {
		k.Surge = 1
	}
	k.Pause = time.Duration(h.pick(0, 0, 1, 20) * float64(time.Second))
	if h.listens.drawn {
		k.WaitTimeout = []time.Duration{0, 10 * time.Second, 2 * time.Minute}[h.listens.rng.IntN(3)]
	}
	p.Rolling, p.DrainTimeout = &k, time.Duration(h.pick(0, 5, 40)*float64(time.Second))
	if h.chance(0.7) {
		p.Replicas = 1 + h.rng.IntN(3)
	}
}

// roll draws a command about rolling restarts.
func (h *history) drawRoll() {
	name := inspect(h.sup).at(h.rng.IntN(inspect(h.sup).count())).name()
	if h.chance(0.7) {
		name = config.ProgramOf(name)
	}
	h.pending++
	done := func(all []CommandResult) {
		h.pending--
		h.logf("roll of %s: %v", name, all)
	}
	var err error
	switch draw := h.rng.IntN(6); draw {
	case 0, 1:
		h.logf("decision %d about the roll of %s", draw, name)
		_, err = h.sup.DecideRoll([]string{name}, RollDecision(draw), done)
	default:
		canary := h.rng.IntN(draw - 1)
		var stopped []string
		for _, in := range inspect(h.sup).selected(name) {
			switch {
			case !in.target().Up && h.listens.drawn && !in.program().Scheduled():
				stopped = append(stopped, in.name())
			case !in.target().Up || in.program().Scheduled():
				h.pending--
				return
			}
		}
		h.logf("roll %s, %d canaries", name, canary)
		h.rolling.begun[config.ProgramOf(name)] = true
		_, err = h.sup.RestartRolling([]string{name}, canary, h.startedByRoll(stopped, done))
	}
	if err != nil {
		h.fail("roll %s: %v", name, err)
	}
}

// startedByRoll returns done of a roll that starts the instances that are stopped, and checks that.
func (h *history) startedByRoll(stopped []string, done func([]CommandResult)) func([]CommandResult) {
	h.commands++
	asked := h.commands
	for _, name := range stopped {
		h.lastCommand[name] = asked
	}
	reloaded := h.reloadedAt
	return func(all []CommandResult) {
		done(all)
		for _, o := range all {
			in := inspect(h.sup).instance(o.Name)
			same := o.OK && slices.Contains(stopped, o.Name) && h.lastCommand[o.Name] == asked && h.reloadedAt == reloaded
			if same && in.exists() && !in.target().Up && in.target().By.Is(fsm.ActorOperator) {
				h.fail("the roll has left %s stopped: %v", o.Name, o)
			}
		}
	}
}

// withExtras returns the names of a program's instances with those of the extra replicas of a roll.
func (h *history) withExtras(p *config.Program, names []string) []string {
	roll := inspect(h.sup).rolls()[p.Name]
	if roll.Stage == snapshot.RollEnds {
		roll.Extra = 0
	}
	return append(slices.Clone(names), config.NumberedNames(p.Name, len(names)+roll.Extra)[len(names):]...)
}

// wasExtra reports whether an instance is an extra replica or was one, before it had to leave or a
// reload made it an ordinary one.
func (h *history) wasExtra(name string) bool {
	in := inspect(h.sup).instance(name)
	if inspect(h.sup).isExtra(name) {
		h.rolling.extras[in] = true
	}
	return h.rolling.extras[in]
}

// rolls reports whether a reload leaves the restart of an instance to a roll.
func (h *history) rolls(in instanceView, c *config.Change) bool {
	m, p := in.Machine(), c.Program
	if k := c.Key("replicas"); k != nil && k.Restart {
		return false
	}
	up := m.State() == fsm.Running && m.Desired().Up && !m.RestartPending() && !m.Outdated()
	return p.Rolling != nil && up && !in.isOneShot() && p.Type != config.TypeOneshot
}

// observeRolls checks the rolls after each turn: one restarts no instance without which fewer are
// up than promised, and none after a failure.
func (h *history) observeRolls() {
	m := &h.rolling
	if !m.drawn {
		return
	}
	rolls := inspect(h.sup).rolls()
	for name, was := range m.rolls {
		if _, under := rolls[name]; !under && was.Failure != "" {
			m.failed[name] = true
		}
	}
	for _, p := range inspect(h.sup).config().Programs {
		// A successor may find the failure and end the roll in its first turn
		m.failed[p.Name] = m.failed[p.Name] || inspect(h.sup).rollFailed(p.Name)
	}
	up := map[instanceView]bool{}
	for name, roll := range rolls {
		h.observeRoll(name, &roll, up)
		m.failed[name] = m.failed[name] || roll.Failure != ""
	}
	m.rolls, m.up = rolls, up
}

// observeRoll is observeRolls for one roll. It adds to up the instances that are up.
func (h *history) observeRoll(name string, roll *snapshot.Roll, up map[instanceView]bool) {
	p := inspect(h.sup).config().Program(name)
	if p == nil || inspect(h.sup).shutdownBegun() {
		return
	}
	names := h.instanceNames(p)
	if was, has := h.rolling.rolls[name]; !has || was.Stage != roll.Stage {
		h.rolling.staged[name] = h.now
	}
	taken, others, now, wanted, failed := []string{}, 0, 0, 0, ""
	for _, in := range inspect(h.sup).of(name) {
		own := slices.Contains(names, in.name())
		h.checkRollWaits(p, roll, in)
		is := in.state() == fsm.Running && !in.isOneShot() && !in.MustEnd() && !in.leaves()
		if own && in.target().Up && !in.staysDown() && !in.leaves() {
			wanted++
		}
		switch before := h.rolling.up[in]; {
		case is:
			up[in] = true
			now++
		// One whose main process has just ended is taken at no cost
		case before && in.target().By.Is(fsm.ActorRoll) && in.Machine().RestartPending() && in.state() != fsm.TearingDown:
			taken = append(taken, in.name())
		case before: // in the same turn, for another reason
			others++
		case (roll.Turns[in.name()].Taken || !own) && (in.state() == fsm.Backoff || in.state() == fsm.Failed) && in.stateSince() < h.now-time.Second:
			failed = in.name()
		}
	}
	if len(taken) == 0 {
		return
	}
	allowed := 1
	if p.Rolling != nil {
		allowed = p.Rolling.MaxUnavailable
	}
	if roll.Extra == 0 {
		allowed = max(allowed, 1)
	}
	if now+others < wanted-allowed {
		h.fail("the roll of %s restarts %v: %d of %d are up, %d may be down: %+v", name, taken, now, wanted, allowed, roll)
	}
	if abort := p.Rolling == nil || p.Rolling.AbortOnFailure; abort && failed != "" {
		h.fail("the roll of %s restarts %v though %s has failed: %+v", name, taken, failed, roll)
	}
}

// checkRollWaits checks that a roll ends when an instance has waited for its start for too long.
func (h *history) checkRollWaits(p *config.Program, roll *snapshot.Roll, in instanceView) {
	limit := p.RollingOrDefault().WaitTimeout
	waits := in.state() == fsm.Waiting && in.target().Up && !in.awaitsSchedule() && !in.leaves()
	if limit == 0 || !waits || roll.Stage != snapshot.RollStarts && roll.Stage != snapshot.RollRestarts {
		return
	}
	since := max(in.stateSince(), h.rolling.staged[p.Name], h.reloadedAt, inspect(h.sup).startedAt())
	if late := h.now - since - limit; late > margin {
		h.fail("the roll of %s goes on, though %s has waited %v longer than it may: %s", p.Name, in.name(), late, in.reason())
	}
}

// checkRolls checks that the rolls survive a crash of superd, if they were written.
func (h *history) checkRolls(pending map[string]bool, reload bool) {
	rolls := inspect(h.sup).rolls()
	names := slices.Sorted(maps.Keys(h.rolling.rolls))
	for _, name := range names {
		was, is := h.rolling.rolls[name], rolls[name]
		if pending[snapshot.RollKey(name)] || reload {
			h.rolling.failed[name] = true // from now on the written roll counts
		} else if !rolling.Resume(was).Is(is) {
			h.fail("the roll of %s is recovered as %+v; it was %+v", name, is, was)
		}
	}
	h.rolling.rolls, h.rolling.up = rolls, map[instanceView]bool{}
}

// checkRollsAtRest checks that no roll is left long after the last fault, except one that waits for
// the operator or for a program that can't come up.
func (h *history) checkRollsAtRest() {
	if inspect(h.sup).shutdownBegun() {
		return
	}
	for name, roll := range inspect(h.sup).rolls() {
		allUp := true
		for _, in := range inspect(h.sup).of(name) {
			allUp = allUp && (!in.target().Up || in.state() == fsm.Running && !in.isOneShot() || in.state() == fsm.Exited)
		}
		if allUp && roll.Stage != snapshot.RollAwaits {
			h.fail("the roll of %s does not end: %+v", name, roll)
		}
		h.pending -= len(h.sup.rolls.all[name].waiting)
	}
}
