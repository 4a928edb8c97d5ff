package main

import (
	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
)

func newTreeCommand(flags *ctlFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tree [NAME…]",
		Short: "Show the processes of programs",
		Long: `Tree shows the processes of programs: the main process, marked with *, hooks, and all their
descendants. Processes that cannot be attributed to a program come last.`,
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			all, err := client.Tree(cmd.Context(), args)
			if err != nil {
				return err
			}
			if asJSON {
				return report.JSON(cmd.OutOrStdout(), all)
			}
			return report.Tree(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}
