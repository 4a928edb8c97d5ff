package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
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
				err = printReloadResult(cmd.OutOrStdout(), &result)
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

// maxUnchanged is how many unchanged programs may have a row each.
const maxUnchanged = 20

// differs reports whether a reload changes anything.
func differs(r *control.ReloadResult) bool {
	return len(r.Added)+len(r.Removed)+len(r.Changed)+len(r.Superd)+len(r.Sockets) > 0
}

func printReloadResult(w io.Writer, r *control.ReloadResult) error {
	if differs(r) {
		if err := report.Table(w, reloadTable(r)); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", report.OneLine(note))
	}
	last := ""
	switch {
	case !differs(r):
		last = "nothing has changed"
	case r.DryRun:
		last = "dry run: nothing was done"
	default:
		return nil
	}
	_, err := fmt.Fprintln(w, last)
	return err
}

// reloadTable returns the change of each program and its reason. If more than maxUnchanged programs
// are unchanged, they share one row.
func reloadTable(r *control.ReloadResult) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "PROGRAM"}, {Title: "CHANGE"}, {Title: "WHY"}}}
	add := func(name, change string, keys []control.KeyChange) {
		t.Add(terminal.Cell{Text: terminal.Sanitize(name)}, terminal.Cell{Text: change, Colour: changeColour(change)},
			terminal.Cell{Text: terminal.Sanitize(why(keys, change == control.ChangeRestart))})
	}
	if len(r.Superd) > 0 {
		add("[superd]", control.ChangeLive, r.Superd)
	}
	for _, c := range r.Sockets {
		text := why(c.Keys, c.Change == control.ChangeRestart)
		for _, part := range []struct {
			does      string
			addresses []string
		}{{"opens ", c.Opened}, {"closes ", c.Closed}} {
			if len(part.addresses) == 0 {
				continue
			}
			if text != "" {
				text += "; "
			}
			text += part.does + strings.Join(part.addresses, ", ")
		}
		t.Add(terminal.Cell{Text: "[socket." + c.Socket + "]"}, terminal.Cell{Text: c.Change, Colour: changeColour(c.Change)},
			terminal.Cell{Text: terminal.Sanitize(text)})
	}
	unchanged := 0
	for _, c := range r.Programs {
		if c.Change == control.ChangeUnchanged {
			unchanged++
		}
	}
	for _, c := range r.Programs {
		if c.Change != control.ChangeUnchanged || unchanged <= maxUnchanged {
			add(c.Program, c.Change, c.Keys)
		}
	}
	if unchanged > maxUnchanged {
		add(fmt.Sprintf("(%d others)", unchanged), control.ChangeUnchanged, nil)
	}
	return t
}

// why lists the keys that cause a change. In a restart, keys that would apply live are in brackets.
func why(keys []control.KeyChange, restart bool) string {
	keys = slices.SortedStableFunc(slices.Values(keys), func(a, b control.KeyChange) int {
		return cmp.Compare(rank(a), rank(b))
	})
	var text strings.Builder
	for _, k := range keys {
		if restart && !k.Restart && slices.ContainsFunc(keys, func(other control.KeyChange) bool { return other.Restart && other.Key == k.Key }) {
			continue // such as the new value of a corrected mistake
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
	case control.ChangeRestart, control.ChangeRemoved:
		return terminal.Yellow
	case control.ChangeAdded, control.ChangeLive:
		return terminal.Green
	}
	return terminal.Dim
}
