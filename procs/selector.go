package procs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"superd/config"
	"superd/internal/words"
	"superd/procs/fsm"
	"superd/procs/instance"
)

// An UnknownNameError reports a name that selects nothing.
type UnknownNameError struct {
	Name  string
	Known []string // all names that select something, some of them twice
}

func (e *UnknownNameError) Error() string {
	text := fmt.Sprintf("select %q: no program, instance or group has this name", e.Name)
	if nearest := e.Nearest(); nearest != "" {
		text += fmt.Sprintf("; did you mean %q?", nearest)
	}
	return text
}

// Nearest returns the most similar known name; it may be empty. With thousands of names it takes
// milliseconds, so it must not run on the loop.
func (e *UnknownNameError) Nearest() string {
	known := slices.Clone(e.Known)
	slices.Sort(known)
	return words.Nearest(e.Name, slices.Compact(known))
}

// IsPattern reports whether a name is a glob.
func IsPattern(name string) bool { return strings.ContainsAny(name, `*?[\`) }

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
func (e *selector) selection(names []string) (selection, error) {
	if len(names) == 0 {
		return selection{instances: e.registry.instances}, nil
	}
	found := e.match(names)
	if len(found.unknown) > 0 {
		return selection{}, &UnknownNameError{found.unknown[0], e.known()}
	}
	return found, nil
}

type selection struct {
	instances []*instance.Instance // sorted, each once
	empty     []string             // given names without instances, each once
	unknown   []string             // given names that select nothing, each once
}

// match returns what names select. Except for globs, its cost grows with the number of instances,
// not of names.
func (e *selector) match(names []string) (found selection) {
	w := nameMatcher{found: make(map[string]bool, len(names))}
	for _, name := range names {
		if _, twice := w.found[name]; twice {
			continue
		}
		w.found[name] = false
		if IsPattern(name) {
			w.globs = append(w.globs, name)
		}
	}
	var program *config.Program // of the previous instance; instances of a program are adjacent
	all := false                // all instances of program are selected
	for _, in := range e.registry.instances {
		if in.Program != program {
			program, all = in.Program, w.program(in.Program)
		}
		own := in.Name != program.Name && w.name(in.Name)
		if own || all {
			found.instances = append(found.instances, in)
		}
	}
	missed := w.missed(names)
	if len(missed) == 0 {
		return found
	}
	for _, p := range e.config.active.Programs {
		w.program(p) // finds programs without instances, too
	}
	found.unknown = w.missed(missed)
	for _, name := range missed {
		if w.found[name] && !IsPattern(name) {
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
func (e *selector) noInstanceResults(found selection) []CommandResult {
	var outcomes []CommandResult
	for _, name := range found.empty {
		outcomes = append(outcomes, CommandResult{Name: name, State: fsm.Stopped, Message: e.noInstancesText(name)})
	}
	return outcomes
}

// programs returns the configured programs that a name, a group or a glob selects.
func (e *selector) programs(name string) []*config.Program {
	if p := e.config.active.Program(name); p != nil {
		return []*config.Program{p}
	}
	var found []*config.Program
	for _, p := range e.config.active.Programs {
		if ok, err := path.Match(name, p.Name); ok && err == nil || slices.Contains(p.Groups, name) {
			found = append(found, p)
		}
	}
	return found
}

// A nameMatcher holds the given names and which of them select something.
type nameMatcher struct {
	found map[string]bool // by name; true: it selects something
	globs []string        // names that are globs
}

// name reports whether a given name or glob matches this name.
func (w *nameMatcher) name(name string) bool {
	yes := w.exactly(name)
	for _, glob := range w.globs {
		if ok, err := path.Match(glob, name); ok && err == nil {
			yes, w.found[glob] = true, true
		}
	}
	return yes
}

// missed returns the names that select nothing, each once.
func (w *nameMatcher) missed(names []string) (missed []string) {
	seen := map[string]bool{}
	for _, name := range names {
		if !w.found[name] && !seen[name] {
			seen[name] = true
			missed = append(missed, name)
		}
	}
	return missed
}

func (w *nameMatcher) exactly(name string) bool {
	_, yes := w.found[name]
	if yes {
		w.found[name] = true
	}
	return yes
}

// program reports whether all instances of a program are selected.
func (w *nameMatcher) program(p *config.Program) bool {
	yes := w.name(p.Name)
	for _, group := range p.Groups {
		yes = w.exactly(group) || yes
	}
	return yes
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
