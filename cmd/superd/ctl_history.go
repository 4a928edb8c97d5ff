package main

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
	"superd/terminal"
)

func newHistoryCommand(flags *ctlFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history [NAME...]",
		Short: "Show the runs of programs",
		Long: `History shows when programs have run, how each run ended, how long it took, and what processor time and
memory it used; the oldest first, as far back as the log of events goes.

Memory is that of the largest process. Where it is shown as <20M, all that is known is that it was less: the
kernel counts the memory of superd itself, from which the process was forked.`,
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			return showHistory(cmd.Context(), client, names, asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func showHistory(ctx context.Context, client *control.Client, names []string, asJSON bool, stdout io.Writer) error {
	all, err := client.History(ctx, names)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(stdout, all)
	}
	return printTable(stdout, historyTable(all, time.Now(), terminal.NewPalette()))
}

// historyTable returns runs as people see them.
func historyTable(all []control.Run, now time.Time, names *terminal.Palette) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "NAME"},
		{Title: "STARTED", Rank: 1},
		{Title: "ENDED", Rank: 4},
		{Title: "RAN", Right: true, Rank: 2},
		{Title: "CPU", Right: true, Rank: 5},
		{Title: "MEMORY", Right: true, Rank: 6},
		{Title: "PID", Right: true, Rank: 3},
		{Title: "EXIT"},
	}}
	for i := range all {
		r := &all[i]
		ran := shown(r.Duration, seconds)
		exit := terminal.Cell{Text: shown(r.Reason, oneLine), Colour: runColour(r)}
		if r.Reason == nil {
			exit.Text = "running"
			ran = shown(r.Started, func(t time.Time) string { return seconds(max(now.Sub(t), 0).Seconds()) })
		}
		t.Add(
			terminal.Cell{Text: terminal.Sanitize(r.Name), Colour: names.Colour(r.Name)},
			terminal.Cell{Text: shown(r.Started, func(t time.Time) string { return clock(t, now) })},
			terminal.Cell{Text: shown(r.Ended, func(t time.Time) string { return clock(t, now) })},
			terminal.Cell{Text: ran},
			terminal.Cell{Text: shown(r.CPU, cpuTime)},
			terminal.Cell{Text: shown(r.MaxRSS, func(bytes int64) string { return peak(bytes, r.RSSBound) })},
			terminal.Cell{Text: shown(r.Pid, strconv.Itoa)},
			exit,
		)
	}
	return t
}

// oneLine makes text harmless that may have several lines.
func oneLine(text string) string { return terminal.Sanitize(strings.ReplaceAll(text, "\n", "; ")) }

func runColour(r *control.Run) terminal.Colour {
	switch {
	case r.Reason == nil:
		return terminal.Green
	case r.Pid == nil, r.Exit != nil && (r.Exit.Code == nil || *r.Exit.Code != 0):
		return terminal.Red
	}
	return terminal.NoColour
}
