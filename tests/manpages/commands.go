package manpages

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"superd/tests/golden"
)

// CheckCommands fails the test for a command or a flag that scripts of users may have, and that is
// gone. testdata/v1/commands.txt has a line for each.
func CheckCommands(t *testing.T, root *cobra.Command) {
	t.Helper()
	golden.Promise(t, "commands.txt", list(root))
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
