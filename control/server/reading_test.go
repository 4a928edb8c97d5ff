package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/control"
	"superd/procs/eventlog"
)

// read returns the lines that q selects, and the notes.
func (h *harness) read(q control.LogQuery) (string, error) {
	var got strings.Builder
	err := h.client.Logs(h.t.Context(), q, func(l *control.LogBlock) error {
		if l.Note != nil {
			got.WriteString("[" + *l.Note + "] ")
		} else if l.Text != nil {
			for line := range strings.SplitSeq(string(l.Text), "\n") {
				got.WriteString(l.Instance + ":" + line + " ")
			}
		}
		return nil
	}, nil)
	return got.String(), err
}

func TestLogsOfSeveral(t *testing.T) {
	h := newHarness(t)
	h.fake.captures["web"] = h.capture("web", "one\ntwo\n\xff\n")
	h.fake.captures["db"] = h.capture("db", "three\n")
	tests := []struct {
		q    control.LogQuery
		want string
		err  string
	}{
		{control.LogQuery{Names: []string{"web", "db"}, Lines: 1}, "web:\xff db:three ", ""},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Grep: "^t"}, "web:two ", ""},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Since: "0s"}, "", ""},
		{control.LogQuery{Names: []string{"wbe"}, Lines: -1}, "", "wbe"},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Grep: "("}, "", "parameter grep"},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Since: "yesterday"}, "", "parameter since"},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Run: "1"}, "", "parameter run"},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Run: "x"}, "", "parameter run"},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Run: "-1", Follow: true}, "", "only the newest run"},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Run: "-1"}, "", "no such run"},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Until: "1h"}, "[the log has no times: this continues to the end of the file that was written to at that time or later] web:one web:two web:\xff ", ""},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Until: "yesterday"}, "", "parameter until"},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Until: "2h", Since: "1h"}, "", "before since"},
		{control.LogQuery{Names: []string{"web"}, Lines: -1, Until: "2h", Follow: true}, "", "combined with follow"},
	}
	for _, tt := range tests {
		got, err := h.read(tt.q)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: %q, %v; want %q, %q", tt.q, got, err, tt.want, tt.err)
		}
		if name, ok := strings.CutPrefix(tt.err, "parameter "); ok {
			refused, ok := errors.AsType[*control.Error](err)
			if !ok || refused.Parameter != name || refused.Message != tt.err+": "+refused.Problem {
				t.Errorf("%+v: %#v; want the parameter %s and its problem apart", tt.q, err, name)
			}
		}
	}
}

// TestLogsOfRuns: runs are counted back from the newest one that was started, and lie between the
// places in the event log.
func TestLogsOfRuns(t *testing.T) {
	h := newHarness(t)
	h.fake.captures["web"] = h.capture("web", "0\n1\n22\n4\n")
	id := func(run int) string { return fmt.Sprintf("%032x", run) }
	for run, cursor := range []string{"r0.0", "n0.INODE.2", "n0.INODE.4", "", "n0.INODE.7", ""} {
		e := eventlog.Event{At: startOfTest.Add(time.Duration(run) * time.Second), Instance: "web", Run: id(run)}
		e.Kind, e.State = eventlog.State, "starting"
		h.events.Append(e)
		e.Kind, e.State = eventlog.Start, ""
		if run == 5 {
			e.Kind = eventlog.NoStart
		}
		h.events.Append(e)
		if e.Kind, e.Place = eventlog.Print, strings.Replace(cursor, "INODE", h.inode("web"), 1); cursor != "" {
			h.events.Append(e)
		}
	}
	for run, want := range map[string]string{"0": "web:4 ", "-1": "[the start of this run in the log is unknown", "-2": "web:22 ", id(2): "web:22 ", id(4): "web:4 "} {
		got, err := h.read(control.LogQuery{Names: []string{"web"}, Lines: -1, Run: run})
		if err != nil || !strings.HasPrefix(got, want) || got != want && want[0] == 'w' {
			t.Errorf("run %s: %q, %v, want %q", run, got, err, want)
		}
	}
}

// inode returns the inode of a collector's file in the form of a cursor.
func (h *harness) inode(name string) string {
	h.t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(h.fake.captures[name].Path(), &st); err != nil {
		h.t.Fatal(err)
	}
	return strconv.FormatUint(st.Ino, 36)
}

// TestFollowedLogsIncludeWhatIsAdded: a follower keeps its selector, so that it follows a new
// instance with a selected name.
func TestFollowedLogsIncludeWhatIsAdded(t *testing.T) {
	h := newHarness(t)
	h.fake.captures["web"] = h.capture("web", "one\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := make(chan string, 10)
	go func() {
		_ = h.client.Logs(ctx, control.LogQuery{Names: []string{"web", "late"}, Lines: 1, Follow: true}, func(l *control.LogBlock) error {
			lines <- l.Instance + ":" + string(l.Text)
			return nil
		}, nil)
		close(lines)
	}()
	if got := receive(t, lines, "an answer"); got != "" {
		t.Fatalf("logs of one that is not there yet: %q, want a refusal", got)
	}
	lines = make(chan string, 10)
	go func() {
		_ = h.client.Logs(ctx, control.LogQuery{Names: []string{"web"}, Lines: 1, Follow: true}, func(l *control.LogBlock) error {
			lines <- l.Instance + ":" + string(l.Text)
			return nil
		}, nil)
		close(lines)
	}()
	for _, want := range []string{"web:", "web:one"} { // its place, its line
		if got := receive(t, lines, want); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	second := h.capture("web", "") // another collector of that name
	h.on(func() {
		h.fake.captures["web"] = second
		h.fake.changed()
	})
	if got := receive(t, lines, "the place of the other"); got != "web:" {
		t.Errorf("%q, want the place of the other", got)
	}
	h.server.Close()
	if got, open := <-lines; open {
		t.Errorf("%q, want the end of superd", got)
	}
}

func TestManyCursorsGoInTheBody(t *testing.T) {
	h := newHarness(t)
	h.fake.captures["web"] = h.capture("web", "one\n")
	form := url.Values{"name": {"web"}, "cursor": {"web:n0.0.0"}}
	var more []string
	for i := range 12_000 {
		more = append(more, fmt.Sprintf("an-instance-of-a-long-name@%d:n123456789.12345.123456", i))
	}
	form.Add("cursor", strings.Join(more, " "))
	if status, text := h.request("POST", "/v1/logs", form.Encode()); status != 200 || !strings.Contains(text, `"line":"one"`) {
		t.Errorf("answer %d %s", status, text)
	}
	conn := h.dial()
	fmt.Fprintf(conn, "POST /v1/logs HTTP/1.1\r\nHost: superd\r\nContent-Length: %d\r\n\r\n", maxCursorBytes+1)
	if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), fmt.Sprint(maxCursorBytes, " bytes")) {
		t.Errorf("answer to a body that is too large: %s, %v", answer, err)
	}
}
