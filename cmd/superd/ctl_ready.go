package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"superd/internal/terminal"
)

func newReadyCommand(flags *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "ready NAME...",
		Short: "Report by the exit status whether programs are ready",
		Long: `Ready prints nothing and ends with status 0 if all instances of the programs run and are ready.
Otherwise it names those that are not, and ends with status 3.`,
		Example: `  superd ctl ready db && ./migrate
  superd ctl ready 'web*'`,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			all, err := client.Brief(cmd.Context(), names)
			if err != nil {
				return err
			}
			for _, b := range all {
				if !b.Up() {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: not ready: %s\n", terminal.Sanitize(b.Name), b.State)
					err = exitStatus(statusNotUp)
				}
			}
			return err
		},
	}
}
