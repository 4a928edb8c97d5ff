package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
)

// execute runs the command that args name.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	// Whatever fails before the command itself begins is a wrong command line.
	begun := false
	root := newRootCommand(args)
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true }
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !begun {
		return usageError{fmt.Errorf("%w: see `%s --help`", err, cmd.CommandPath())}
	}
	return err
}

// newRootCommand returns the command with those below it that args may need.
func newRootCommand(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "superd",
		Short: "Supervise programs",
		Long: `superd starts the programs of a TOML file, watches them, restarts or stops them, keeps their output,
and tells what happened and why.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          needCommand,
	}
	named := addNamed(root, args, []subcommand{
		{"run", newRunCommand},
		{"check", newCheckCommand},
		{"ctl", func() *cobra.Command { return newCtlCommand(args) }},
		{"version", newVersionCommand},
		{"stop-post", newStopPostCommand},
	})
	root.CompletionOptions.DisableDefaultCmd = named && !slices.Contains(args, "completion")
	return root
}

// A subcommand is a command below another.
type subcommand struct {
	name string
	make func() *cobra.Command
}

// addNamed adds to parent those commands that args name, wherever they do, and reports whether there are any. Where there are none it adds all: the
// help, a completion or a mistake may need them. To make them all takes a command that asks as long as a tenth of what else it does.
func addNamed(parent *cobra.Command, args []string, all []subcommand) bool {
	isNamed := func(c subcommand) bool { return slices.Contains(args, c.name) }
	named := slices.ContainsFunc(all, isNamed)
	for _, c := range all {
		if !named || isNamed(c) {
			parent.AddCommand(c.make())
		}
	}
	return named
}

// needCommand is what a command does that only has others below it.
func needCommand(cmd *cobra.Command, _ []string) error {
	cmd.SetOut(cmd.ErrOrStderr())
	if err := cmd.Help(); err != nil {
		return err
	}
	return exitStatus(statusUsage)
}
