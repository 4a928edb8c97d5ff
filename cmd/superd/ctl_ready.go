package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"superd/cmd/superd/await"
	"superd/internal/terminal"
)

func newReadyCommand(flags *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "ready [NAME...]",
		Short: "Report by the exit status whether programs are ready",
		Long: `Ready prints nothing and ends with status 0 if all instances of the programs run and are ready.
Otherwise it names those that are not, and ends with status 3. A program without instances is not
ready.

Without names it is a check of health for all: instances that are down as they should be count as
ready, and unhealthy ones do not. Down as they should be are those that are stopped, that have ended
with success, and that wait for their schedule or for a connection.`,
		Example: `  superd ctl ready db && ./migrate
  superd ctl ready 'web*'
  HEALTHCHECK CMD ["superd", "ctl", "ready"]     in a Dockerfile`,
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			all, err := await.Ready(cmd.Context(), client, names)
			if err != nil {
				return err
			}
			for _, n := range all {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: not ready: %s\n", terminal.Sanitize(n.Name), n.Why)
				err = exitStatus(statusNotUp)
			}
			return err
		},
	}
}
