package main

import (
	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
)

func newSocketsCommand(flags *ctlFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sockets",
		Short: "Show the sockets that superd holds",
		Long: `Sockets shows what superd listens on for programs: which programs get it, how many connections
wait, and which processes can accept them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			all, err := client.Sockets(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return report.JSON(cmd.OutOrStdout(), all)
			}
			return report.Table(cmd.OutOrStdout(), report.SocketTable(all))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}
