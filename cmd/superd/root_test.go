package main

import (
	"bytes"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func namesBelow(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// TestNamedCommandsAreBuilt checks that naming a command makes that one only, so that the names in
// the lists are those of the commands.
func TestNamedCommandsAreBuilt(t *testing.T) {
	root := newRootCommand(nil)
	for _, name := range namesBelow(root) {
		if got := namesBelow(newRootCommand([]string{name})); !slices.Equal(got, []string{name}) {
			t.Errorf("superd %s has the commands %q", name, got)
		}
	}
	ctl, _, err := root.Find([]string{"ctl"})
	if err != nil {
		t.Fatal(err)
	}
	all := namesBelow(ctl)
	if len(all) < 15 {
		t.Errorf("superd ctl has the commands %q", all)
	}
	for _, name := range all {
		if got := namesBelow(newCtlCommand([]string{"ctl", name})); !slices.Equal(got, []string{name}) {
			t.Errorf("superd ctl %s has the commands %q", name, got)
		}
	}
}

// TestAllCommandsAreShown checks that help and completion list all commands.
func TestAllCommandsAreShown(t *testing.T) {
	tests := []struct {
		args string
		want []string
	}{
		{"--help", []string{"run", "check", "ctl", "schema", "version", "completion", "help"}},
		{"help", []string{"run", "check", "ctl", "schema", "version", "completion", "help"}},
		{"__complete c", []string{"check", "ctl", "completion"}},
		{"__complete ctl st", []string{"status", "start", "stop"}},
		{"__complete ctl status --", []string{"--brief", "--runtime-dir"}},
		{"ctl --help", []string{"status", "start", "upgrade"}},
		{"help ctl", []string{"status", "start", "upgrade"}},
		{"ctl stat start", []string{`unknown command "stat" for "superd ctl"`}},
		{"completion bash", []string{"__start_superd"}},
		{"completion run --help", []string{"bash", "zsh"}},
		{"help ctl status", []string{"--brief", "--runtime-dir"}},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		run(t.Context(), strings.Fields(tt.args), &out, &out)
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("superd %s prints\n%s\nwithout %q", tt.args, &out, want)
			}
		}
	}
}

// TestHelpFits checks that help texts end at column 100 and short descriptions at column 60.
func TestHelpFits(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if n := utf8.RuneCountInString(cmd.Short); n > 60 && !cmd.Hidden {
			t.Errorf("%s: the short help has %d columns", cmd.CommandPath(), n)
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: a line of help has %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(newRootCommand(nil))
}

func TestCount(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{count(0, "mistake"), "no mistakes"},
		{count(1, "mistake"), "1 mistake"},
		{count(2, "mistake"), "2 mistakes"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

func TestBuiltFrom(t *testing.T) {
	of := func(pairs ...string) (all []debug.BuildSetting) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return all
	}
	const hash, at = "5f3c11aa0b2199c0ffee5f3c11aa0b2199c0ffee", "2026-11-21T07:20:45Z"
	tests := []struct {
		name     string
		settings []debug.BuildSetting
		want     string
	}{
		{"a commit", of("vcs.revision", hash, "vcs.time", at, "vcs.modified", "false"), "5f3c11aa0b21, 2026-11-21"},
		{"modified", of("vcs.revision", hash, "vcs.time", at, "vcs.modified", "true"), "5f3c11aa0b21-modified, 2026-11-21"},
		{"without a date", of("vcs.revision", hash), "5f3c11aa0b21"},
		{"no repository", of("GOOS", "linux"), ""},
	}
	for _, tt := range tests {
		commit, date := builtFrom(tt.settings)
		got := ""
		if commit != nil {
			got = builtFromText(*commit, date)
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
