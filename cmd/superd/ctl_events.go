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

	"superd/control"
	"superd/terminal"
)

func newEventsCommand(flags *ctlFlags) *cobra.Command {
	var since uint64
	var asJSON, follow bool
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what has happened, from the numbered log of events",
		Long: `Events shows each change of state, start, end and command that the log in the runtime directory still
has, the oldest first. Events have numbers without holes, their cursors: with --since what happened after
one is shown. Where events are missing, because they are too old to be kept or could not be written, a gap
is shown in their place.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			stdout := cmd.OutOrStdout()
			if !follow {
				return showEvents(cmd.Context(), client, since, asJSON, stdout)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			if err := followEvents(ctx, client, since, asJSON, stdout); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil // Ctrl-C is how it ends well
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object a line")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens from now on")
	cmd.Flags().Uint64Var(&since, "since", 0, "show only what comes after the event of this `cursor`")
	return cmd
}

func showEvents(ctx context.Context, client *control.Client, since uint64, asJSON bool, stdout io.Writer) error {
	if asJSON {
		return client.Events(ctx, since, false, copyLine(stdout))
	}
	var all []control.Event
	err := client.Events(ctx, since, false, func(line []byte) error {
		e, err := control.DecodeEvent(line)
		all = append(all, e)
		return err
	})
	if err != nil {
		return err
	}
	return printTable(stdout, eventTable(all, time.Now(), terminal.NewPalette()))
}

func copyLine(w io.Writer) func([]byte) error {
	return func(line []byte) error {
		_, err := w.Write(line)
		return err
	}
}

// followEvents prints events a line each. Names are aligned with the longest one so far.
func followEvents(ctx context.Context, client *control.Client, since uint64, asJSON bool, stdout io.Writer) error {
	if asJSON {
		return client.Events(ctx, since, true, copyLine(stdout))
	}
	palette, nameWidth := terminal.NewPalette(), 0
	return client.Events(ctx, since, true, func(line []byte) error {
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

// eventLine is one event as it is shown while events are followed.
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

// minEventText is how much of an event is shown on however narrow a terminal.
const minEventText = 20

// eventTable returns events as people see them.
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

// eventCursor is nothing for a gap in which no cursor is known.
func eventCursor(e *control.Event) string {
	if e.Cursor == 0 {
		return ""
	}
	return strconv.FormatUint(e.Cursor, 10)
}

// eventText tells on one line what happened. What programs had a part in is made harmless.
func eventText(e *control.Event) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch e.Kind {
	case "state":
		change := e.From + " -> " + e.State
		if e.From == e.State {
			change = e.State
		}
		add("%s: %s", change, e.Reason)
		if e.RestartIn != nil {
			add("next start in %s", seconds(*e.RestartIn))
		}
	case "start":
		add("pid %d, started %s", e.Pid, e.Reason)
	case "exit":
		add("%s", e.Reason)
		if e.Duration != nil {
			add("after %s", seconds(*e.Duration))
		}
		add("pid %d", e.Pid)
		if e.CPU != nil {
			add("cpu %s", cpuTime(*e.CPU))
		}
		if e.MaxRSS != nil {
			add("memory %s", peak(*e.MaxRSS, e.RSSBound))
		}
	case "output":
		if e.Reason != "" {
			add("%s", e.Reason)
		}
		for _, line := range e.Output {
			add("%s", line)
		}
		return terminal.Sanitize(strings.Join(parts, " | "))
	case "command":
		add("%s by %s", e.Reason, e.By)
	case "superd":
		add("superd %s, pid %d", e.State, e.Pid)
		if e.Reason != "" {
			add("%s", e.Reason)
		}
	default:
		add("%s", e.Reason)
	}
	return oneLine(strings.Join(parts, ", "))
}

func eventColour(e *control.Event) terminal.Colour {
	switch e.Kind {
	case "state":
		return stateColour(e.State)
	case "no-start":
		return terminal.Red
	case "outage":
		if e.State == "begun" {
			return terminal.Red
		}
	case "gap", "skip":
		return terminal.Yellow
	}
	return terminal.NoColour
}

// clock shows when something was, without the date if that was today.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	const milliseconds = "15:04:05.000"
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(milliseconds)
	}
	return t.Format(time.DateOnly + " " + milliseconds)
}

// seconds shows a duration in about three digits: 12ms, 1.62s, 5m3s.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// peak shows greatest memory; where that is only a bound, it says so.
func peak(bytes int64, bound bool) string {
	if bound {
		return "<" + memory(bytes)
	}
	return memory(bytes)
}
