package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"superd/control"
	"superd/terminal"
)

func newReloadCommand(flags *ctlFlags) *cobra.Command {
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Read the configuration again and put it in force",
		Long: `Reload has superd read its configuration again, and shows what becomes of each program and why: it is
unchanged; the change is applied live, to what runs; a restart is needed, and done; it is added, and
started; it is removed, and stopped. If there is any mistake, nothing changes, and all of them are shown.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			reload := client.Reload
			if dryRun {
				reload = client.DryReload
			}
			report, err := reload(cmd.Context())
			switch {
			case err != nil:
				return err
			case asJSON:
				return printObject(cmd.OutOrStdout(), report)
			}
			return printReport(cmd.OutOrStdout(), &report)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what a reload would do, and do nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// maxUnchanged is how many programs without a change have a row each.
const maxUnchanged = 20

func printReport(w io.Writer, r *control.Report) error {
	differs := len(r.Added)+len(r.Removed)+len(r.Changed)+len(r.Superd) > 0
	if differs {
		if err := printTable(w, reportTable(r)); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	last := ""
	switch {
	case !differs:
		last = "nothing has changed"
	case r.DryRun:
		last = "dry run: nothing was done"
	default:
		return nil
	}
	_, err := fmt.Fprintln(w, last)
	return err
}

// reportTable returns what becomes of each program, and why. Where many are unchanged, they have one row.
func reportTable(r *control.Report) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "PROGRAM"}, {Title: "CHANGE"}, {Title: "WHY"}}}
	add := func(name, change string, keys []control.KeyChange) {
		t.Add(terminal.Cell{Text: terminal.Sanitize(name)}, terminal.Cell{Text: change, Colour: changeColour(change)},
			terminal.Cell{Text: terminal.Sanitize(why(keys, change == "restart needed"))})
	}
	if len(r.Superd) > 0 {
		add("[superd]", "applied live", r.Superd)
	}
	unchanged := 0
	for _, c := range r.Programs {
		if c.Change == "unchanged" {
			unchanged++
		}
	}
	for _, c := range r.Programs {
		if c.Change != "unchanged" || unchanged <= maxUnchanged {
			add(c.Program, c.Change, c.Keys)
		}
	}
	if unchanged > maxUnchanged {
		add(fmt.Sprintf("(%d others)", unchanged), "unchanged", nil)
	}
	return t
}

// why tells the keys that make a change what it is. What only comes along is in brackets.
func why(keys []control.KeyChange, restart bool) string {
	keys = slices.SortedStableFunc(slices.Values(keys), func(a, b control.KeyChange) int {
		return cmp.Compare(rank(a), rank(b))
	})
	var text strings.Builder
	for _, k := range keys {
		if restart && !k.Restart && slices.ContainsFunc(keys, func(other control.KeyChange) bool { return other.Restart && other.Key == k.Key }) {
			continue // such as the new value of what was a mistake
		}
		if text.Len() > 0 {
			text.WriteString("; ")
		}
		if restart && !k.Restart {
			text.WriteString("(live: " + k.Text + ")")
		} else {
			text.WriteString(k.Text)
		}
	}
	return text.String()
}

func rank(k control.KeyChange) int {
	if k.Restart {
		return 0
	}
	return 1
}

func changeColour(change string) terminal.Colour {
	switch change {
	case "restart needed", "removed":
		return terminal.Yellow
	case "added", "applied live":
		return terminal.Green
	}
	return terminal.Dim
}
