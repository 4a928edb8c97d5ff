package main

import (
	"cmp"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
)

func newReloadCommand(flags *ctlFlags) *cobra.Command {
	var dryRun, asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "reload [NAME...]",
		Short: "Reload the configuration, or programs",
		Long: `With names, reload makes programs read their own configuration again, by their reload_signal or
reload_command, if their check_command succeeds. It returns when that is done.

Without names, it reads the configuration of superd again, and shows the change of each program and
the reason:

  unchanged       nothing
  applied live    the change applies to the running program
  restart needed  the program is restarted
  added           the program is started
  removed         the program is stopped

If there is any mistake, nothing changes, and all mistakes are shown.`,
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := checkReloadFlags(names, dryRun || asJSON, timeout); err != nil {
				return err
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			if len(names) > 0 {
				outcomes, err := client.ReloadPrograms(cmd.Context(), names, timeout)
				if err != nil {
					return err
				}
				return printResults(outcomes, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			reload := client.Reload
			if dryRun {
				reload = client.DryReload
			}
			result, err := reload(cmd.Context())
			switch {
			case err != nil:
				return err
			case asJSON:
				err = report.Object(cmd.OutOrStdout(), result)
			default:
				err = report.Reload(cmd.OutOrStdout(), &result)
			}
			if result.Unrecorded != "" {
				printUnrecorded(cmd.ErrOrStderr(), "the configuration is in force", result.Unrecorded)
				err = cmp.Or(err, error(exitStatus(statusFailed)))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what a reload would do")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	durationVar(cmd.Flags(), &timeout, "timeout", 0,
		"with names: stop waiting after this `time`, such as 10s; the reload goes on")
	return cmd
}

// checkReloadFlags refuses flags that belong to the other of the two reloads.
func checkReloadFlags(names []string, ofConfiguration bool, timeout time.Duration) error {
	switch {
	case len(names) > 0 && ofConfiguration:
		return usageError{errors.New("read flags: --dry-run and --json are for a reload without names")}
	case len(names) == 0 && timeout > 0:
		return usageError{errors.New("read flags: --timeout is for a reload of programs: add NAME")}
	}
	return nil
}
