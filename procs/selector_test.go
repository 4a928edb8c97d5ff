package procs

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
)

// TestSelect: names select instances, each once, and unknown names are reported, each once.
func TestSelect(t *testing.T) {
	grouped := func(groups ...string) func(*config.Program) {
		return func(p *config.Program) { p.Groups = groups }
	}
	none := programNamed("none", func(p *config.Program) { p.Groups, p.Replicas = []string{"empty"}, 0 })
	many := programNamed("many", func(p *config.Program) { p.Groups, p.Replicas = []string{"front"}, 2 })
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{
		programNamed("db", grouped("back")), many, none, programNamed("web", grouped("front", "all")),
	}})
	tests := []struct{ names, selected, unknown []string }{
		{[]string{"web"}, []string{"web"}, nil},
		{[]string{"web", "web", "w*"}, []string{"web"}, nil},
		{[]string{"many"}, []string{"many@1", "many@2"}, nil},
		{[]string{"many@2"}, []string{"many@2"}, nil},
		{[]string{"many@?", "db"}, []string{"db", "many@1", "many@2"}, nil},
		{[]string{"front"}, []string{"many@1", "many@2", "web"}, nil},
		{[]string{"*"}, []string{"db", "many@1", "many@2", "web"}, nil},
		{[]string{"none"}, nil, nil},
		{[]string{"empty", "n[n-p]ne"}, nil, nil},
		{[]string{"fron*"}, nil, []string{"fron*"}}, // globs match no groups
		{[]string{"unknown", "db", "[", "unknown"}, []string{"db"}, []string{"unknown", "["}},
		{[]string{`d\b`}, []string{"db"}, nil},
		{[]string{"many@3", ""}, nil, []string{"many@3", ""}},
	}
	for _, tt := range tests {
		selected, missing := h.sup.Resolve(tt.names)
		var unknown []string
		for _, u := range missing {
			unknown = append(unknown, u.Name)
		}
		if !slices.Equal(selected, tt.selected) || !slices.Equal(unknown, tt.unknown) {
			t.Errorf("Resolve(%q) = %q without %q, want %q without %q", tt.names, selected, unknown, tt.selected, tt.unknown)
		}
	}
	if _, err := h.sup.Status([]string{"db", "wep"}); err == nil || err.Error() != `select "wep": no program, instance or group has this name; did you mean "web"?` {
		t.Errorf("Status(db, wep) = %v", err)
	}
	if some, err := h.sup.Outputs([]string{"wep", "db"}, true); err != nil || len(some) != 1 || some[0].Instance != "db" {
		t.Errorf("Outputs(wep, db) = %v, %v, want db", some, err)
	}
}

// TestSelectByManyNames: thousands of names, known or not, take little time of the loop.
func TestSelectByManyNames(t *testing.T) {
	c := &config.Config{}
	var names, unknown []string
	for i := range 2000 {
		name := fmt.Sprintf("program-%04d", i)
		c.Programs = append(c.Programs, programNamed(name, nil))
		names = append(names, name, "*", "program-*")
		unknown = append(unknown, "x"+name)
	}
	h, _ := newFaultFree(1, c)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := usedByThread(t)
	all, err := h.sup.Outputs(names, false)
	if err != nil || len(all) != len(c.Programs) {
		t.Fatalf("%d outputs, %v, want %d", len(all), err, len(c.Programs))
	}
	if all, err := h.sup.Outputs(unknown, true); len(all) > 0 || err != nil {
		t.Fatalf("%d outputs of unknown names, %v", len(all), err)
	}
	if _, missing := h.sup.Resolve(unknown); len(missing) != len(unknown) {
		t.Errorf("%d unknown names, want %d", len(missing), len(unknown))
	}
	if took := usedByThread(t) - begun; took > time.Second {
		t.Errorf("it took %v of CPU time", took)
	}
}

// usedByThread returns the processor time of this thread, which does not depend on the machine's
// load.
func usedByThread(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
