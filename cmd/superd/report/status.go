package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/control"
	"superd/internal/terminal"
	"superd/internal/words"
)

// minReasonWidth is the least width of a reason, in columns: other table columns are dropped first.
const minReasonWidth = 30

// StatusTable returns the table of the status as of now. It has a column of reasons only if an
// instance has one. Then the last lines are dropped from a narrow terminal before the reasons.
func StatusTable(all []control.Status, now time.Time, names *terminal.Palette) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "NAME"},
		{Title: "STATE"},
		{Title: "SINCE", Right: true, Rank: 3},
		{Title: "PID", Right: true, Rank: 2},
		{Title: "RESTARTS", Right: true, Rank: 5},
		{Title: "CPU", Right: true, Rank: 7},
		{Title: "MEMORY", Right: true, Rank: 6},
		{Title: "LAST LINE", Rank: 1},
	}}
	lastLine := len(t.Columns) - 1
	reasons, some := make([]string, len(all)), false
	for i := range all {
		reasons[i] = Reason(&all[i], now)
		some = some || reasons[i] != ""
	}
	if some {
		t.Columns[lastLine].Rank = 4
		t.Columns = slices.Insert(t.Columns, lastLine, terminal.Column{Title: "REASON", Least: minReasonWidth})
	}
	t.Grow(len(all))
	var row []terminal.Cell
	for i := range all {
		s := &all[i]
		row = append(row[:0],
			terminal.Cell{Text: s.Name, Colour: names.Colour(s.Name)},
			terminal.Cell{Text: s.State, Colour: StateColour(s.State)},
			terminal.Cell{Text: Shown(s.Since, func(t time.Time) string { return Age(now.Sub(t)) })},
			terminal.Cell{Text: Shown(s.Pid, strconv.Itoa)},
			terminal.Cell{Text: strconv.Itoa(s.Restarts)},
			terminal.Cell{Text: Shown(s.CPU, CPUTime)},
			terminal.Cell{Text: Shown(s.RSS, Memory)},
		)
		if some {
			row = append(row, terminal.Cell{Text: reasons[i]})
		}
		t.Add(append(row, terminal.Cell{Text: LastLine(s)})...)
	}
	return t
}

// BriefTable returns the table of status --brief.
func BriefTable(all []control.Brief, names *terminal.Palette) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "NAME"}, {Title: "STATE"}, {Title: "PID", Rank: 1}}}
	t.Grow(len(all))
	for i := range all {
		b := &all[i]
		t.Add(
			terminal.Cell{Text: b.Name, Colour: names.Colour(b.Name)},
			terminal.Cell{Text: b.State, Colour: StateColour(b.State)},
			terminal.Cell{Text: Shown(b.Pid, strconv.Itoa)},
		)
	}
	return t
}

// Reason returns what is unusual about an instance: the reason of a state other than running, a
// failed rolling restart that has left its former definition, failed health checks, flapping,
// output that does not reach its log. It returns "" if nothing is.
func Reason(s *control.Status, now time.Time) string {
	var all []string
	former := s.ReasonKind != nil && *s.ReasonKind == "roll-failed"
	if s.Reason != nil && (s.State != control.StateRunning || former) {
		all = append(all, *s.Reason)
	}
	if s.Healthy != nil && !*s.Healthy {
		text := "unhealthy"
		if s.HealthCheck != nil && s.HealthCheck.Reason != nil {
			text += ": " + *s.HealthCheck.Reason
		}
		all = append(all, text)
	}
	if since := s.FlappingSince; since != nil {
		all = append(all, "flapping for "+Age(now.Sub(*since)))
	}
	if o := s.LogOutage; o != nil {
		all = append(all, fmt.Sprintf("no log for %s: %s", Age(now.Sub(o.Since)), o.Reason))
	}
	if s.Rolling != nil && s.Rolling.Extra {
		all = append(all, "extra instance of a rolling restart")
	}
	if len(s.SandboxWarnings) > 0 {
		all = append(all, "sandbox incomplete: "+strings.Join(s.SandboxWarnings, "; "))
	}
	if s.WatchProblem != "" {
		all = append(all, "changes of files are missed: "+s.WatchProblem)
	}
	if s.DroppedBytes > 0 {
		all = append(all, words.Plural(int(s.DroppedLines), "line")+" dropped")
	}
	return OneLine(strings.Join(all, "; "))
}

// LastLine returns the last line of output, after the status text of the program in brackets.
func LastLine(s *control.Status) string {
	line := Shown(s.LastLine, terminal.Sanitize)
	if s.StatusText != nil {
		line = strings.TrimSuffix("["+terminal.Sanitize(*s.StatusText)+"] "+line, " ")
	}
	return line
}

// StateColour returns the colour of a state.
func StateColour(state string) terminal.Colour {
	switch state {
	case control.StateRunning:
		return terminal.Green
	case control.StateFailed:
		return terminal.Red
	case control.StateBackoff, control.StateStarting, control.StateStopping, control.StateWaiting:
		return terminal.Yellow
	}
	return terminal.Dim
}

// Shown returns f(*v), or "" for nil.
func Shown[T any](v *T, f func(T) string) string {
	if v == nil {
		return ""
	}
	return f(*v)
}

// Age returns d rounded down, in at most four characters up to a thousand days: 99s, 5m, 47h, 2d.
func Age(d time.Duration) string {
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

// CPUTime returns processor seconds in some three digits.
func CPUTime(seconds float64) string {
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

// Memory returns bytes in units of 1024, in some three digits.
func Memory(bytes int64) string {
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

// Seconds returns a duration of s seconds in three digits, and in full seconds from a minute on:
// 12ms, 1.62s, 5m3s, 59m.
func Seconds(s float64) string {
	d, digit := time.Duration(s*float64(time.Second)), time.Duration(1)
	for d/digit >= 1000 {
		digit *= 10
	}
	if d < time.Minute {
		d = d.Round(digit)
	} else {
		d = d.Round(time.Second)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
