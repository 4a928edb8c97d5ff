package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
)

func newEventsCommand(flags *ctlFlags) *cobra.Command {
	var since, lines string
	var asJSON bool
	var query control.EventQuery
	cmd := &cobra.Command{
		Use:   "events [NAME...]",
		Short: "Show the event log",
		Long: `Events shows changes of state, starts, ends and commands, the oldest first: of all programs and of
superd itself, or of the programs named. The event log in the runtime directory holds them. Each
event has a number, its cursor. The numbers are consecutive. A gap marks events that were removed as
too old, or could not be written.`,
		Example: `  superd events -n 20          the last ones
  superd events --since 10m web
  superd events -f             all events, then new ones`,
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			var err error
			if query.Lines, err = lineNumber(lines, allLines); err != nil {
				return usageError{err}
			}
			if query.After, err = strconv.ParseUint(since, 10, 64); err != nil {
				if query.Since, err = parseTime("since", "a cursor, ", since, time.Now()); err != nil {
					return usageError{err}
				}
			}
			query.Names = names
			client, err := flags.client()
			if err != nil {
				return err
			}
			stdout := cmd.OutOrStdout()
			if !query.Follow {
				return nameFlag(showEvents(cmd.Context(), client, query, asJSON, stdout))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			if err := followEvents(ctx, client, query, asJSON, stdout); !errors.Is(err, context.Canceled) {
				return nameFlag(err)
			}
			return nil // Ctrl-C is the usual end
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print a JSON object a line")
	f.BoolVarP(&query.Follow, "follow", "f", false, "continue with new events")
	f.StringVarP(&lines, "lines", "n", "",
		"show this `many` of the last events, or all (default all)")
	f.StringVar(&since, "since", "",
		"show only events after this cursor, or none older: a duration such as 10m, or a `time` as for logs")
	return cmd
}

func showEvents(ctx context.Context, client *control.Client, query control.EventQuery, asJSON bool, stdout io.Writer) error {
	if asJSON {
		return client.Events(ctx, query, copyLine(stdout))
	}
	var all []control.Event
	err := client.Events(ctx, query, func(line []byte) error {
		e, err := control.DecodeEvent(line)
		all = append(all, e)
		return err
	})
	if err != nil {
		return err
	}
	return report.Table(stdout, eventTable(all, time.Now(), terminal.NewPalette()))
}

func copyLine(w io.Writer) func([]byte) error {
	return func(line []byte) error {
		_, err := w.Write(line)
		return err
	}
}

// followEvents prints one line for each event. Names are padded to the longest one so far.
func followEvents(ctx context.Context, client *control.Client, query control.EventQuery, asJSON bool, stdout io.Writer) error {
	if asJSON {
		return client.Events(ctx, query, copyLine(stdout))
	}
	palette, nameWidth := terminal.NewPalette(), 0
	return client.Events(ctx, query, func(line []byte) error {
		e, err := control.DecodeEvent(line)
		if err != nil {
			return err
		}
		name := terminal.Sanitize(e.Instance)
		nameWidth = max(nameWidth, terminal.Width(name))
		_, err = io.WriteString(stdout, eventLine(&e, name, nameWidth, time.Now(), terminal.Detect(stdout, os.Getenv), palette)+"\n")
		return err
	})
}

// eventLine returns the line of one event for followEvents.
func eventLine(e *control.Event, name string, nameWidth int, now time.Time, o terminal.Output, names *terminal.Palette) string {
	head := fmt.Sprintf("%6s  %s  ", eventCursor(e), clock(e.At, now))
	pad := strings.Repeat(" ", nameWidth-terminal.Width(name))
	text := fmt.Sprintf("%-8s  %s", terminal.Sanitize(e.Kind), eventText(e))
	if o.Width > 0 {
		text = terminal.Cut(text, max(o.Width-terminal.Width(head)-nameWidth-2, minEventText))
	}
	if o.Colour {
		name, text = names.Colour(e.Instance).Paint(name), eventColour(e).Paint(text)
	}
	return head + name + pad + "  " + text
}

// minEventText is the least width of an event's text, in columns, on a narrow terminal.
const minEventText = 20

// eventTable returns events as a table for people.
func eventTable(all []control.Event, now time.Time, names *terminal.Palette) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "CURSOR", Right: true},
		{Title: "TIME", Rank: 2},
		{Title: "NAME"},
		{Title: "EVENT", Rank: 1},
		{Title: "WHAT"},
	}}
	for i := range all {
		e := &all[i]
		t.Add(
			terminal.Cell{Text: eventCursor(e)},
			terminal.Cell{Text: clock(e.At, now)},
			terminal.Cell{Text: terminal.Sanitize(e.Instance), Colour: names.Colour(e.Instance)},
			terminal.Cell{Text: terminal.Sanitize(e.Kind), Colour: eventColour(e)},
			terminal.Cell{Text: eventText(e)},
		)
	}
	return t
}

// eventCursor returns the cursor of an event, or nothing for a gap without a known cursor.
func eventCursor(e *control.Event) string {
	if e.Cursor == 0 {
		return ""
	}
	return strconv.FormatUint(e.Cursor, 10)
}

// eventText describes an event on one line. Text that may come from programs is sanitized.
func eventText(e *control.Event) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch e.Kind {
	case control.KindState:
		change := e.From + " -> " + e.State
		if e.From == e.State {
			change = e.State
		}
		add("%s: %s", change, e.Reason)
		if e.RestartIn != nil {
			add("next start in %s", report.Seconds(*e.RestartIn))
		}
	case control.KindStart:
		add("pid %d, started %s", e.Pid, e.Reason)
	case control.KindExit:
		add("%s", e.Reason)
		if e.Duration != nil {
			add("after %s", report.Seconds(*e.Duration))
		}
		add("pid %d", e.Pid)
		if e.CPU != nil {
			add("cpu %s", report.CPUTime(*e.CPU))
		}
		if e.MaxRSS != nil {
			add("memory %s", peak(*e.MaxRSS, e.RSSBound))
		}
	case control.KindOutput:
		if e.Reason != "" {
			add("%s", e.Reason)
		}
		for _, line := range e.Output {
			add("%s", line)
		}
		return terminal.Sanitize(strings.Join(parts, " | "))
	case control.KindCommand:
		add("%s by %s", e.Reason, e.By)
	case control.KindReload:
		add("%s", e.Reason)
		for _, line := range e.Output {
			add("%s", line)
		}
	case control.KindSocket:
		add("%s %s %s", e.Socket, e.Address, e.State)
		if e.Reason != "" {
			add("%s", e.Reason)
		}
	case control.KindRoll:
		name := e.Reason
		if e.Program != "" {
			name = e.Program + ": " + e.Reason
		}
		add("%s", name)
		if e.By != "" {
			add("by %s", e.By)
		}
	case control.KindSuperd:
		add("superd %s, pid %d", e.State, e.Pid)
		if e.Reason != "" {
			add("%s", e.Reason)
		}
	default:
		add("%s", e.Reason)
	}
	return report.OneLine(strings.Join(parts, ", "))
}

func eventColour(e *control.Event) terminal.Colour {
	switch e.Kind {
	case control.KindState:
		return report.StateColour(e.State)
	case control.KindNoStart:
		return terminal.Red
	case control.KindOutage, control.KindFlapping:
		if e.State == control.OutageBegun {
			return terminal.Red
		}
	case control.KindGap, control.KindSkip:
		return terminal.Yellow
	}
	return terminal.NoColour
}

// clock returns the time of day of t, after its date unless that is today.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	const milliseconds = "15:04:05.000"
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(milliseconds)
	}
	return t.Format(time.DateOnly + " " + milliseconds)
}

// peak returns a peak of memory in bytes, after < if it is only an upper bound.
func peak(bytes int64, bound bool) string {
	if bound {
		return "<" + report.Memory(bytes)
	}
	return report.Memory(bytes)
}
