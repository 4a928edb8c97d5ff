package exporter_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"superd/config"
	"superd/exporter"
	"superd/exporter/manifest"
)

// TestOddVariables: names and values that TOML has to quote are exported as they are.
func TestOddVariables(t *testing.T) {
	const path = "/srv/odd/superd.toml"
	c, err := config.ExamineEdited(path, path, `
		[program.web]
		command = "web"
		environment = { A = "1", "x.y" = "2", "é" = "3", B = "a\u001b[1m\u0007\"\\" }
		`)
	if err != nil || len(c.Errors) > 0 {
		t.Fatal(err, c.Errors)
	}
	want := c.Program("web").Environment
	for _, w := range ways(t) {
		if w.name == "systemd" && !w.whole || w.name == "compose" && !w.whole {
			continue // systemd and Docker have names of their own for it
		}
		back, _, _ := w.there(t, c)
		if got := back.Program("web").Environment; !maps.Equal(got, want) {
			t.Errorf("%s, whole %v: %q, want %q", w.name, w.whole, got, want)
		}
	}
}

// TestSchedulesAndHooks: a schedule starts each replica by a timer of its own, and none at boot.
// The hooks of a program that does not start by itself don't either.
func TestSchedulesAndHooks(t *testing.T) {
	const path = "/srv/night/superd.toml"
	c, err := config.ExamineEdited(path, path, `
		[program.night]
		command = "night"
		type = "oneshot"
		schedule = "0 4 * * *"
		replicas = 2
		pre_start = [["prepare"]]
		`)
	if err != nil || len(c.Errors) > 0 {
		t.Fatal(err, c.Errors)
	}
	for format, want := range map[string]map[string]string{
		"systemd": {
			"night.target": "Wants=night@1.timer night@2.timer\n\n[Install]\nWantedBy=timers.target",
			"night@.timer": "OnCalendar=*-*-* 04:00:00",
		},
		"compose": {"compose.yaml": "entrypoint: [prepare]"},
	} {
		f, err := exporter.Find(format)
		if err != nil {
			t.Fatal(err)
		}
		e, err := f.Export(c, options)
		if err != nil {
			t.Fatal(err)
		}
		for name, part := range want {
			i := slices.IndexFunc(e.Files, func(f manifest.File) bool { return f.Name == name })
			if i < 0 {
				t.Errorf("%s: there is no %s: %v", format, name, e.Files)
			} else if text := e.Files[i].Text; !strings.Contains(text, part) || format == "compose" && strings.Count(text, "[manual]") != 2 {
				t.Errorf("%s: want %q in %s:\n%s", format, part, name, text)
			}
		}
	}
}
