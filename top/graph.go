package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
	"superd/internal/words"
)

// A node is a program in the graph of dependencies.
type node struct {
	name            string
	requires, after []string
	oneShot         bool
	states          []string // of its instances
	dependents      int      // programs that require it or are after it
}

// up reports whether dependents need not wait for a program.
func (n *node) up() bool {
	return len(n.states) > 0 && !slices.ContainsFunc(n.states, func(state string) bool {
		return state != control.StateRunning && !(n.oneShot && state == control.StateExited)
	})
}

// waits reports whether an instance waits.
func (n *node) waits() bool { return slices.Contains(n.states, control.StateWaiting) }

// state returns the state of its instances, or how many are in each one.
func (n *node) state() string {
	count := map[string]int{}
	var distinct []string
	for _, s := range n.states {
		if count[s]++; count[s] == 1 {
			distinct = append(distinct, s)
		}
	}
	switch len(distinct) {
	case 0:
		return "no instances"
	case 1:
		return distinct[0]
	}
	slices.Sort(distinct)
	for i, s := range distinct {
		distinct[i] = fmt.Sprintf("%d %s", count[s], s)
	}
	return strings.Join(distinct, ", ")
}

// A graph has the dependencies of programs, by name.
type graph map[string]*node

// readGraph returns the graph of configurations, with the states of instances.
func readGraph(all []control.Configured, states map[string][]string) (graph, error) {
	g := graph{}
	for _, c := range all {
		var file struct {
			Program map[string]struct {
				Type            string
				Requires, After []string
			}
		}
		if _, err := toml.Decode(c.Text, &file); err != nil {
			return nil, fmt.Errorf("read configuration of %s: %w", c.Program, err)
		}
		p := file.Program[c.Program]
		g[c.Program] = &node{name: c.Program, requires: p.Requires, after: p.After,
			oneShot: p.Type == "oneshot", states: states[c.Program]}
	}
	for _, n := range g {
		for _, name := range n.below() {
			if below := g[name]; below != nil {
				below.dependents++
			}
		}
	}
	return g, nil
}

// below returns what a program depends on, each once.
func (n *node) below() []string {
	all := slices.Clone(n.requires)
	for _, name := range n.after {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// blockers returns for which programs one waits in the end, by name: those that wait themselves are
// replaced by what they wait for.
func (g graph) blockers(n *node, seen map[string]bool) (all []string) {
	for _, name := range n.requires {
		below := g[name]
		if below == nil || below.up() || seen[name] {
			continue
		}
		seen[name] = true
		further := g.blockers(below, seen)
		if !below.waits() || len(further) == 0 {
			further = append(further, name)
		}
		all = append(all, further...)
	}
	return all
}

// lines returns the graph as an indented tree: each program stands above those it depends on. A
// subtree that occurs again is not repeated. at is the number of the line of a program, 0 if it has
// none.
func (g graph) lines(selected string) (lines []line, at int) {
	var names, roots []string
	for name, n := range g {
		names = append(names, name)
		if n.dependents == 0 {
			roots = append(roots, name)
		}
	}
	slices.Sort(names)
	slices.Sort(roots)
	shown := map[string]bool{}
	var show func(name, indent, kind string)
	show = func(name, indent, kind string) {
		n := g[name]
		if n == nil {
			lines = append(lines, line{head: indent + kind, text: terminal.Sanitize(name) + " (not shown)"})
			return
		}
		below := n.below()
		again := shown[name] && len(below) > 0
		if name == selected && !shown[name] {
			at = len(lines)
		}
		shown[name] = true
		lines = append(lines, g.line(n, indent+kind, again))
		if again {
			return
		}
		for _, child := range below {
			kind := "requires "
			if !slices.Contains(n.requires, child) {
				kind = "after "
			}
			show(child, indent+"  ", kind)
		}
	}
	for _, name := range roots {
		show(name, "", "")
	}
	for _, name := range names { // those in a cycle of `after`
		if !shown[name] {
			show(name, "", "")
		}
	}
	return lines, at
}

// line returns the line of one program.
func (g graph) line(n *node, head string, again bool) line {
	text := fmt.Sprintf("%s %s %s", sign(n.state()), terminal.Sanitize(n.name), n.state())
	if again {
		text += " (see above)"
	}
	colour := report.StateColour(n.state())
	if n.waits() {
		if blockers := g.blockers(n, map[string]bool{n.name: true}); len(blockers) > 0 {
			for i, name := range blockers {
				blockers[i] = terminal.Sanitize(name) + " (" + g[name].state() + ")"
			}
			text += ", blocked by " + strings.Join(blockers, ", ")
		}
	}
	if blocked := g.blocked(n); len(blocked) > 0 {
		text += ", blocks " + words.Plural(len(blocked), "program")
	}
	return line{head: head, text: text, colour: colour}
}

// blocked returns the waiting programs that a program is a blocker of.
func (g graph) blocked(n *node) (all []string) {
	if n.up() || n.waits() || n.dependents == 0 {
		return nil
	}
	for name, other := range g {
		if other.waits() && slices.Contains(g.blockers(other, map[string]bool{name: true}), n.name) {
			all = append(all, name)
		}
	}
	return all
}
