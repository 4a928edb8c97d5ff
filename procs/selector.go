package procs

import (
	"superd/config"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/selection"
)

// A selector finds what an operator's names select: programs, instances, groups and globs.
type selector struct {
	registry *registry
	config   *configState
	replicas *replicas // why a program has no instances
}

// instances returns the instances that names select, sorted, each once; all for no names.
func (e *selector) instances(names []string) ([]*instance.Instance, error) {
	found, err := e.selection(names)
	return found.instances, err
}

// selection returns what names select; all instances for no names. A name that selects nothing is
// an error.
func (e *selector) selection(names []string) (selected, error) {
	if len(names) == 0 {
		return selected{instances: e.registry.instances}, nil
	}
	found := e.match(names)
	if len(found.unknown) > 0 {
		return selected{}, &selection.UnknownNameError{Name: found.unknown[0], Known: e.known()}
	}
	return found, nil
}

type selected struct {
	instances []*instance.Instance // sorted, each once
	empty     []string             // given names without instances, each once
	unknown   []string             // given names that select nothing, each once
}

// match returns what names select. Except for globs, its cost grows with the number of instances,
// not of names.
func (e *selector) match(names []string) (found selected) {
	w := selection.NewMatcher(names)
	var program *config.Program // of the previous instance; instances of a program are adjacent
	all := false                // all instances of program are selected
	for _, in := range e.registry.instances {
		if in.Program != program {
			program, all = in.Program, w.Program(in.Program)
		}
		own := in.Name != program.Name && w.Name(in.Name)
		if own || all {
			found.instances = append(found.instances, in)
		}
	}
	missed := w.Missed(names)
	if len(missed) == 0 {
		return found
	}
	for _, p := range e.config.active.Programs {
		w.Program(p) // finds programs without instances, too
	}
	found.unknown = w.Missed(missed)
	for _, name := range missed {
		if w.Found(name) && !selection.IsPattern(name) {
			found.empty = append(found.empty, name)
		}
	}
	return found
}

// noInstancesText returns why the program or group of this name has no instances, and how to get
// some.
func (e *selector) noInstancesText(name string) string {
	if e.config.active.Program(name) == nil {
		return "no program of this group has instances"
	}
	return "it has no instances: " + e.replicas.noneReason(name) + "; see `superd ctl scale`"
}

// noInstanceResults returns results for the selected names of programs and groups without
// instances.
func (e *selector) noInstanceResults(found selected) []CommandResult {
	var outcomes []CommandResult
	for _, name := range found.empty {
		outcomes = append(outcomes, CommandResult{Name: name, State: fsm.Stopped, Message: e.noInstancesText(name)})
	}
	return outcomes
}

// known returns all names that select something, some of them twice.
func (e *selector) known() []string {
	var all []string
	for _, p := range e.config.active.Programs {
		all = append(append(all, p.Name), p.Groups...)
	}
	for _, in := range e.registry.instances {
		all = append(append(all, in.Name, in.Program.Name), in.Program.Groups...)
	}
	return all
}
