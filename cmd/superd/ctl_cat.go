package main

import (
	"io"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
)

func newCatCommand(flags *ctlFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cat NAME...",
		Short: "Show the configuration of programs that is in force",
		Long: `Cat shows the table of each program as it is in force, which the files may not be any more: the keys
that differ from the built-in defaults, with what [defaults] sets. Values of variables are hidden.
superd ctl diff shows what the files have that is not in force.`,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			all, err := client.Config(cmd.Context(), names)
			if err != nil {
				return err
			}
			if asJSON {
				return report.JSON(cmd.OutOrStdout(), all)
			}
			for i, c := range all {
				text := sanitizeLines(c.Text)
				if i > 0 {
					text = "\n" + text
				}
				if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func newResetFailedCommand(flags *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "reset-failed NAME...",
		Short: "Forget the failures of programs",
		Long: `Reset-failed clears the start limit and the counters of failures and restarts. A program that has
failed becomes stopped, and stays so until it is started. Others run on or are restarted as before.`,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			results, err := client.ResetFailed(cmd.Context(), names)
			if err != nil {
				return err
			}
			return printResults(results, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}
