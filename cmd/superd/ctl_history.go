package main

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
)

func newHistoryCommand(flags *ctlFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history [NAME...]",
		Short: "Show the runs of programs",
		Long: `History shows the runs of programs, the oldest first: when each began, how it ended, how long it
took, and the processor time and memory it used. It goes back as far as the event log. RUN is the
beginning of the run's id, which ` + "`superd logs --run`" + ` accepts.

Memory is the peak of the largest process. <20M means that it was less than 20M: the kernel counts
from the memory of superd itself, from which the process was forked.`,
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
		return report.JSON(stdout, all)
	}
	return report.Table(stdout, historyTable(all, time.Now(), terminal.NewPalette()))
}

// runBytes is how many bytes of a run's id are shown: enough to distinguish runs.
const runBytes = 8

// historyTable returns runs as a table for people.
func historyTable(all []control.Run, now time.Time, names *terminal.Palette) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "NAME"},
		{Title: "STARTED", Rank: 1},
		{Title: "ENDED", Rank: 5},
		{Title: "RAN", Right: true, Rank: 2},
		{Title: "CPU", Right: true, Rank: 6},
		{Title: "MEMORY", Right: true, Rank: 7},
		{Title: "PID", Right: true, Rank: 3},
		{Title: "RUN", Rank: 4},
		{Title: "EXIT"},
	}}
	for i := range all {
		r := &all[i]
		ran := report.Shown(r.Duration, report.Seconds)
		exit := terminal.Cell{Text: report.Shown(r.Reason, report.OneLine), Colour: runColour(r)}
		if r.Reason == nil {
			exit.Text = "running"
			ran = report.Shown(r.Started, func(t time.Time) string { return report.Seconds(max(now.Sub(t), 0).Seconds()) })
		}
		t.Add(
			terminal.Cell{Text: terminal.Sanitize(r.Name), Colour: names.Colour(r.Name)},
			terminal.Cell{Text: report.Shown(r.Started, func(t time.Time) string { return report.Clock(t, now) })},
			terminal.Cell{Text: report.Shown(r.Ended, func(t time.Time) string { return report.Clock(t, now) })},
			terminal.Cell{Text: ran},
			terminal.Cell{Text: report.Shown(r.CPU, report.CPUTime)},
			terminal.Cell{Text: report.Shown(r.MaxRSS, func(bytes int64) string { return report.Peak(bytes, r.RSSBound) })},
			terminal.Cell{Text: report.Shown(r.Pid, strconv.Itoa)},
			terminal.Cell{Text: terminal.Sanitize(r.Run[:min(len(r.Run), runBytes)])},
			exit,
		)
	}
	return t
}

func runColour(r *control.Run) terminal.Colour {
	switch {
	case r.Reason == nil:
		return terminal.Green
	case r.Pid == nil, r.Exit != nil && (r.Exit.Code == nil || *r.Exit.Code != 0):
		return terminal.Red
	}
	return terminal.NoColour
}
