package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
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
				err = printDiff(cmd.OutOrStdout(), &result)
			}
			if err == nil && differs(&result) {
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

// printDiff prints the keys that differ, below the table that has them.
func printDiff(w io.Writer, r *control.ReloadResult) error {
	colour := terminal.Detect(w, os.Getenv).Colour
	var text strings.Builder
	line := func(c terminal.Colour, format string, args ...any) {
		s := terminal.Sanitize(fmt.Sprintf(format, args...))
		if colour {
			s = c.Paint(s)
		}
		text.WriteString(s + "\n")
	}
	table := func(name, change string, keys []control.KeyChange) {
		line(terminal.Bold, "[%s] %s", name, change)
		for _, k := range keys {
			if k.Old == nil && k.New == nil {
				line(terminal.Yellow, "~ %s", k.Text)
			}
			if k.Old != nil {
				line(terminal.Red, "- %s = %s", k.Key, *k.Old)
			}
			if k.New != nil {
				line(terminal.Green, "+ %s = %s", k.Key, *k.New)
			}
		}
	}
	if len(r.Superd) > 0 {
		table("superd", control.ChangeLive, r.Superd)
	}
	for _, c := range r.Sockets {
		table("socket."+c.Socket, c.Change, c.Keys)
	}
	for _, c := range r.Programs {
		if c.Change != control.ChangeUnchanged {
			table("program."+c.Program, c.Change, c.Keys)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
