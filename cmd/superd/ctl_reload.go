package main

import (
	"cmp"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/await"
	"superd/cmd/superd/report"
	"superd/control"
)

func newReloadCommand(flags *ctlFlags) *cobra.Command {
	var dryRun, asJSON, wait bool
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

If there is any mistake, nothing changes, and all mistakes are shown.

With --wait it returns when all of that is done, rolling restarts included, and shows what has
become of each instance. The exit status is 1 if one has failed, or runs with its former definition
since a rolling restart has failed.`,
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := checkReloadFlags(names, dryRun, asJSON, wait, timeout); err != nil {
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
			if err == nil && !asJSON {
				err = report.Reload(cmd.OutOrStdout(), &result)
			}
			var instances []control.CommandResult
			if err == nil && wait {
				instances, err = await.Reload(cmd.Context(), client, &result, timeout)
			}
			switch {
			case err != nil:
				return err
			case asJSON:
				err = cmp.Or(report.Object(cmd.OutOrStdout(), awaited{result, instances}), commandStatus(instances))
			default:
				err = printResults(instances, cmd.OutOrStdout(), cmd.ErrOrStderr())
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
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until programs are started, stopped and restarted")
	durationVar(cmd.Flags(), &timeout, "timeout", 0,
		"with names or --wait: stop waiting after this `time`, such as 10s; the reload goes on")
	return cmd
}

// An awaited is a reload with what has become of the instances that it concerns.
type awaited struct {
	control.ReloadResult
	Instances []control.CommandResult `json:"instances,omitzero"`
}

// checkReloadFlags refuses flags that belong to the other of the two reloads.
func checkReloadFlags(names []string, dryRun, asJSON, wait bool, timeout time.Duration) error {
	switch {
	case len(names) > 0 && (dryRun || asJSON || wait):
		return usageError{errors.New("read flags: --dry-run, --json and --wait are for a reload without names")}
	case dryRun && wait:
		return usageError{errors.New("read flags: --dry-run and --wait cannot be combined")}
	case len(names) == 0 && !wait && timeout > 0:
		return usageError{errors.New("read flags: --timeout is for a reload that waits: add --wait or NAME")}
	}
	return nil
}
