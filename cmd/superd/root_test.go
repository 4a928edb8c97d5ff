package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func namesBelow(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// TestNamedCommandsAreMade: of each command that is named alone no other is made, so the names in the lists are those of the commands.
func TestNamedCommandsAreMade(t *testing.T) {
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

// TestAllCommandsAreShown: whoever looks for a command sees all there are.
func TestAllCommandsAreShown(t *testing.T) {
	tests := []struct {
		args string
		want []string
	}{
		{"--help", []string{"run", "check", "ctl", "version", "completion", "help"}},
		{"help", []string{"run", "check", "ctl", "version", "completion", "help"}},
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
