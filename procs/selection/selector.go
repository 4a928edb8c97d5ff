package selection

import (
	"slices"

	"superd/config"
	"superd/procs/instance"
)

// A Selector finds what an operator's names select: programs, instances, groups and globs. It lives
// on the loop.
type Selector struct {
	All        func() []*instance.Instance // sorted; those of a program are adjacent
	Config     func() *config.Config       // in force
	NoneReason func(program string) string // why a program has no instances
}

// Instances returns the instances that names select, sorted, each once; all for no names.
func (e *Selector) Instances(names []string) ([]*instance.Instance, error) {
	found, err := e.Select(names)
	return found.Instances, err
}

// Select returns what names select; all instances for no names. A name that selects nothing is
// an error.
func (e *Selector) Select(names []string) (Selected, error) {
	if len(names) == 0 {
		return Selected{Instances: e.All()}, nil
	}
	found := e.Match(names)
	if len(found.Unknown) > 0 {
		return Selected{}, &UnknownNameError{Name: found.Unknown[0], Known: e.Known()}
	}
	return found, nil
}

// Definitions returns the definitions in force of the programs that names select, or an instance of
// which they select, each once; all for no names.
func (e *Selector) Definitions(names []string) (all []*config.Program, err error) {
	if len(names) == 0 {
		return slices.Clone(e.Config().Programs), nil
	}
	found, err := e.Select(names)
	selected := map[string]bool{}
	for _, in := range found.Instances {
		selected[in.Program.Name] = true
	}
	for _, name := range found.Empty {
		for _, p := range Programs(e.Config(), name) {
			selected[p.Name] = true
		}
	}
	for _, p := range e.Config().Programs {
		if selected[p.Name] {
			all = append(all, p)
		}
	}
	return all, err
}

// Selected is what names select.
type Selected struct {
	Instances []*instance.Instance // sorted, each once
	Empty     []string             // given names without instances, each once
	Unknown   []string             // given names that select nothing, each once
}

// Match returns what names select. Except for globs, its cost grows with the number of instances,
// not of names.
func (e *Selector) Match(names []string) (found Selected) {
	w := NewMatcher(names)
	var program *config.Program // of the previous instance; instances of a program are adjacent
	all := false                // all instances of program are selected
	for _, in := range e.All() {
		if in.Program != program {
			program, all = in.Program, w.Program(in.Program)
		}
		own := in.Name != program.Name && w.Name(in.Name)
		if own || all {
			found.Instances = append(found.Instances, in)
		}
	}
	missed := w.Missed(names)
	if len(missed) == 0 {
		return found
	}
	for _, p := range e.Config().Programs {
		w.Program(p) // finds programs without instances, too
	}
	found.Unknown = w.Missed(missed)
	for _, name := range missed {
		if w.Found(name) && !IsPattern(name) {
			found.Empty = append(found.Empty, name)
		}
	}
	return found
}

// NoInstances returns why the program or group of this name has no instances, and how to get
// some.
func (e *Selector) NoInstances(name string) string {
	if e.Config().Program(name) == nil {
		return "no program of this group has instances"
	}
	return "it has no instances: " + e.NoneReason(name) + "; see `superd ctl scale`"
}

// Known returns all names that select something, some of them twice.
func (e *Selector) Known() []string {
	var all []string
	for _, p := range e.Config().Programs {
		all = append(append(all, p.Name), p.Groups...)
	}
	for _, in := range e.All() {
		all = append(append(all, in.Name, in.Program.Name), in.Program.Groups...)
	}
	return all
}
