package schedule

import "time"

// A State is what a plan must know after superd was started anew: one JSON value for the journal.
type State struct {
	Line    string        `json:"line"`
	BootID  string        `json:"boot_id"` // of the machine's boot to which the next four belong
	Boot    time.Duration `json:"boottime"`
	Grid    time.Duration `json:"grid,omitzero"`
	MakeUp  time.Duration `json:"make_up,omitzero"` // when a run that was missed is due; 0: there is none
	Wall    time.Time     `json:"wall"`             // when Boot was read
	Settled time.Time     `json:"settled,omitzero"`
}

// State returns the state as of the last run, or of the beginning. bootID names the present boot of the machine.
func (p *Plan) State(bootID string) State {
	s := State{Line: p.spec.Line, BootID: bootID, Boot: p.last.Boot, Wall: p.last.Wall.UTC()}
	if p.cron != nil {
		s.Settled = p.after.UTC()
	} else {
		s.Grid = p.grid
	}
	if p.madeUp && !p.at.IsZero() {
		s.MakeUp = p.due
	}
	return s
}

// RestorePlan returns the plan that was in the state: what was due since is due now, once. A state of another line is that of
// another plan, so the plan is then a new one.
//
// If the machine was booted since, only the wall clock can tell how much time has passed.
func RestorePlan(spec Spec, s State, bootID string, now Reading) (*Plan, error) {
	if s.Line != spec.Line || s.Wall.IsZero() {
		return NewPlan(spec, now)
	}
	p, err := newPlan(spec)
	if err != nil {
		return nil, err
	}
	p.last, p.after, p.grid = Reading{s.Wall, s.Boot}, s.Settled, s.Grid
	if s.BootID != bootID || bootID == "" {
		p.reboot(s, now)
	} else if s.MakeUp != 0 {
		p.due, p.madeUp = s.MakeUp, true // it is not put off each time
	}
	p.Observe(now)
	return p, nil
}

// reboot moves the state to the present boot.
func (p *Plan) reboot(s State, now Reading) {
	p.last = now
	if p.cron == nil {
		ahead := s.Wall.Add(s.Grid - s.Boot).Sub(now.Wall)
		p.grid = now.Boot + min(ahead, p.every)
	}
}
