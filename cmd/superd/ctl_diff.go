package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
)

func newDiffCommand(flags *ctlFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff [NAME...]",
		Short: "Compare the configuration files with what is in force",
		Long: `Diff reads the configuration files and shows each key whose meaning differs from the configuration
in force, with the value in force (-) and the one in the files (+), and what a reload would do. With
names it shows only these programs. Values that may be secrets are not shown.

The exit status is 0 without differences, and 1 if there are some, as that of diff(1).`,
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			result, err := client.DryReload(cmd.Context())
			if err != nil {
				return err
			}
			if err := onlyPrograms(&result, names); err != nil {
				return err
			}
			if asJSON {
				err = report.Object(cmd.OutOrStdout(), result)
			} else {
				err = report.Diff(cmd.OutOrStdout(), &result)
			}
			if err == nil && report.Differs(&result) {
				err = exitStatus(statusFailed)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object, as reload --dry-run --json")
	return cmd
}

// onlyPrograms removes from r what does not concern the programs of these names, if there are any.
func onlyPrograms(r *control.ReloadResult, names []string) error {
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(r.Programs, func(c control.Change) bool { return c.Program == name }) {
			return fmt.Errorf("compare configuration: no program is named %q", name)
		}
	}
	other := func(name string) bool { return !slices.Contains(names, name) }
	r.Programs = slices.DeleteFunc(r.Programs, func(c control.Change) bool { return other(c.Program) })
	for _, list := range []*[]string{&r.Added, &r.Removed, &r.Changed} {
		*list = slices.DeleteFunc(*list, other)
	}
	r.Superd, r.Sockets = r.Superd[:0], r.Sockets[:0]
	return nil
}
