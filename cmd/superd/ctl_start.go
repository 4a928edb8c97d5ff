package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
)

func newStartCommand(flags *ctlFlags) *cobra.Command {
	return newProgramsCommand(flags, "start", "Start programs",
		"Start starts programs whatever limit they have run into, and returns when they run or can't.", new(bool))
}

func newStopCommand(flags *ctlFlags) *cobra.Command {
	return newProgramsCommand(flags, "stop", "Stop programs",
		"Stop stops programs and returns when they have ended. They stay down until they are started.", new(bool))
}

func newRestartCommand(flags *ctlFlags) *cobra.Command {
	var rolling bool
	cmd := newProgramsCommand(flags, "restart", "Stop programs and start them again",
		`Restart stops programs that run, starts all that are named, and returns when they run or can't. With --rolling
it does so with one instance after the other, and ends with the first that can't.`, &rolling)
	cmd.Flags().BoolVar(&rolling, "rolling", false, "one after the other, each when the one before runs")
	return cmd
}

// newProgramsCommand returns the command that start, stop and restart are, by its verb. rolling is that of a restart.
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
			if timeout < 0 || noWait && timeout > 0 {
				return usageError{errors.New("read --timeout: it must be positive and is not for --no-wait")}
			}
			if noWait && *rolling {
				return usageError{errors.New("read flags: --rolling and --no-wait do not go together")}
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			var outcomes []control.Outcome
			if *rolling {
				outcomes, err = client.RestartRolling(cmd.Context(), names, timeout)
			} else {
				outcomes, err = client.Command(cmd.Context(), verb, names, !noWait, timeout)
			}
			if err != nil {
				return err
			}
			return printOutcomes(outcomes, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return at once")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "stop waiting after this `time`, such as 10s; superd goes on")
	return cmd
}
