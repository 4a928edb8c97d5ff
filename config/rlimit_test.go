package config

import (
	"strings"
	"testing"

	"superd/internal/rlimit"
)

// TestRlimits: values of a limit and how they are shown.
func TestRlimits(t *testing.T) {
	const none = rlimit.Infinity
	tests := []struct {
		text       string
		resource   rlimit.Resource
		soft, hard uint64
		shown      string
	}{
		{`nofile = 100`, rlimit.NoFile, 100, 100, "100"},
		{`nofile = "100:200"`, rlimit.NoFile, 100, 200, `"100:200"`},
		{`nofile = "100:infinity"`, rlimit.NoFile, 100, none, `"100:infinity"`},
		{`nofile = "infinity"`, rlimit.NoFile, none, none, `"infinity"`},
		{`nofile = "infinity:infinity"`, rlimit.NoFile, none, none, `"infinity"`},
		{`core = 0`, rlimit.Core, 0, 0, "0"},
		{`memlock = "85983232"`, rlimit.MemLock, 85983232, 85983232, `"82MiB"`},
		{`memlock = "64KiB:1MB"`, rlimit.MemLock, 65536, 1_000_000, `"64KiB:1MB"`},
		{`cpu_time = "2m"`, rlimit.CPUTime, 120, 120, `"2m"`},
		{`rttime = "1s:2s"`, rlimit.RTTime, 1_000_000, 2_000_000, `"1s:2s"`},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			p := program(t, "[defaults]\nlimits = { stack = 1000, "+tt.text+" }\n[program.web]\ncommand = 'x'\nlimits.as = 5")
			got, ok := p.Limits.Rlimits.Of(tt.resource)
			if !ok || got.Soft != tt.soft || got.Hard != tt.hard || len(p.Limits.Rlimits) != 3 {
				t.Errorf("limits = %v, want %d and %d", p.Limits.Rlimits, tt.soft, tt.hard)
			}
			name, _, _ := strings.Cut(tt.text, " ")
			if shown := findKey("program", "limits."+name).shown(p.builder()); shown != tt.shown {
				t.Errorf("it is shown as %s, want %s", shown, tt.shown)
			}
		})
	}
}

// TestRlimitsAreNotShared: a limit of a program does not change those of others with the same
// defaults.
func TestRlimitsAreNotShared(t *testing.T) {
	c := mustLoad(t, "[defaults]\nlimits.nofile = 1\n[program.a]\ncommand='x'\nlimits.nofile=2\n[program.b]\ncommand='x'\nlimits.core=0\n[program.c]\ncommand='x'")
	for name, want := range map[string]uint64{"a": 2, "b": 1, "c": 1} {
		if l, _ := c.Program(name).Limits.Rlimits.Of(rlimit.NoFile); l.Soft != want {
			t.Errorf("limits.nofile of %s = %d, want %d", name, l.Soft, want)
		}
	}
}

// TestIOLimits: the limits of devices, by path, and how they are shown.
func TestIOLimits(t *testing.T) {
	p := program(t, "[program.web]\ncommand = 'x'\nlimits.io.'/var//lib' = { write = '1MiB' }\nlimits.io.'/dev/sda' = { read = 5, write_ops = 7 }")
	const want = `{ "/dev/sda" = { read = "5", write_ops = 7 }, "/var/lib" = { write = "1MiB" } }`
	if shown := findKey("program", "limits.io").shown(p.builder()); shown != want {
		t.Errorf("limits.io is shown as %s, want %s", shown, want)
	}
}
