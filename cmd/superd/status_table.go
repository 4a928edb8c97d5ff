package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"superd/control"
	"superd/terminal"
)

// statusTable returns the table that people see, as of now.
func statusTable(all []control.Status, now time.Time, names *terminal.Palette) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "NAME"},
		{Title: "STATE"},
		{Title: "SINCE", Right: true, Rank: 3},
		{Title: "PID", Right: true, Rank: 2},
		{Title: "RESTARTS", Right: true, Rank: 4},
		{Title: "CPU", Right: true, Rank: 6},
		{Title: "MEMORY", Right: true, Rank: 5},
		{Title: "LAST LINE", Rank: 1},
	}}
	t.Grow(len(all))
	for i := range all {
		s := &all[i]
		t.Add(
			terminal.Cell{Text: s.Name, Colour: names.Colour(s.Name)},
			terminal.Cell{Text: s.State, Colour: stateColour(s.State)},
			terminal.Cell{Text: shown(s.Since, func(t time.Time) string { return age(now.Sub(t)) })},
			terminal.Cell{Text: shown(s.Pid, strconv.Itoa)},
			terminal.Cell{Text: strconv.Itoa(s.Restarts)},
			terminal.Cell{Text: shown(s.CPU, cpuTime)},
			terminal.Cell{Text: shown(s.RSS, memory)},
			terminal.Cell{Text: lastWords(s, now)},
		)
	}
	return t
}

// briefTable is the table of status --brief.
func briefTable(all []control.Brief, names *terminal.Palette) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "NAME"}, {Title: "STATE"}, {Title: "PID", Rank: 1}}}
	t.Grow(len(all))
	for i := range all {
		b := &all[i]
		t.Add(
			terminal.Cell{Text: b.Name, Colour: names.Colour(b.Name)},
			terminal.Cell{Text: b.State, Colour: stateColour(b.State)},
			terminal.Cell{Text: shown(b.Pid, strconv.Itoa)},
		)
	}
	return t
}

// lastWords returns the newest line of output; before it what was dropped, that output does not get into its log, what the program says of itself, that it is
// unhealthy, and the reason, where that tells more than the state.
func lastWords(s *control.Status, now time.Time) string {
	line := shown(s.LastLine, terminal.Sanitize)
	if s.DroppedBytes > 0 {
		line = strings.TrimSuffix(fmt.Sprintf("(%s dropped) %s", count(int(s.DroppedLines), "line"), line), " ")
	}
	if o := s.LogOutage; o != nil {
		line = strings.TrimSuffix(fmt.Sprintf("(no log for %s: %s) %s", age(now.Sub(o.Since)), terminal.Sanitize(o.Reason), line), " ")
	}
	if s.StatusText != nil {
		line = strings.TrimSuffix("["+terminal.Sanitize(*s.StatusText)+"] "+line, " ")
	}
	if s.Healthy != nil && !*s.Healthy {
		why := ""
		if s.HealthCheck != nil && s.HealthCheck.Reason != nil {
			why = ": " + terminal.Sanitize(*s.HealthCheck.Reason)
		}
		line = strings.TrimSuffix("(unhealthy"+why+") "+line, " ")
	}
	switch s.State {
	case "failed", "backoff", "waiting":
		if s.Reason != nil {
			reason := "(" + terminal.Sanitize(*s.Reason) + ")"
			if line == "" {
				return reason
			}
			return reason + " " + line
		}
	}
	return line
}

func stateColour(state string) terminal.Colour {
	switch state {
	case "running":
		return terminal.Green
	case "failed":
		return terminal.Red
	case "backoff", "starting", "stopping", "waiting":
		return terminal.Yellow
	}
	return terminal.Dim
}

// shown returns f of the value, nothing for no value.
func shown[T any](v *T, f func(T) string) string {
	if v == nil {
		return ""
	}
	return f(*v)
}

// age returns about how long d is, in four characters at most up to a thousand days: 99s, 5m, 47h, 2d.
func age(d time.Duration) string {
	d = max(d, 0) // the wall clock may have been set back
	switch {
	case d < 100*time.Second:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < 100*time.Minute:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// cpuTime returns processor seconds in about three digits.
func cpuTime(seconds float64) string {
	whole := int64(seconds)
	switch {
	case seconds < 10:
		return strconv.FormatFloat(seconds, 'f', 2, 64) + "s"
	case seconds < 100:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + "s"
	case seconds < 6000:
		return fmt.Sprintf("%dm%02ds", whole/60, whole%60)
	}
	return fmt.Sprintf("%dh%02dm", whole/3600, whole/60%60)
}

// memory returns bytes in units of 1024, three digits or so.
func memory(bytes int64) string {
	value, unit := float64(bytes)/1024, 0
	for value >= 1000 && unit < 3 {
		value /= 1024
		unit++
	}
	digits := 0
	if value < 100 {
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + "KMGT"[unit:unit+1]
}
