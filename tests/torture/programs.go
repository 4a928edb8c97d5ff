package torture

import (
	"fmt"
	"slices"
	"strings"

	"superd/tests/child"
)

// How many programs of each kind there are.
const (
	steadyCount  = 20
	fastCount    = 3
	crasherCount = 10
	onceCount    = 7
	toyCount     = 10
)

// A program of the torture.
type program struct {
	name string
	kind string // of package child
	toy  bool   // the operator's
}

// programs returns them: fifty, of which those that crash and those that the operator plays with have runs without number.
func programs() (all []program) {
	add := func(count int, prefix, kind string, toy bool) {
		for i := range count {
			all = append(all, program{fmt.Sprintf("%s%02d", prefix, i), kind, toy})
		}
	}
	add(steadyCount, "steady", child.Steady, false)
	add(fastCount, "fast", child.Fast, false)
	add(crasherCount, "crash", child.Crasher, false)
	add(onceCount, "once", child.Once, true)
	add(toyCount, "toy", child.Steady, true)
	return all
}

// configuration returns the programs as TOML. DIR stands for the site's folder.
func configuration(all []program) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "[program.%s]\ncommand = 'child numbers %s DIR'\nstop_timeout = '1m'\n", p.name, p.kind)
		b.WriteString("log = { max_size = '4MB', keep = 100000 }\n")
		switch p.kind {
		case child.Crasher:
			b.WriteString("backoff = { initial = '10ms', max = '300ms' }\n")
		case child.Once:
			b.WriteString("type = 'oneshot'\nautostart = false\n")
		}
	}
	// What the ledgers can't read, for the crashpoints of formats and of compression.
	b.WriteString("[program.text]\ncommand = 'child numbers steady DIR'\nlog = { format = 'text' }\n")
	b.WriteString("[program.gzip]\ncommand = 'child numbers fast DIR'\nlog = { max_size = '1MB', keep = 3, compress = true }\n")
	return b.String()
}

// pick returns those for which ok holds.
func pick(all []program, ok func(program) bool) []program {
	return slices.DeleteFunc(slices.Clone(all), func(p program) bool { return !ok(p) })
}
