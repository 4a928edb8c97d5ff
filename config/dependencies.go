package config

import (
	"fmt"
	"slices"
	"strings"

	"superd/config/codec"
	"superd/config/document"
	"superd/internal/words"
)

// maxCycles and maxHints bound the work for a file with many mistakes.
const (
	maxCycles = 100
	maxHints  = 100
)

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
	cycles, others := findCycles(names, waitsFor)
	for _, edge := range others {
		l.builders[edge[0]].dependency(edge[1]).Fail("%q depends on this program, directly or through others: remove it", edge[1])
	}
	for _, cycle := range cycles {
		first := l.builders[cycle[0]]
		at := first.dependency(cycle[1%len(cycle)])
		mistake := at.Mistake("circular dependency: %s: remove one of these",
			showCycle(cycle))
		at.Add(mistake)
		for _, name := range cycle {
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

// findCycles returns the cycles of a graph, each as the names along it beginning with the least. It
// returns at most maxCycles; of any further cycles it returns the edges that close them. Without
// one edge of each cycle the graph has none. It ignores edges to names that are not in names, and
// does not recurse.
func findCycles(names []string, edges func(name string) []string) (cycles [][]string, others [][2]string) {
	const (
		unseen = iota
		open   // on the path
		closed
	)
	type step struct {
		name string
		next []string // edges not yet followed
	}
	state := make(map[string]int, len(names))
	depth := map[string]int{} // index in path, of the names on it
	exists := make(map[string]bool, len(names))
	for _, name := range names {
		exists[name] = true
	}
	var path []step
	enter := func(name string) {
		state[name], depth[name] = open, len(path)
		path = append(path, step{name, edges(name)})
	}
	for _, name := range names {
		if state[name] == unseen {
			enter(name)
		}
		for len(path) > 0 {
			top := &path[len(path)-1]
			if len(top.next) == 0 {
				state[top.name] = closed
				path = path[:len(path)-1]
				continue
			}
			next := top.next[0]
			top.next = top.next[1:]
			switch {
			case !exists[next] || state[next] == closed:
			case state[next] == unseen:
				enter(next)
			case len(cycles) < maxCycles:
				var cycle []string
				for _, s := range path[depth[next]:] {
					cycle = append(cycle, s.name)
				}
				cycles = append(cycles, fromLeast(cycle))
			default:
				others = append(others, [2]string{top.name, next})
			}
		}
	}
	return cycles, others
}

// fromLeast rotates a cycle so that it begins with its least name.
func fromLeast(cycle []string) []string {
	least := slices.Index(cycle, slices.Min(cycle))
	return slices.Concat(cycle[least:], cycle[:least])
}

// showCycle returns "a -> b -> a", without the middle of a long cycle.
func showCycle(cycle []string) string {
	const ends = 4
	shown := slices.Clone(cycle)
	if omitted := len(cycle) - 2*ends; omitted > 1 {
		shown = slices.Concat(cycle[:ends], []string{fmt.Sprintf("… %d more …", omitted)}, cycle[len(cycle)-ends:])
	}
	return strings.Join(append(shown, cycle[0]), " -> ")
}
