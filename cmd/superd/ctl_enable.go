package main

import (
	"time"

	"github.com/spf13/cobra"

	"superd/control"
)

func newEnableCommand(flags *ctlFlags) *cobra.Command {
	return newEnablementCommand(flags, true, "enable", "Have programs start with superd",
		`Enable has programs start with superd, whatever their key autostart says, until superd ctl disable.
It does not start them now: --now does. The configuration file is not changed: the decision stands
in a file beside it, FILE.autostart. It holds when superd or the machine is restarted. Where the
configuration says the same, the file has no line, and a later change of the configuration counts.`,
		"start them now, too")
}

func newDisableCommand(flags *ctlFlags) *cobra.Command {
	return newEnablementCommand(flags, false, "disable", "Have programs not start with superd",
		`Disable has programs not start with superd, whatever their key autostart says, until superd ctl
enable. It does not stop them now: --now does. A program that requires one starts it nevertheless.
The configuration file is not changed: the decision stands in a file beside it, FILE.autostart. It
holds when superd or the machine is restarted. Where the configuration says the same, the file has
no line, and a later change of the configuration counts.`,
		"stop them now, too")
}

func newEnablementCommand(flags *ctlFlags, starts bool, verb, short, long, usageNow string) *cobra.Command {
	var now bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:               verb + " NAME...",
		Short:             short,
		Long:              long,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			results, err := client.Enable(cmd.Context(), names, starts)
			if err != nil {
				return err
			}
			err = printResults(results, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err != nil || !now {
				return err
			}
			return startOrStop(cmd, client, results, starts, timeout)
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, usageNow)
	durationVar(cmd.Flags(), &timeout, "timeout", 0,
		"with --now: stop waiting after this `time`, such as 10s; the command stays in effect")
	return cmd
}

// startOrStop starts or stops the programs of results.
func startOrStop(cmd *cobra.Command, client *control.Client, results []control.CommandResult, starts bool, timeout time.Duration) error {
	verb := "stop"
	if starts {
		verb = "start"
	}
	var programs []string
	for _, r := range results {
		programs = append(programs, r.Name)
	}
	outcomes, err := client.Command(cmd.Context(), verb, programs, true, timeout)
	if err != nil {
		return err
	}
	return printResults(outcomes, cmd.OutOrStdout(), cmd.ErrOrStderr())
}
