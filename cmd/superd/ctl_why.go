package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
)

func newWhyCommand(flags *ctlFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why NAME...",
		Short: "Explain the state of programs",
		Long: `Why explains the state of programs: since when, the desired state and who set it, what it waits for
and until when, how the last runs ended, and the last lines of a run that failed.`,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			return showWhy(cmd.Context(), client, args, asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func showWhy(ctx context.Context, client *control.Client, names []string, asJSON bool, stdout io.Writer) error {
	all, err := client.Why(ctx, names)
	if err != nil {
		return err
	}
	if asJSON {
		return report.JSON(stdout, all)
	}
	var b strings.Builder
	for i, w := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		for line := range strings.Lines(w.Text) {
			b.WriteString(terminal.Sanitize(line) + "\n")
		}
	}
	_, err = io.WriteString(stdout, b.String())
	return err
}
