package main

import (
	"strings"
	"testing"
	"time"

	"superd/control"
	"superd/internal/terminal"
	"superd/tests/golden"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func sampleEvents() []control.Event {
	at := func(before time.Duration) time.Time { return noon.Add(-before) }
	return []control.Event{
		{Cursor: 12, At: at(25 * time.Hour), Kind: "gap", MissingEvents: 12, Reason: "12 events are missing"},
		{Cursor: 13, At: at(25 * time.Hour), Kind: "superd", State: "started", Pid: 1},
		{Cursor: 14, At: at(time.Minute), Kind: "state", Instance: "web", From: "stopped", State: "starting", Reason: "started by the configuration"},
		{Cursor: 15, At: at(time.Minute), Kind: "start", Instance: "web", Pid: 7, Reason: "by the configuration"},
		{Cursor: 16, At: at(59 * time.Second), Kind: "exit", Instance: "web", Pid: 7, Reason: "exit status 3", Duration: new(0.0123), CPU: new(0.5), MaxRSS: new(int64(5 << 20)), RSSBound: true},
		{Cursor: 17, At: at(59 * time.Second), Kind: "state", Instance: "web", From: "running", State: "backoff", Reason: "exit status 3 after 12.3ms", RestartIn: new(0.105)},
		{Cursor: 18, At: at(59 * time.Second), Kind: "output", Instance: "web", Output: []string{"\x1b[2Jpanic", "bye"}},
		{Cursor: 19, At: at(5 * time.Second), Kind: "command", Instance: "database", By: "the operator", Reason: "restart"},
		{Cursor: 20, At: at(4 * time.Second), Kind: "state", Instance: "database", From: "stopping", State: "stopping", Reason: "stopping: still there"},
		{Cursor: 21, At: at(3 * time.Second), Kind: "no-start", Instance: "database", Reason: "a.toml:1:1: x\na.toml:2:1: y"},
		{Cursor: 22, At: at(2 * time.Second), Kind: "shutdown", Reason: "SIGTERM"},
		{Cursor: 23, At: at(time.Second), Kind: "superd", State: "ended", Pid: 1, Reason: "SIGTERM"},
		{At: at(0), Kind: "gap", Reason: "event 99 is unknown"},
	}
}

func TestEventTable(t *testing.T) {
	for _, o := range []terminal.Output{{}, {Width: 70}} {
		lines := eventTable(sampleEvents(), noon, terminal.NewPalette()).Lines(o)
		name := "events.txt"
		if o.Width > 0 {
			name = "events-narrow.txt"
		}
		golden.Check(t, name, strings.Join(lines, "\n")+"\n")
	}
}

func TestFollowedEvents(t *testing.T) {
	var b strings.Builder
	width := 0
	for _, e := range sampleEvents() {
		width = max(width, len(e.Instance))
		line := eventLine(&e, e.Instance, width, noon, terminal.Output{Width: 80}, terminal.NewPalette())
		if n := terminal.Width(line); n > 80 {
			t.Errorf("line of %d columns: %q", n, line)
		}
		b.WriteString(line + "\n")
	}
	golden.Check(t, "events-followed.txt", b.String())
}

func TestHistoryTable(t *testing.T) {
	started, ended := noon.Add(-time.Hour), noon.Add(-time.Minute)
	runs := []control.Run{
		{Name: "web", Pid: new(7), Started: &started, Ended: &ended, Exit: &control.Exit{Code: new(3), Known: true}, Duration: new(3540.0), CPU: new(125.0),
			MaxRSS: new(int64(64 << 20)), Reason: new("exit status 3")},
		{Name: "web", Ended: &ended, Reason: new("not started: open executable /nonexistent\x1b[2J: no such file or directory")},
		{Name: "db@1", Pid: new(204817), Started: &started, Ended: &ended, Exit: &control.Exit{Signal: new("SIGKILL"), Known: true}, Duration: new(0.00042), CPU: new(0.001),
			MaxRSS: new(int64(10 << 20)), RSSBound: true, Reason: new("killed by SIGKILL")},
		{Name: "db@2", Pid: new(9), Started: &started, Reason: new("superd ended before it did")},
		{Name: "web", Pid: new(12), Started: &ended},
	}
	lines := historyTable(runs, noon, terminal.NewPalette()).Lines(terminal.Output{})
	golden.Check(t, "history.txt", strings.Join(lines, "\n")+"\n")
}
