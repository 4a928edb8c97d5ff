package instance

import (
	"fmt"
	"strings"
	"time"

	"superd/procs/deps"
	"superd/procs/fsm"
)

// shownHops bounds how many links of a chain of waiting instances a reason shows. Node.WaitsFor has
// all of them.
const shownHops = 3

// BlockedReason returns what blocks the start of the instance. It follows the chain of blockers for
// at most shownHops links.
func (n *node) BlockedReason() fsm.Reason {
	in := n.Owned()
	m := &in.Machine
	e := n.Blocker()
	switch {
	case e == nil && in.Membership.Conflict != nil:
		return fsm.ReasonWaitsForConflict.With(
			fmt.Sprintf("%s is removed, which conflicts with it and is %s",
				in.Membership.Conflict.Name, in.Membership.Conflict.Machine.State()))
	case e != nil:
	case held(in):
		missing, _ := missingSocket(in)
		return fsm.ReasonWaitsForSocket.With(missing)
	case m.RestartPending():
		return fsm.ReasonWaitsForDependents.With(n.remainingDependents() + " down, then restarts")
	default:
		return fsm.Reason{Kind: fsm.ReasonAboutToStart}
	}
	var text strings.Builder
	for hop := range shownHops {
		if hop > 0 {
			text.WriteString(", which waits for ")
		}
		worst, _ := e.Worst()
		text.WriteString(displayName(e, worst))
		next := (*edge)(nil)
		if worst != nil && worst.Machine.State() == fsm.Waiting {
			next = worst.Node.Blocker()
		}
		if next == nil || hop == shownHops-1 {
			text.WriteString(", " + n.describeEdge(e, worst))
			break
		}
		e = next
	}
	if others := n.Unsatisfied() - 1; others > 0 {
		fmt.Fprintf(&text, "; and for %d more", others)
	}
	return fsm.ReasonWaitsForDependency.With(text.String())
}

// displayName returns the name of worst or, if that is nil, of the program at the end of e.
func displayName(e *edge, worst *Instance) string {
	if worst == nil {
		return e.To().Name()
	}
	return worst.Name
}

// describeEdge returns a text about the program at the end of the edge, by its worst instance:
// "which is starting". worst is nil if the program has no instances.
func (n *node) describeEdge(e *edge, worst *Instance) string {
	if worst == nil {
		return "which has no instances: " + n.Owned().Env.Config.NoneReason(e.To().Name())
	}
	return describe(worst)
}

// describe returns the state of the instance as a clause for the reason of another one: "which
// failed: exit status 3 after 12ms".
func describe(in *Instance) string {
	m := &in.Machine
	switch {
	case in.unkillable != "":
		return "which can't be stopped: " + in.unkillable
	case in.Quarantine != nil:
		return "which is " + m.StateReason().String()
	}
	switch m.State() {
	case fsm.Stopped:
		switch {
		case m.Desired().By.Is(fsm.ActorOperator):
			return "which the operator has stopped"
		case m.ExitReason().Kind != fsm.ReasonNone:
			return "which is " + m.StateReason().String()
		}
		return "which is stopped"
	case fsm.Waiting:
		if m.RestartPending() {
			return "which is about to restart"
		}
		return "which is itself waiting"
	case fsm.Exited:
		return "which has exited and stays down: " + m.ExitReason().String()
	case fsm.Failed:
		text := "which failed: " + m.StateReason().String()
		if t := in.restartTimer; t != nil {
			text += "; retried at " + shownTime(in, t.Due())
		}
		return text
	case fsm.Backoff:
		text := "which is in backoff"
		if t := in.restartTimer; t != nil {
			text += " until " + shownTime(in, t.Due())
		}
		return text + ": " + m.ExitReason().String()
	case fsm.Running:
		if in.IsOneShot() {
			return "which has not ended yet"
		}
		return "which is running"
	case fsm.Spawning, fsm.Starting:
		if !in.MustEnd() {
			return "which is starting"
		}
	case fsm.TearingDown:
		if !in.MustEnd() {
			return "which has just ended: " + m.ExitReason().String()
		}
	}
	switch {
	case !m.Desired().Up:
		return "which is being stopped by " + m.Desired().By.String()
	case m.RestartPending():
		return "which is being restarted " + m.StartReason().OfStart()
	case in.Node.Lost():
		return "which must stop, too"
	}
	return "which is stopping"
}

// shownTime returns a time of the loop's clock as a time of day.
func shownTime(in *Instance, at time.Duration) string {
	return in.Env.WallAt(at).Format(time.TimeOnly)
}

// LostRequirement returns the reason for which the instance must stop, and the reason of the
// restart once the requirement is ready again.
func (n *node) LostRequirement() (cause, why fsm.Reason) {
	e := n.Blocker()
	worst, _ := e.Worst()
	name := displayName(e, worst)
	return fsm.ReasonDependencyLost.With(name + ", " + n.describeEdge(e, worst)),
		fsm.ReasonDependencyBack.With(name + " is ready again")
}

// remainingDependents names one dependent that must be down before the instance, and counts the
// others: "web and 3 more are".
func (n *node) remainingDependents() string {
	switch one, others, ok := n.LastDependent(); {
	case ok && others > 0:
		return fmt.Sprintf("%s and %d more are", one.Name, others)
	case ok:
		return one.Name + " is"
	}
	return "others are"
}

// WaitsFor returns one line for each program that blocks the start of the instance. The line
// follows the chain of blockers to its end.
func (n *node) WaitsFor() []string {
	in := n.Owned()
	const shown, ends = 5, 6
	m := &in.Machine
	if m.State() != fsm.Waiting {
		return nil
	}
	var lines []string
	omitted := 0
	for _, first := range n.Edges() {
		if first.Satisfied() {
			continue
		}
		if len(lines) >= shown {
			omitted++
			continue
		}
		var path []string
		visited := map[*deps.Program[*Instance]]bool{}
		last, by := in, first
		for e := first; e != nil && !visited[e.To()]; {
			visited[e.To()] = true
			last, _ = e.Worst()
			by = e
			path = append(path, displayName(e, last))
			if e = nil; last != nil && last.Machine.State() == fsm.Waiting {
				e = last.Node.Blocker()
			}
		}
		if cut := len(path) - 2*ends; cut > 1 {
			path = append(append(path[:ends:ends], fmt.Sprintf("… %d more …", cut)), path[len(path)-ends:]...)
		}
		lines = append(lines, strings.Join(path, ", which waits for ")+", "+n.describeEdge(by, last))
	}
	if omitted > 0 {
		lines = append(lines, fmt.Sprintf("%d more", omitted))
	}
	return lines
}
