// Package cycle finds the cycles of a graph of names, such as of programs that need each other, and
// an order without them.
package cycle

import (
	"fmt"
	"slices"
	"strings"
)

// limit bounds the work for a file with many mistakes.
const limit = 100

// Find returns the cycles of a graph, each as the names along it beginning with the least. It
// returns at most limit; of any further cycles it returns the edges that close them. Without
// one edge of each cycle the graph has none. It ignores edges to names that are not in names, and
// does not recurse.
func Find(names []string, edges func(name string) []string) (cycles [][]string, others [][2]string) {
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
			case len(cycles) < limit:
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

// Order returns the names so that each comes after those to which it has edges, and otherwise in
// the given order. Along a cycle one edge does not count. It ignores edges to names that are not in
// names, and does not recurse.
func Order(names []string, edges func(name string) []string) []string {
	type step struct {
		name string
		next []string // edges not yet followed
	}
	unseen := make(map[string]bool, len(names))
	for _, name := range names {
		unseen[name] = true
	}
	order := make([]string, 0, len(names))
	var path []step
	enter := func(name string) {
		if unseen[name] {
			delete(unseen, name)
			path = append(path, step{name, edges(name)})
		}
	}
	for _, name := range names {
		for enter(name); len(path) > 0; {
			top := &path[len(path)-1]
			if len(top.next) == 0 {
				order = append(order, top.name)
				path = path[:len(path)-1]
				continue
			}
			next := top.next[0]
			top.next = top.next[1:]
			enter(next)
		}
	}
	return order
}

// fromLeast rotates a cycle so that it begins with its least name.
func fromLeast(cycle []string) []string {
	least := slices.Index(cycle, slices.Min(cycle))
	return slices.Concat(cycle[least:], cycle[:least])
}

// Show returns "a -> b -> a", without the middle of a long cycle.
func Show(cycle []string) string {
	const ends = 4
	shown := slices.Clone(cycle)
	if omitted := len(cycle) - 2*ends; omitted > 1 {
		shown = slices.Concat(cycle[:ends], []string{fmt.Sprintf("… %d more …", omitted)}, cycle[len(cycle)-ends:])
	}
	return strings.Join(append(shown, cycle[0]), " -> ")
}
