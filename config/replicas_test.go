package config

import (
	"strings"
	"testing"
)

// TestRefuseReplicas: what several instances of a program would share.
func TestRefuseReplicas(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(p *Program)
		n      int
		want   string // begin of the refusal; empty: none
	}{
		{"nothing shared", func(*Program) {}, 3, ""},
		{"too many", func(*Program) {}, MaxReplicas + 1, "the number of replicas"},
		{"its log file", func(p *Program) { p.Log.File = "web.log" }, 2, `"web.log" would be the log file`},
		{"its pid file", func(p *Program) { p.PIDFile = "/run/web.pid" }, 2, `"/run/web.pid" would be the pid file`},
		{"one pid file", func(p *Program) { p.PIDFile = "/run/web.pid" }, 1, ""},
		{"pid files of their own", func(p *Program) { p.PIDFile = "/run/web${SUPERD_REPLICA}.pid" }, 2, ""},
	} {
		p := &Program{Settings: &Settings{}}
		tt.change(p)
		if got := p.RefuseReplicas(tt.n); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
