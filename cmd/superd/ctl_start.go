package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
)

func newStartCommand(flags *ctlFlags) *cobra.Command {
	return newProgramsCommand(flags, "start", "Start programs",
		`Start starts programs, and resets their start limit. It returns when they are ready or have failed.
Start waits for a one-shot until it ends.`, new(bool))
}

func newStopCommand(flags *ctlFlags) *cobra.Command {
	return newProgramsCommand(flags, "stop", "Stop programs",
		`Stop stops programs, and returns when they have ended. They stay stopped until they are
started by a command, also when superd is restarted.`, new(bool))
}

func newRestartCommand(flags *ctlFlags) *cobra.Command {
	var rolling bool
	cmd := newProgramsCommand(flags, "restart", "Stop programs and start them again",
		`Restart stops programs and those that require them, then starts all of them. It returns when they
are ready or have failed. With --rolling it restarts one instance after the other, and ends at the
first that fails.`, &rolling)
	cmd.Flags().BoolVar(&rolling, "rolling", false,
		"restart one instance after the other, each when the one before is ready")
	return cmd
}

// newProgramsCommand returns the command start, stop or restart, as verb says. rolling is the flag
// of restart, false for the others.
func newProgramsCommand(flags *ctlFlags, verb, short, long string, rolling *bool) *cobra.Command {
	var noWait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:               verb + " NAME...",
		Short:             short,
		Long:              long,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			if noWait && timeout > 0 {
				return usageError{errors.New("read flags: --no-wait and --timeout cannot be combined")}
			}
			if noWait && *rolling {
				return usageError{errors.New("read flags: --rolling and --no-wait cannot be combined")}
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			var outcomes []control.CommandResult
			if *rolling {
				outcomes, err = client.RestartRolling(cmd.Context(), names, timeout)
			} else {
				outcomes, err = client.Command(cmd.Context(), verb, names, !noWait, timeout)
			}
			if err != nil {
				return err
			}
			return printResults(outcomes, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it is done")
	durationVar(cmd.Flags(), &timeout, "timeout", 0,
		"stop waiting after this `time`, such as 10s; the command stays in effect")
	return cmd
}
