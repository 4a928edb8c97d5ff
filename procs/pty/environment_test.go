package pty

import (
	"slices"
	"testing"
)

// TestEnvironment: TERM is that of the configuration, and not superd's own.
func TestEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name      string
		env       []string
		own       map[string]string
		inherited string
		want      []string
	}{
		{"none", []string{"A=1"}, nil, "", []string{"A=1", kind}},
		{"inherited", []string{"A=1", "TERM=linux"}, nil, "linux", []string{"A=1", kind}},
		{"configured", []string{"TERM=vt100"}, map[string]string{"TERM": "vt100"}, "vt100", []string{"TERM=vt100"}},
		{"env_file", []string{"TERM=vt100"}, nil, "linux", []string{"TERM=vt100"}},
	} {
		if got := Environment(tt.env, tt.own, tt.inherited); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
