package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// execute runs the command that args name.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	// Whatever fails before the command itself begins is a wrong command line.
	begun := false
	root := newRootCommand()
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

func newRootCommand() *cobra.Command {
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
	root.AddCommand(newRunCommand(), newCheckCommand(), newCtlCommand(), newVersionCommand(), newStopPostCommand())
	return root
}

// needCommand is what a command does that only has others below it.
func needCommand(cmd *cobra.Command, _ []string) error {
	cmd.SetOut(cmd.ErrOrStderr())
	if err := cmd.Help(); err != nil {
		return err
	}
	return exitStatus(statusUsage)
}
