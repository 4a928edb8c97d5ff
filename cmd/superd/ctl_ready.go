package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"superd/control"
	"superd/internal/terminal"
)

func newReadyCommand(flags *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "ready [NAME...]",
		Short: "Report by the exit status whether programs are ready",
		Long: `Ready prints nothing and ends with status 0 if all instances of the programs run and are ready.
Otherwise it names those that are not, and ends with status 3.

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
			say := func(name, state string) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: not ready: %s\n", terminal.Sanitize(name), state)
				err = exitStatus(statusNotUp)
			}
			if len(names) == 0 {
				all, failed := client.Status(cmd.Context(), nil)
				if failed != nil {
					return failed
				}
				for i := range all {
					if why := notWell(&all[i]); why != "" {
						say(all[i].Name, why)
					}
				}
				return err
			}
			all, failed := client.Brief(cmd.Context(), names)
			if failed != nil {
				return failed
			}
			for _, b := range all {
				if !b.Up() {
					say(b.Name, b.State)
				}
			}
			return err
		},
	}
}

// notWell returns why an instance is neither ready nor down as it should be; "" if it is.
func notWell(s *control.Status) string {
	switch {
	case s.State == control.StateRunning && s.Healthy != nil && !*s.Healthy:
		return "unhealthy"
	case s.State == control.StateRunning, s.State == control.StateStopped, s.State == control.StateExited:
		return ""
	case s.State == control.StateWaiting && s.ReasonKind != nil &&
		(*s.ReasonKind == control.ReasonWaitsForSchedule || *s.ReasonKind == control.ReasonWaitsForConnection):
		return ""
	}
	return s.State
}
