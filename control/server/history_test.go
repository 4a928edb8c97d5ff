package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"superd/control"
	"superd/procs/eventlog"
)

// web records a failed run of web and a running one; old is an instance that is gone.
func (h *harness) web() {
	at := func(s int) time.Time { return startOfTest.Add(time.Duration(s) * time.Second) }
	for _, e := range []eventlog.Event{
		{Kind: eventlog.Superd, At: at(0), State: "started", Pid: 1},
		{Kind: eventlog.Start, At: at(0), Instance: "old", Program: "old", Run: "r0", Pid: 5, Reason: "by the configuration"},
		{Kind: eventlog.Superd, At: at(1), State: "started", Pid: 2},
		{Kind: eventlog.Start, At: at(1), Instance: "web", Program: "web", Run: "r1", Pid: 7, Reason: "by the configuration"},
		{Kind: eventlog.Exit, At: at(3), Instance: "web", Program: "web", Run: "r1", Pid: 7, Reason: "exit status 3", ReasonKind: "exited", Exit: &eventlog.ExitStatus{Code: new(3), Known: true},
			Started: at(1), Duration: new(2.0), CPU: new(0.5), MaxRSS: 4096, RSSBound: true},
		{Kind: eventlog.Output, At: at(3), Instance: "web", Program: "web", Run: "r1", Output: []string{"panic: \x1b[2J", "<gone>"}},
		{Kind: eventlog.State, At: at(3), Instance: "web", Program: "web", From: "running", State: "backoff", Reason: "exit status 3 after 2s", RestartIn: new(0.1)},
		{Kind: eventlog.NoStart, At: at(4), Instance: "db", Program: "db", Run: "r2", Reason: "no such file"},
		{Kind: eventlog.Start, At: at(5), Instance: "web", Program: "web", Run: "r3", Pid: 8, Reason: "again"},
	} {
		h.events.Append(e)
	}
}

func (h *harness) collect(since uint64) (lines []string) {
	h.t.Helper()
	err := h.client.Events(h.t.Context(), control.EventQuery{After: since, Lines: -1}, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return lines
}

func TestEvents(t *testing.T) {
	h := newHarness(t)
	if got := h.collect(0); len(got) != 0 {
		t.Errorf("no events: got %q", got)
	}
	h.web()
	if got := h.collect(0); len(got) != 9 {
		t.Errorf("%d events, want 9: %q", len(got), got)
	}
	got := h.collect(5)
	want := `{"cursor":6,"at":"2026-11-21T07:20:48Z","kind":"output","instance":"web","program":"web","run":"r1","output":["panic: \u001b[2J","<gone>"]}` + "\n"
	if len(got) != 4 || got[0] != want {
		t.Errorf("events since 5: %q\nwant 4, the first %q", got, want)
	}
	if got := h.collect(100); len(got) != 10 || !strings.Contains(got[0], `"kind":"gap"`) {
		t.Errorf("events since a cursor never given: %q; want a gap and all 9", got)
	}
	if status, answer := h.request("GET", "/v1/events?since=-1", ""); status != 400 || !strings.Contains(answer, "neither a cursor") {
		t.Errorf("since=-1: %d %s", status, answer)
	}
}

// TestEventsKeepTheirKeys compares the client's type with what is sent.
func TestEventsKeepTheirKeys(t *testing.T) {
	h := newHarness(t)
	e := eventlog.Event{Exit: &eventlog.ExitStatus{}, Started: startOfTest, At: startOfTest, Kind: "exit", Output: []string{"a"}}
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			if f.String() == "" {
				f.SetString(fmt.Sprint("value ", i))
			}
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Uint64:
			f.SetUint(uint64(i + 1))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Pointer:
			if f.Type() == reflect.TypeFor[*float64]() {
				f.Set(reflect.ValueOf(new(float64(i))))
			}
		}
	}
	h.events.Append(e)
	line := h.collect(0)[0]
	decoded, err := control.DecodeEvent([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(decoded)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(encoded) + "\n"; got != line {
		t.Errorf("sent    %sdecoded %s", line, got)
	}
	if n := bytes.Count(encoded, []byte(`":`)); n < v.NumField() {
		t.Errorf("%s has %d keys, want at least %d", encoded, n, v.NumField())
	}
}

func TestEventsAreFollowed(t *testing.T) {
	h := newHarness(t)
	h.web()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cursors := make(chan uint64)
	ended := make(chan error, 1)
	go func() {
		ended <- h.client.Events(ctx, control.EventQuery{After: 7, Lines: -1, Follow: true}, func(line []byte) error {
			e, err := control.DecodeEvent(line)
			cursors <- e.Cursor
			return err
		})
	}()
	expect := func(want uint64) {
		t.Helper()
		if got := receive(t, cursors, "an event"); got != want {
			t.Errorf("event %d, want %d", got, want)
		}
	}
	expect(8)
	expect(9)
	h.events.Append(eventlog.Event{At: startOfTest, Kind: eventlog.Reload})
	expect(10)
	cancel()
	if err := receive(t, ended, "the end"); !errors.Is(err, context.Canceled) {
		t.Errorf("Events: %v, want canceled", err)
	}
}

func TestFollowingEndsWithTheLog(t *testing.T) {
	h := newHarness(t)
	h.web()
	first := make(chan struct{}, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- h.client.Events(t.Context(), control.EventQuery{After: 8, Lines: -1, Follow: true}, func([]byte) error { first <- struct{}{}; return nil })
	}()
	receive(t, first, "an event")
	h.events.Close(patience)
	if err := receive(t, ended, "the end"); err != nil {
		t.Errorf("Events: %v, want none", err)
	}
}

func TestHistory(t *testing.T) {
	h := newHarness(t)
	h.web()
	tests := []struct {
		query, want string
	}{
		{"", "old 5 - superd ended before it did; web 7 2s exit status 3; db 0 - not started: no such file; web 8 -"},
		{"?name=web", "web 7 2s exit status 3; web 8 -"},
		{"?name=old", "old 5 - superd ended before it did"},
		{"?name=o*&name=db", "old 5 - superd ended before it did; db 0 - not started: no such file"},
	}
	for _, tt := range tests {
		status, answer := h.request("GET", "/v1/history"+tt.query, "")
		var runs []control.Run
		if err := json.Unmarshal([]byte(answer), &runs); err != nil || status != 200 {
			t.Fatalf("history%s: %d %s: %v", tt.query, status, answer, err)
		}
		var got []string
		for _, r := range runs {
			text := fmt.Sprintf("%s %d -", r.Name, zero(r.Pid))
			if r.Duration != nil {
				text = fmt.Sprintf("%s %d %vs", r.Name, zero(r.Pid), *r.Duration)
			}
			if r.Reason != nil {
				text += " " + *r.Reason
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "; "); text != tt.want {
			t.Errorf("history%s: %q, want %q", tt.query, text, tt.want)
		}
	}
	_, answer := h.request("GET", "/v1/history?name=web", "")
	const first = `[{"name":"web","program":"web","run":"r1","pid":7,"started_at":"2026-11-21T07:20:46Z","ended_at":"2026-11-21T07:20:48Z",` +
		`"exit":{"code":3,"signal":null,"at":"2026-11-21T07:20:48Z","known":true},"duration_s":2,"cpu_s":0.5,"max_rss_bytes":4096,"max_rss_is_bound":true,"reason":"exit status 3","reason_kind":"exited"},`
	if !strings.HasPrefix(answer, first) {
		t.Errorf("history of web: %s\nwant %s…", answer, first)
	}
	if status, answer := h.request("GET", "/v1/history?name=wep", ""); status != 404 || !strings.Contains(answer, "did you mean") {
		t.Errorf("history of wep: %d %s; want 404", status, answer)
	}
}

// TestEventsOfPrograms: an event of a whole program belongs to its instances, under all names.
func TestEventsOfPrograms(t *testing.T) {
	h := newHarness(t)
	h.web()
	h.events.Append(eventlog.Event{At: startOfTest, Kind: eventlog.Roll, Program: "web", State: eventlog.Over})
	h.events.Append(eventlog.Event{At: startOfTest, Kind: eventlog.Roll, Program: "gone", State: eventlog.Over})
	for query, want := range map[string]int{
		"?name=web": 6, "?name=w*": 6, "?name=gone": 1, "?name=db": 1, "": 11,
	} {
		_, answer := h.request("GET", "/v1/events"+query, "")
		if got := strings.Count(answer, "\n"); got != want {
			t.Errorf("events%s: %d, want %d:\n%s", query, got, want, answer)
		}
	}
}

func zero(v *int) int {
	if v == nil {
		return 0
	}
	return *v
}

func TestWhy(t *testing.T) {
	h := newHarness(t)
	h.web()
	all, err := h.client.Why(t.Context(), []string{"web"})
	if err != nil {
		t.Fatal(err)
	}
	want := []control.Why{{Name: "web", State: "running", ReasonKind: new("started"), Text: `web is running with pid 7 since 07:20:45 (0s): started by the operator.
It is wanted up by the operator.
The last runs:
  07:20:48  exit status 3 after 2s
The last lines of the run that failed:
  | panic: ` + "\x1b" + `[2J
  | <gone>
`}}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("why web: %+v\nwant %+v", all, want)
	}
	if status, _ := h.request("GET", "/v1/programs/nope/why", ""); status != 404 {
		t.Errorf("why nope: %d, want 404", status)
	}
}
