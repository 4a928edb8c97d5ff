package report

import (
	"fmt"
	"strings"
	"time"

	"superd/control"
	"superd/internal/terminal"
)

// EventText describes an event on one line. Text that may come from programs is sanitized.
func EventText(e *control.Event) string {
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
			add("next start in %s", Seconds(*e.RestartIn))
		}
	case control.KindStart:
		add("pid %d, started %s", e.Pid, e.Reason)
	case control.KindExit:
		add("%s", e.Reason)
		if e.Duration != nil {
			add("after %s", Seconds(*e.Duration))
		}
		add("pid %d", e.Pid)
		if e.CPU != nil {
			add("cpu %s", CPUTime(*e.CPU))
		}
		if e.MaxRSS != nil {
			add("memory %s", Peak(*e.MaxRSS, e.RSSBound))
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
	return OneLine(strings.Join(parts, ", "))
}

// EventColour returns the colour of an event, NoColour for most.
func EventColour(e *control.Event) terminal.Colour {
	switch e.Kind {
	case control.KindState:
		return StateColour(e.State)
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

// Clock returns the time of day of t, after its date unless that is today.
func Clock(t, now time.Time) string {
	t = t.In(now.Location())
	const milliseconds = "15:04:05.000"
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(milliseconds)
	}
	return t.Format(time.DateOnly + " " + milliseconds)
}

// Peak returns a peak of memory in bytes, after < if it is only an upper bound.
func Peak(bytes int64, bound bool) string {
	if bound {
		return "<" + Memory(bytes)
	}
	return Memory(bytes)
}
