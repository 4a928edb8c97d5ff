package procs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"superd/config"
)

// An UnknownNameError is a name that selects nothing.
type UnknownNameError struct {
	Name  string
	Known []string // every name that selects something, some of them twice
}

func (e *UnknownNameError) Error() string {
	text := fmt.Sprintf("select %q: no program, instance or group has this name", e.Name)
	if nearest := e.Nearest(); nearest != "" {
		text += fmt.Sprintf("; did you mean %q?", nearest)
	}
	return text
}

// Nearest returns the nearest name that there is; it may be empty. It takes milliseconds where there are thousands: it is not for the loop.
func (e *UnknownNameError) Nearest() string {
	known := slices.Clone(e.Known)
	slices.Sort(known)
	return config.Nearest(e.Name, slices.Compact(known))
}

// IsPattern reports whether a name is a glob.
func IsPattern(name string) bool { return strings.ContainsAny(name, `*?[\`) }

// selectInstances returns the instances that names select, in the order of all, each once; all for no names.
func (s *Supervisor) selectInstances(names []string) ([]*instance, error) {
	if len(names) == 0 {
		return s.instances, nil
	}
	selected, unknown := s.find(names)
	if len(unknown) > 0 {
		return nil, &UnknownNameError{unknown[0], s.names()}
	}
	return selected, nil
}

// Resolve returns the names of the instances that names select, and an error for each name that selects nothing.
func (s *Supervisor) Resolve(names []string) (instances []string, unknown []*UnknownNameError) {
	selected, missing := s.find(names)
	for _, in := range selected {
		instances = append(instances, in.name)
	}
	if len(missing) > 0 {
		known := s.names()
		for _, name := range missing {
			unknown = append(unknown, &UnknownNameError{name, known})
		}
	}
	return instances, unknown
}

// find returns the instances that names select, in the order of all, and the names that select nothing, in theirs, each once. What it takes
// grows with the number of instances, and not with that of names, globs aside.
func (s *Supervisor) find(names []string) (selected []*instance, unknown []string) {
	w := wanted{found: make(map[string]bool, len(names))}
	for _, name := range names {
		if _, twice := w.found[name]; twice {
			continue
		}
		w.found[name] = false
		if IsPattern(name) {
			w.globs = append(w.globs, name)
		}
	}
	var program *config.Program // that was looked at last: its instances stand together
	all := false                // of them are wanted
	for _, in := range s.instances {
		if in.program != program {
			program, all = in.program, w.program(in.program)
		}
		own := in.name != program.Name && w.name(in.name)
		if own || all {
			selected = append(selected, in)
		}
	}
	if w.misses() {
		for _, p := range s.config.Programs {
			w.program(p) // it may have no instance
		}
	}
	for _, name := range names {
		if !w.found[name] {
			unknown = append(unknown, name)
			w.found[name] = true // once
		}
	}
	return selected, unknown
}

// wanted is what is looked for.
type wanted struct {
	found map[string]bool // by names; true: it selects something
	globs []string        // among them
}

// name reports whether something of this name is wanted.
func (w *wanted) name(name string) bool {
	yes := w.exactly(name)
	for _, glob := range w.globs {
		if ok, err := path.Match(glob, name); ok && err == nil {
			yes, w.found[glob] = true, true
		}
	}
	return yes
}

// misses reports whether a name was not found.
func (w *wanted) misses() bool {
	for _, found := range w.found {
		if !found {
			return true
		}
	}
	return false
}

func (w *wanted) exactly(name string) bool {
	_, yes := w.found[name]
	if yes {
		w.found[name] = true
	}
	return yes
}

// program reports whether all instances of a program are wanted.
func (w *wanted) program(p *config.Program) bool {
	yes := w.name(p.Name)
	for _, group := range p.Groups {
		yes = w.exactly(group) || yes
	}
	return yes
}

// names returns every name that selects something, some of them twice.
func (s *Supervisor) names() []string {
	var all []string
	for _, p := range s.config.Programs {
		all = append(append(all, p.Name), p.Groups...)
	}
	for _, in := range s.instances {
		all = append(append(all, in.name, in.program.Name), in.program.Groups...)
	}
	return all
}
