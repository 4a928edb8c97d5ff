package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"superd/control"
)

func newReloadCommand(flags *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Read the configuration again and put it in force",
		Long: `Reload has superd read its configuration again. Programs that were added are started, those that were
removed are stopped, those that were changed are restarted. If there is any mistake, nothing changes.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			report, err := client.Reload(cmd.Context())
			if err != nil {
				return err
			}
			printReport(cmd.OutOrStdout(), report)
			return nil
		},
	}
}

func printReport(w io.Writer, r control.Report) {
	if len(r.Added)+len(r.Removed)+len(r.Changed) == 0 {
		fmt.Fprintln(w, "nothing has changed")
	}
	for _, part := range []struct {
		what  string
		names []string
	}{{"added", r.Added}, {"removed", r.Removed}, {"changed", r.Changed}} {
		if len(part.names) > 0 {
			fmt.Fprintf(w, "%s: %s\n", part.what, strings.Join(part.names, " "))
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}
