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
	met    func(s *control.Status, before before) bool
	last   []control.Status
	before map[string]before // by instance
}

// before is what the wait has first seen of an instance.
type before struct {
	pid    int  // of the main process; 0: it has had none so far
	exited bool // a run had ended
}

// conditions have for each condition whether an instance meets it.
var conditions = []struct {
	name string
	met  func(s *control.Status, before before) bool
}{
	{"ready", func(s *control.Status, _ before) bool { return s.Up() }},
	{"healthy", func(s *control.Status, _ before) bool { return s.Up() && s.Healthy != nil && *s.Healthy }},
	{"stopped", func(s *control.Status, _ before) bool { return rests(s) }},
	{"exited", func(s *control.Status, before before) bool {
		ended := s.Exit != nil && !before.exited || before.pid != 0 && pidOf(s) != before.pid
		return ended || rests(s) || s.State == control.StateBackoff
	}},
	{"failed", func(s *control.Status, _ before) bool { return s.State == control.StateFailed }},
}

func pidOf(s *control.Status) int {
	if s.Pid == nil {
		return 0
	}
	return *s.Pid
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
		a.before = map[string]before{}
	}
	met = len(all) > 0
	for i := range all {
		s := &all[i]
		b, seen := a.before[s.Name]
		if !seen {
			b.exited = s.Exit != nil
		}
		if b.pid == 0 {
			b.pid = pidOf(s)
		}
		a.before[s.Name] = b
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
