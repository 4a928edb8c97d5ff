package config

import (
	"maps"
	"reflect"
	"slices"
)

// A Diff says how one configuration became another. Program names are sorted.
type Diff struct {
	Added, Removed, Changed, Unchanged []string
	Superd                             bool // the table [superd] means something else
}

// Compare returns what is different in new. What counts is what the programs' tables mean, defaults included, and which
// mistakes they have; where they are written doesn't, nor does the content of an env file.
func Compare(old, new *Config) Diff {
	before, after := byName(old), byName(new)
	diff := Diff{Superd: old.Superd != new.Superd}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		switch was := before[name]; {
		case was == nil:
			diff.Added = append(diff.Added, name)
		case was.equal(after[name]):
			diff.Unchanged = append(diff.Unchanged, name)
		default:
			diff.Changed = append(diff.Changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] == nil {
			diff.Removed = append(diff.Removed, name)
		}
	}
	return diff
}

func byName(c *Config) map[string]*Program {
	programs := make(map[string]*Program, len(c.Programs))
	for _, p := range c.Programs {
		programs[p.Name] = p
	}
	return programs
}

func (p *Program) equal(other *Program) bool {
	sameMistake := func(a, b *KeyError) bool { return a.Key == b.Key && a.Err.Error() == b.Err.Error() }
	if !slices.EqualFunc(p.Invalid, other.Invalid, sameMistake) {
		return false
	}
	a, b := *p, *other
	for _, program := range []*Program{&a, &b} {
		program.Invalid, program.File, program.Line = nil, "", 0
	}
	return reflect.DeepEqual(a, b)
}
