package procs

import (
	"fmt"
	"path"
	"slices"

	"superd/config"
)

// An UnknownNameError is a name that selects nothing.
type UnknownNameError struct {
	Name    string
	Nearest string // the nearest name that there is; may be empty
}

func (e *UnknownNameError) Error() string {
	text := fmt.Sprintf("select %q: no program, instance or group has this name", e.Name)
	if e.Nearest != "" {
		text += fmt.Sprintf("; did you mean %q?", e.Nearest)
	}
	return text
}

// selectInstances returns the instances that names select, in the order of all, each once; all for no names.
func (s *Supervisor) selectInstances(names []string) ([]*instance, error) {
	if len(names) == 0 {
		return s.instances, nil
	}
	wanted := map[*instance]bool{}
	for _, name := range names {
		found := len(s.selectPrograms(name)) > 0 // it may have no instance
		if in := s.byName[name]; in != nil {
			wanted[in], found = true, true
		}
		for _, in := range s.instances {
			if in.answersTo(name) {
				wanted[in], found = true, true
			}
		}
		if !found {
			return nil, &UnknownNameError{Name: name, Nearest: config.Nearest(name, s.names())}
		}
	}
	return slices.DeleteFunc(slices.Clone(s.instances), func(in *instance) bool { return !wanted[in] }), nil
}

// answersTo reports whether name is that of the instance's program or of one of its groups, or a glob that fits the
// instance or the program.
func (in *instance) answersTo(name string) bool {
	if in.program.Name == name || slices.Contains(in.program.Groups, name) {
		return true
	}
	for _, candidate := range []string{in.name, in.program.Name} {
		if ok, err := path.Match(name, candidate); ok && err == nil {
			return true
		}
	}
	return false
}

// names returns every name that selects something.
func (s *Supervisor) names() []string {
	var all []string
	for _, p := range s.config.Programs {
		all = append(all, p.Name)
	}
	for _, in := range s.instances {
		all = append(all, in.name, in.program.Name)
		all = append(all, in.program.Groups...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
