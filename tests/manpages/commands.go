package manpages

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"superd/tests/golden"
)

// commands has a line for each command, and for each of its flags.
const commands = "testdata/v1/commands.txt"

// CheckCommands fails the test for a command or a flag that scripts of users may have, and that is
// gone: docs/compatibility.md promises that they stay. -update adds new ones to the file.
func CheckCommands(t *testing.T, root *cobra.Command) {
	t.Helper()
	text, err := os.ReadFile(commands)
	if err != nil {
		t.Fatal(err)
	}
	promised := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	now := list(root)
	for _, line := range promised {
		if !slices.Contains(now, line) {
			t.Errorf("%s is gone: scripts of users rely on it", line)
		}
	}
	var added []string
	for _, line := range now {
		if !slices.Contains(promised, line) {
			added = append(added, line)
		}
	}
	promised = append(promised, added...)
	if len(added) > 0 && !golden.Update() {
		t.Errorf("%s lacks %q: go test -run %s -update, in this package", commands, added, t.Name())
	}
	if golden.Update() && !t.Failed() {
		slices.Sort(promised)
		if err := os.WriteFile(commands, []byte(strings.Join(promised, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// list returns the lines of cmd and of the commands below it, without hidden ones: those of ctl
// without ctl, and what superd calls itself.
func list(cmd *cobra.Command) []string {
	lines := []string{cmd.CommandPath()}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + " " + name
		}
		if f.Value.Type() != "bool" {
			name += " VALUE"
		}
		lines = append(lines, cmd.CommandPath()+" "+name)
	})
	for _, c := range cmd.Commands() {
		if !c.Hidden && !c.DisableFlagParsing {
			lines = append(lines, list(c)...)
		}
	}
	return lines
}
