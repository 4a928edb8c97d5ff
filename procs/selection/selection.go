// Package selection matches the names that an operator gives with those of programs, instances and
// groups.
package selection

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"superd/config"
	"superd/internal/words"
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

// A Matcher holds the given names and which of them select something.
type Matcher struct {
	found map[string]bool // by name; true: it selects something
	globs []string        // names that are globs
}

// NewMatcher returns a matcher of the names.
func NewMatcher(names []string) *Matcher {
	w := &Matcher{found: make(map[string]bool, len(names))}
	for _, name := range names {
		if _, twice := w.found[name]; twice {
			continue
		}
		w.found[name] = false
		if IsPattern(name) {
			w.globs = append(w.globs, name)
		}
	}
	return w
}

// Found reports whether a given name has selected something.
func (w *Matcher) Found(name string) bool { return w.found[name] }

// Name reports whether a given name or glob matches this name.
func (w *Matcher) Name(name string) bool {
	yes := w.exactly(name)
	for _, glob := range w.globs {
		if ok, err := path.Match(glob, name); ok && err == nil {
			yes, w.found[glob] = true, true
		}
	}
	return yes
}

// Missed returns the names that select nothing, each once.
func (w *Matcher) Missed(names []string) (missed []string) {
	seen := map[string]bool{}
	for _, name := range names {
		if !w.found[name] && !seen[name] {
			seen[name] = true
			missed = append(missed, name)
		}
	}
	return missed
}

func (w *Matcher) exactly(name string) bool {
	_, yes := w.found[name]
	if yes {
		w.found[name] = true
	}
	return yes
}

// Program reports whether all instances of a program are selected.
func (w *Matcher) Program(p *config.Program) bool {
	yes := w.Name(p.Name)
	for _, group := range p.Groups {
		yes = w.exactly(group) || yes
	}
	return yes
}

// Programs returns the programs of a configuration that a name, a group or a glob selects.
func Programs(c *config.Config, name string) []*config.Program {
	if p := c.Program(name); p != nil {
		return []*config.Program{p}
	}
	var found []*config.Program
	for _, p := range c.Programs {
		if ok, err := path.Match(name, p.Name); ok && err == nil || slices.Contains(p.Groups, name) {
			found = append(found, p)
		}
	}
	return found
}
