package torture

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"superd/tests/child"
)

// Number of programs of each kind.
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
	toy  bool   // whether the operator commands it
	log  string // the program's log table; empty: the usual one
}

// twoStreams are the programs that write numbered lines to both streams: names, log tables and
// kinds.
var twoStreams = []program{
	{name: "apart0", kind: child.Crasher, log: "{ stderr = 'separate', max_size = '4MB', keep = 100000 }"},
	{name: "apart1", kind: child.Steady, log: "{ stderr = 'separate', max_size = '4MB', keep = 100000 }"},
	{name: "label0", kind: child.Crasher, log: "{ stderr = 'label', format = 'text', max_size = '4MB', keep = 100000 }"},
	{name: "label1", kind: child.Steady, log: "{ stderr = 'label', format = 'text', max_size = '4MB', keep = 100000 }"},
}

func (p program) bothStreams() bool { return p.log != "" }

// ledgers returns the ledgers of the program's logs, which are in that directory.
func (p program) ledgers(dir string) []*ledger {
	l := &ledger{instance: p.name, path: filepath.Join(dir, p.name+".log")}
	switch {
	case strings.Contains(p.log, "separate"):
		return []*ledger{l, {instance: p.name, path: filepath.Join(dir, p.name+".err.log")}}
	case strings.Contains(p.log, "label"):
		l.labels = map[string]*ledger{"stdout": {instance: p.name, repeats: map[string]int{}}, "stderr": {instance: p.name, repeats: map[string]int{}}}
	}
	return []*ledger{l}
}

// programs returns fifty programs. Those that crash, and those that the operator commands, have any
// number of runs.
func programs() (all []program) {
	add := func(count int, prefix, kind string, toy bool) {
		for i := range count {
			all = append(all, program{name: fmt.Sprintf("%s%02d", prefix, i), kind: kind, toy: toy})
		}
	}
	add(steadyCount, "steady", child.Steady, false)
	add(fastCount, "fast", child.Fast, false)
	add(crasherCount, "crash", child.Crasher, false)
	add(onceCount, "once", child.Once, true)
	add(toyCount, "toy", child.Steady, true)
	return append(all, twoStreams...)
}

// configuration returns the programs as TOML. DIR stands for the site's folder.
func configuration(all []program) string {
	var b strings.Builder
	for _, p := range all {
		mode, log := "numbers", "{ max_size = '4MB', keep = 100000 }"
		if p.bothStreams() {
			mode, log = "numbers-both", p.log
		}
		fmt.Fprintf(&b, "[program.%s]\ncommand = 'child %s %s DIR'\nstop_timeout = '1m'\nlog = %s\n", p.name, mode, p.kind, log)
		switch p.kind {
		case child.Crasher:
			b.WriteString("backoff = { initial = '10ms', max = '300ms' }\n")
		case child.Once:
			b.WriteString("type = 'oneshot'\nautostart = false\n")
		}
	}
	// Logs that the ledgers can't read, for the failpoints of formats and of compression.
	b.WriteString("[program.text]\ncommand = 'child numbers steady DIR'\nlog = { format = 'text' }\n")
	b.WriteString("[program.gzip]\ncommand = 'child numbers fast DIR'\nlog = { max_size = '1MB', keep = 3, compress = true }\n")
	return b.String()
}

// pick returns the programs for which ok returns true.
func pick(all []program, ok func(program) bool) []program {
	return slices.DeleteFunc(slices.Clone(all), func(p program) bool { return !ok(p) })
}
