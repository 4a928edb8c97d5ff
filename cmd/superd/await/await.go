// Package await decides when instances are as a person waits for them to be.
package await

import (
	"fmt"
	"strings"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
	"superd/internal/words"
)

// A Condition is a condition that all instances must meet.
type Condition struct {
	Name   string
	met    func(s *control.Status, before *control.Exit) bool
	last   []control.Status
	before map[string]*control.Exit // ends of runs at the begin of the wait, by instance
}

// conditions have for each condition whether an instance meets it. before is the end of its last
// run at the begin of the wait.
var conditions = []struct {
	name string
	met  func(s *control.Status, before *control.Exit) bool
}{
	{"ready", func(s *control.Status, _ *control.Exit) bool { return s.Up() }},
	{"healthy", func(s *control.Status, _ *control.Exit) bool { return s.Up() && s.Healthy != nil && *s.Healthy }},
	{"stopped", func(s *control.Status, _ *control.Exit) bool { return rests(s) }},
	{"exited", func(s *control.Status, before *control.Exit) bool {
		ended := s.Exit != nil && (before == nil || !s.Exit.At.Equal(before.At))
		return ended || rests(s) || s.State == control.StateBackoff
	}},
	{"failed", func(s *control.Status, _ *control.Exit) bool { return s.State == control.StateFailed }},
}

// rests reports whether the instance has no process, and none is due soon.
func rests(s *control.Status) bool {
	return s.State == control.StateStopped || s.State == control.StateExited || s.State == control.StateFailed
}

// Names returns the names of all conditions.
func Names() []string {
	var names []string
	for _, c := range conditions {
		names = append(names, c.name)
	}
	return names
}

// For returns the condition of that name.
func For(condition string) (*Condition, error) {
	for _, c := range conditions {
		if c.name == condition {
			return &Condition{Name: condition, met: c.met}, nil
		}
	}
	names := Names()
	return nil, fmt.Errorf("read --for: unknown condition %q%s", condition,
		words.DidYouMean(condition, names, ": it can be "+words.OneOf(names)))
}

// Observe reports whether all instances meet the condition now. The error says that one can't.
func (a *Condition) Observe(all []control.Status) (met bool, err error) {
	a.last = all
	if a.before == nil {
		a.before = map[string]*control.Exit{}
		for i := range all {
			a.before[all[i].Name] = all[i].Exit
		}
	}
	met = len(all) > 0
	for i := range all {
		s := &all[i]
		if s.State == control.StateFailed && (a.Name == "ready" || a.Name == "healthy") {
			return false, fmt.Errorf("wait for %s: %s has failed: %s", a.Name,
				terminal.Sanitize(s.Name), report.OneLine(report.Shown(s.Reason, func(why string) string { return why })))
		}
		met = met && a.meets(s)
	}
	return met, nil
}

func (a *Condition) meets(s *control.Status) bool { return a.met(s, a.before[s.Name]) }

// Unsatisfied describes the instances that do not meet the condition.
func (a *Condition) Unsatisfied() string {
	var unsatisfied []string
	for i := range a.last {
		if s := &a.last[i]; !a.meets(s) {
			unsatisfied = append(unsatisfied, terminal.Sanitize(s.Name)+" is "+s.State)
		}
	}
	if len(unsatisfied) == 0 {
		return "superd has sent no status"
	}
	return strings.Join(unsatisfied, ", ")
}
