package config

import (
	"slices"
	"strings"

	"superd/config/codec"
	"superd/config/cycle"
	"superd/config/document"
	"superd/internal/words"
)

// maxHints bounds the work for a file with many mistakes.
const maxHints = 100

// checkDependencies checks requires and after: the names exist, and no program waits for itself,
// directly or indirectly.
func (l *loader) checkDependencies() {
	groups := map[string]bool{}
	var names []string
	for _, d := range l.programs {
		names = append(names, d.Name)
		for _, group := range d.Groups {
			groups[group] = true
		}
	}
	hints := 0
	for _, d := range l.programs {
		for _, key := range []string{"requires", "after"} {
			items, _ := d.mistakeAt(key).Items()
			for _, item := range items {
				name, _ := item.Raw.(string)
				program, _, isInstance := strings.Cut(name, "@")
				switch {
				case name != d.Name && l.builders[name] != nil && l.builders[name].Schedule != "":
					item.Fail("%q runs on a schedule, so it can't be a dependency: remove it, or name a one-shot without a schedule", name)
				case name != d.Name && l.builders[name] != nil && l.builders[name].sockets.Accept:
					item.Fail("%q has a process for each connection, so it can't be a dependency: remove it", name)
				case name == "" || l.builders[name] != nil && name != d.Name:
				case name == d.Name:
					item.Fail("%q can't depend on itself: remove it", name)
				case groups[name]:
					item.Fail("%q is a group: name its programs", name)
				case isInstance && l.builders[program] != nil:
					item.Fail("%q is an instance: name the program, %q, which includes all its instances", name, program)
				default:
					hint := ": add it, or remove it here"
					if hints++; hints <= maxHints {
						hint = words.DidYouMean(name, names, hint)
					}
					item.Fail("there is no program %s%s", document.Quote(name), hint)
				}
			}
		}
	}
	l.checkCycles(names)
}

func (l *loader) checkCycles(names []string) {
	waitsFor := func(name string) []string {
		d := l.builders[name]
		if d == nil {
			return nil
		}
		return slices.DeleteFunc(slices.Concat(d.Requires, d.After), func(other string) bool { return other == name })
	}
	// Programs reported already: one cycle is enough to make a program invalid
	reported := map[*builder]bool{}
	cycles, others := cycle.Find(names, waitsFor)
	for _, edge := range others {
		l.builders[edge[0]].dependency(edge[1]).Fail("%q depends on this program, directly or through others: remove it", edge[1])
	}
	for _, along := range cycles {
		first := l.builders[along[0]]
		at := first.dependency(along[1%len(along)])
		mistake := at.Mistake("circular dependency: %s: remove one of these",
			cycle.Show(along))
		at.Add(mistake)
		for _, name := range along {
			if d := l.builders[name]; &d.Invalid != at.Owner && !reported[d] {
				reported[d] = true
				d.Invalid = append(d.Invalid, mistake)
			}
		}
	}
}

// dependency returns the position at which requires or after names that program.
func (d *builder) dependency(name string) codec.Value {
	for _, key := range []string{"requires", "after"} {
		items, _ := d.mistakeAt(key).Items()
		for _, item := range items {
			if item.Raw == name {
				return item
			}
		}
	}
	return d.self
}
