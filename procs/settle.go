package procs

import (
	"slices"
	"strings"

	"superd/config"
)

// maxSettled bounds how many instances are looked at in one turn.
const maxSettled = 256

// touch has the instance looked at, after the turn's other work.
func (in *instance) touch() {
	if in.touched {
		return
	}
	in.touched = true
	s := in.sup
	s.unsettled = append(s.unsettled, in)
	if len(s.unsettled) == 1 {
		s.scope.Post(s.settle)
	}
}

// settle looks at those whose situation has changed, in the order in which it did.
func (s *Supervisor) settle() {
	batch := s.unsettled[:min(len(s.unsettled), maxSettled)]
	s.unsettled = slices.Clone(s.unsettled[len(batch):])
	waiting := len(s.unsettled) > 0
	s.settling = true
	for _, in := range batch {
		in.touched = false
		if !in.scope.Closed() {
			in.settle()
		}
	}
	s.settling = false
	if waiting {
		s.scope.Post(s.settle)
	}
	if len(s.unsettled) == 0 {
		asked := s.asked
		s.asked = nil
		for _, in := range asked {
			in.asked = false
			in.settleWaiters()
		}
		s.endIfAllEnded()
		s.changed()
	}
}

// unclear reports whether others are about to be looked at, so that who has asked for the instance can't be told yet what becomes of it. He is then.
func (s *Supervisor) unclear(in *instance) bool {
	if !s.settling && len(s.unsettled) == 0 {
		return false
	}
	if len(in.waiters) > 0 && !in.asked {
		in.asked = true
		s.asked = append(s.asked, in)
	}
	return true
}

// settle does what follows for the instance from how the others are, whatever has happened before. It is all there is to ordered starts, stops and restarts.
func (in *instance) settle() {
	in.publish()
	m := &in.machine
	if m.wanted.up && m.unasked > 0 && in.held == nil {
		in.askFor()
	}
	switch m.state {
	case Waiting:
		if !m.blocked() || m.again && m.lastLeft() {
			in.do(m.freed)
		} else {
			in.settleWaiters() // it may wait for something else now
		}
	case Spawning, Starting, Running:
		if m.lacking() && m.wanted.up && !m.again {
			cause, why := in.loss()
			in.do(func() []Effect { return m.block(cause, why) })
		}
	case Lingering:
		switch {
		case !m.unwanted():
			in.do(m.stay)
		case m.lastLeft():
			in.do(m.leave)
		}
	}
	in.settleWaiters()
}

// askFor has started what the instance requires and nobody has asked for. What the operator holds down stays down.
func (in *instance) askFor() {
	by, _, _ := strings.Cut(in.machine.wanted.by, forAnother)
	by += forAnother + in.name
	for _, e := range in.edges {
		if e.order || !e.to.seen.unasked {
			continue
		}
		for _, other := range slices.Clone(e.to.instances) {
			if other.published.unasked {
				other.do(func() []Effect { return other.machine.wantUp(by, false) })
			}
		}
	}
}

// forAnother stands between who wants an instance up and the one for whose sake.
const forAnother = ", for "

// revive starts again what the operator's start of in needs and what stays down by itself, all along the way.
func (s *Supervisor) revive(in *instance) {
	seen := map[*node]bool{}
	for open := []*instance{in}; len(open) > 0; {
		next := open[len(open)-1]
		open = open[:len(open)-1]
		for _, e := range next.edges {
			if e.order || seen[e.to] || e.to.seen.level == up {
				continue
			}
			seen[e.to] = true
			for _, other := range slices.Clone(e.to.instances) {
				m := &other.machine
				if m.wanted.up && m.state.AtRest() && other.level() != up && other.held == nil {
					other.do(func() []Effect { return m.wantUp(operator+forAnother+in.name, true) })
				}
				if m.wanted.up || other.published.unasked {
					open = append(open, other)
				}
			}
		}
	}
}

func (in *instance) isOneShot() bool { return in.program.Type == config.TypeOneshot }
