package schedule

import "time"

// A State is what a plan must know after a restart of superd: one JSON value for the journal.
type State struct {
	Line         string        `json:"line"`
	BootID       string        `json:"boot_id"` // boot of the machine to which the next four belong
	Boot         time.Duration `json:"boottime"`
	Grid         time.Duration `json:"grid,omitzero"`
	MakeUp       time.Duration `json:"make_up,omitzero"` // when a missed run is due; 0: none
	Wall         time.Time     `json:"wall"`             // when Boot was read
	HandledUntil time.Time     `json:"settled,omitzero"` // all times up to it are handled
}

// Before reports whether s is an earlier state of a plan than o. In one turn of the loop the clocks
// are constant; then the state with fewer handled times is the earlier one.
func (s State) Before(o State) bool {
	if s.Boot != o.Boot || s.Line != o.Line {
		return s.Boot < o.Boot
	}
	return s.Grid < o.Grid || s.HandledUntil.Before(o.HandledUntil)
}

// State returns the state as of the last run, or of the beginning. bootID is the machine's current
// boot.
func (p *Plan) State(bootID string) State {
	s := State{Line: p.spec.Line, BootID: bootID, Boot: p.last.Boot, Wall: p.last.Wall.UTC()}
	if p.cron != nil {
		s.HandledUntil = p.after.UTC()
	} else {
		s.Grid = p.grid
	}
	if p.madeUp && !p.at.IsZero() {
		s.MakeUp = p.due
	}
	return s
}

// RestorePlan returns the plan with that state: what was due since is due now, once. If the state
// is of another line, it returns a new plan.
//
// If the machine was booted since, only the wall clock shows how much time has passed.
func RestorePlan(spec Spec, s State, bootID string, now Reading) (*Plan, error) {
	if s.Line != spec.Line || s.Wall.IsZero() {
		return NewPlan(spec, now)
	}
	p, err := newPlan(spec)
	if err != nil {
		return nil, err
	}
	p.last, p.after, p.grid = Reading{s.Wall, s.Boot}, s.HandledUntil, s.Grid
	if s.BootID != bootID || bootID == "" {
		p.reboot(s, now)
	} else if s.MakeUp != 0 {
		// A restart does not delay it again, and at most by the current jitter.
		p.due, p.madeUp = min(s.MakeUp, now.Boot+spec.Jitter), true
	}
	p.Observe(now)
	return p, nil
}

// reboot converts the state to the current boot.
func (p *Plan) reboot(s State, now Reading) {
	p.last = now
	if p.cron == nil {
		ahead := s.Wall.Add(s.Grid - s.Boot).Sub(now.Wall)
		p.grid = now.Boot + min(ahead, p.every)
	}
}
