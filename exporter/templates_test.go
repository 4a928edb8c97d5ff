package exporter_test

import (
	"strings"
	"testing"

	"superd/exporter"
)

// TestTemplates: what a target replaces in commands, hooks and values is written so that the
// program gets what superd would give it.
func TestTemplates(t *testing.T) {
	const text = `
[program.p]
env_file = "/etc/p.env"
environment = { VALUE = "x$${PATH}", OTHER = "${X}" }
command = ["/bin/p", "$${y}", "%{z}", "a$$${X}", "b$$", "$(date)", "$é", "c${X}"]
post_start = [["/bin/q", "$(date)", "$$$$"]]
health = { exec = ["/bin/r", "$(date)"] }
`
	for _, tt := range []struct {
		format      string
		parts, keys []string
	}{
		{"nomad", []string{
			// The job is read as HCL, and then the driver reads what is in config as HCL
			`["$$${y}", "%%%{z}", "a$${\"$\"}$${X}", "b$", "$(date)", "$é", "c$${X}"]`,
			`VALUE = "x$${PATH}"`, `["$(date)", "$$"]`,
		}, []string{
			"environment: Nomad replaces ${PATH}", "environment: ${X} is not known when Nomad makes the values",
		}},
		{"kubernetes", []string{
			`[/bin/p, "${y}", "%{z}", "a$$$(X)", "b$", "$$(date)", "$$é", "c$(X)"]`,
			`[/bin/q, "$(date)", "$$"]`, // nothing is replaced in hooks
			`[/bin/r, "$$(date)"]`,
		}, nil},
	} {
		f, err := exporter.Find(tt.format)
		if err != nil {
			t.Fatal(err)
		}
		e, err := f.Export(loadText(t, t.TempDir(), text), options)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range tt.parts {
			if !strings.Contains(e.Files[0].Text, part) {
				t.Errorf("%s has not %s:\n%s", tt.format, part, e.Files[0].Text)
			}
		}
		for _, key := range tt.keys {
			if !strings.Contains(e.Files[0].Text, "# "+key) {
				t.Errorf("%s has no note on %s", tt.format, key)
			}
		}
	}
}

// TestHome: in units of the system %h is the home of root, not that of the user.
func TestHome(t *testing.T) {
	const text = `
[program.p]
user = "daemon"
environment = { CONFIG = "${HOME}/.p" }
directory = "${HOME}"
command = ["/bin/p", "${HOME}/x"]
`
	f, err := exporter.Find("systemd")
	if err != nil {
		t.Fatal(err)
	}
	e, err := f.Export(loadText(t, t.TempDir(), text), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"WorkingDirectory=~", "ExecStart=/bin/p ${HOME}/x",
		"# environment: ${HOME} is not known there: write its value",
	} {
		if !strings.Contains(e.Files[0].Text, line+"\n") {
			t.Errorf("the unit has no line %s:\n%s", line, e.Files[0].Text)
		}
	}
}
