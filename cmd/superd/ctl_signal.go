package main

import (
	"github.com/spf13/cobra"
)

func newSignalCommand(flags *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "signal SIGNAL NAME...",
		Short: "Send a signal to the main process of programs",
		Long:  "Signal sends a signal, such as HUP, SIGHUP or 1, to the main process of programs.",
		Args:  needArgs("SIGNAL", "NAME"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []cobra.Completion{"HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP"}, cobra.ShellCompDirectiveNoFileComp
			}
			return flags.completeNames(cmd, args, word)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			outcomes, err := client.Signal(cmd.Context(), args[0], args[1:])
			if err != nil {
				return err
			}
			return printResults(outcomes, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}
