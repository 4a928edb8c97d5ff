package procs

import (
	"fmt"
	"strings"
	"time"
)

// shownHops bounds how far a reason follows who waits for whom; [Facts] have all of it.
const shownHops = 3

// waitReason tells what keeps the instance from being started, and in a few steps the cause of that.
func (in *instance) waitReason() string {
	m := &in.machine
	e := in.obstacle()
	switch {
	case e == nil && in.hinderer != nil:
		return fmt.Sprintf("waits until %s is gone, in whose place it comes and which is %s", in.hinderer.name, in.hinderer.machine.state)
	case e != nil:
	case m.again:
		return "waits until " + in.lastUsers() + " down, to be started anew"
	default:
		return "about to be started"
	}
	var text strings.Builder
	for hop := range shownHops {
		if hop > 0 {
			text.WriteString(", which ")
		}
		worst := e.worst()
		text.WriteString("waits for " + e.to.called(worst))
		next := (*edge)(nil)
		if worst != nil && worst.machine.state == Waiting {
			next = worst.obstacle()
		}
		if next == nil || hop == shownHops-1 {
			text.WriteString(", " + e.predicament(worst))
			break
		}
		e = next
	}
	if others := m.required[down] + m.required[paused] + m.required[coming] + m.ahead[down] + m.ahead[paused] + m.ahead[coming] - 1; others > 0 {
		fmt.Fprintf(&text, "; and for %d more", others)
	}
	return text.String()
}

// obstacle returns the edge to what keeps the instance from being started, the least hopeful one; nil if nothing does.
func (in *instance) obstacle() (worst *edge) {
	if !in.machine.short() {
		return nil
	}
	for _, e := range in.edges {
		if e.met() {
			continue
		}
		if worst == nil || e.level() < worst.level() {
			worst = e
		}
		if e.level() == down && !e.order {
			return e
		}
	}
	return worst
}

// met reports whether nobody need wait for the edge's sake.
func (e *edge) met() bool { return e.level() >= up }

// level is how far the program is up, as far as that concerns the edge: levelCount where it is about an order, and nobody is on his way.
func (e *edge) level() level {
	if e.order {
		return e.to.seen.ahead
	}
	return e.to.seen.level
}

// worst returns the instance that is farthest from being up, of those that concern the edge; nil if there is none.
func (e *edge) worst() (worst *instance) {
	for _, in := range e.to.instances {
		if e.order && !in.published.holding {
			continue
		}
		if worst == nil || in.published.level < worst.published.level {
			worst = in
		}
	}
	return worst
}

// called names the program, or the one of its instances that matters.
func (n *node) called(in *instance) string {
	if in == nil {
		return n.name
	}
	return in.name
}

// predicament tells what the program does that the edge leads to, by the one of its instances that matters; nil if it has none.
func (e *edge) predicament(in *instance) string {
	if in == nil {
		return "which has no instances: " + e.from.sup.emptied(e.to.name)
	}
	return in.predicament()
}

// predicament tells what the instance does that others wait for: "which failed: exit status 3 after 12ms".
func (in *instance) predicament() string {
	m := &in.machine
	switch {
	case in.stuck != "":
		return "which can't be stopped: " + in.stuck
	case in.held != nil:
		return "which is " + m.cause
	}
	switch m.state {
	case Stopped:
		switch {
		case m.wanted.by == operator:
			return "which the operator has stopped"
		case m.ending != "":
			return "which is " + m.cause
		}
		return "which is stopped"
	case Waiting:
		if m.again {
			return "which is about to be started anew"
		}
		return "which waits in turn"
	case Exited:
		return "which has ended and stays down: " + m.ending
	case Failed:
		text := "which failed: " + m.cause
		if t := in.restartTimer; t != nil {
			text += "; tried again at " + in.shownTime(t.Due())
		}
		return text
	case Backoff:
		text := "which is in back-off"
		if t := in.restartTimer; t != nil {
			text += " until " + in.shownTime(t.Due())
		}
		return text + ": " + m.ending
	case Running:
		if in.isOneShot() {
			return "which has not ended yet"
		}
		return "which is running"
	case Spawning, Starting:
		if !m.unwanted() {
			return "which is starting"
		}
	case Clearing:
		if !m.unwanted() {
			return "which has just ended: " + m.ending
		}
	}
	switch {
	case !m.wanted.up:
		return "which is being stopped by " + m.wanted.by
	case m.again:
		return "which is being restarted " + m.why
	case m.lacking():
		return "which has to stop, too"
	}
	return "which is stopping"
}

// shownTime shows a time on the loop's clock as one of the day.
func (in *instance) shownTime(at time.Duration) string {
	return in.sup.wallAt(at).Format(time.TimeOnly)
}

// loss tells what the instance requires and has lost, and what brings it back.
func (in *instance) loss() (cause, why string) {
	e := in.obstacle()
	worst := e.worst()
	name := e.to.called(worst)
	return "it requires " + name + ", " + e.predicament(worst), "again, as " + name + " is back"
}

// lastUsers names one of those who have to be down before the instance, and counts the others: "web and 3 more are".
func (in *instance) lastUsers() string {
	n := in.machine.own
	others := n.users + n.leaving - 1
	for _, e := range n.edges {
		if s := e.from.published; e.order && !s.going || !s.alive {
			continue
		}
		if others > 0 {
			return fmt.Sprintf("%s and %d more are", e.from.name, others)
		}
		return e.from.name + " is"
	}
	return "others are"
}

// waitsFor tells, line by line, what the instance waits for and what that waits for, down to the cause.
func (in *instance) waitsFor() []string {
	const shown, ends = 5, 6
	m := &in.machine
	if m.state != Waiting {
		return nil
	}
	var lines []string
	left := 0
	for _, first := range in.edges {
		if first.met() {
			continue
		}
		if len(lines) >= shown {
			left++
			continue
		}
		var path []string
		met := map[*node]bool{}
		last, by := in, first
		for e := first; e != nil && !met[e.to]; {
			met[e.to] = true
			last, by = e.worst(), e
			path = append(path, e.to.called(last))
			if e = nil; last != nil && last.machine.state == Waiting {
				e = last.obstacle()
			}
		}
		if cut := len(path) - 2*ends; cut > 1 {
			path = append(append(path[:ends:ends], fmt.Sprintf("… %d more …", cut)), path[len(path)-ends:]...)
		}
		lines = append(lines, strings.Join(path, ", which waits for ")+", "+by.predicament(last))
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("%d more", left))
	}
	return lines
}
