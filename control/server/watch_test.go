package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"superd/control"
	"superd/procs"
	"superd/procs/fsm"
)

func TestWatchReportsEachChange(t *testing.T) {
	h := newHarness(t)
	ctx, cancel := context.WithCancel(t.Context())
	lines := make(chan []control.Status)
	ended := make(chan error, 1)
	go func() {
		ended <- h.client.Watch(ctx, []string{"db"}, func(all []control.Status) error { lines <- all; return nil })
	}()
	if all := receive(t, lines, "the first status"); len(all) != 1 || all[0].State != "stopped" {
		t.Errorf("first status is %+v, want db stopped", all)
	}
	h.called("watch")
	h.on(func() { h.fake.all[0].State = fsm.Running; h.fake.changed() })
	if all := receive(t, lines, "the change"); all[0].State != "running" {
		t.Errorf("status after the change is %s, want running", all[0].State)
	}
	cancel()
	if err := receive(t, ended, "the end of Watch"); !errors.Is(err, context.Canceled) {
		t.Errorf("Watch: %v, want %v", err, context.Canceled)
	}
	h.called("unwatch")
	h.on(func() {
		if len(h.fake.watchers) != 0 {
			t.Errorf("%d watchers are left", len(h.fake.watchers))
		}
	})
}

func TestWatchCoalesces(t *testing.T) {
	h := newHarness(t)
	conn := h.dial()
	start := time.Now() // before the first line, so that no delay makes it seem shorter than it is
	fmt.Fprint(conn, "GET /v1/status/watch?brief=1 HTTP/1.1\r\nHost: superd\r\n\r\n")
	in := bufio.NewReader(conn)
	next := func() {
		t.Helper()
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, "[") {
				return
			}
		}
	}
	next()
	stop := make(chan struct{})
	storm := make(chan struct{})
	go func() {
		defer close(storm)
		for {
			select {
			case <-stop:
				return
			default:
				h.on(h.fake.changed)
			}
		}
	}()
	const n = 4
	for range n {
		next()
	}
	if took := time.Since(start); took < n*watchInterval {
		t.Errorf("%d lines after the first took %v, want at least %v", n, took, n*watchInterval)
	}
	close(stop)
	receive(t, storm, "the storm to end")
}

func TestWatchEndsWithTheServer(t *testing.T) {
	h := newHarness(t)
	began := make(chan struct{}, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- h.client.Watch(t.Context(), nil, func([]control.Status) error { began <- struct{}{}; return nil })
	}()
	receive(t, began, "the first status")
	h.server.Close()
	if err := receive(t, ended, "the end of Watch"); err != nil {
		t.Errorf("Watch: %v, want nil", err)
	}
}

func TestStalledWatcherIsDisconnected(t *testing.T) {
	h := newHarness(t, func(s *Server) { s.writeTimeout = 100 * time.Millisecond })
	h.on(func() {
		h.fake.all = nil
		for i := range 2000 {
			h.fake.all = append(h.fake.all, procs.Status{Name: fmt.Sprint("p", i), Reason: strings.Repeat("x", 500)})
		}
	})
	conn := h.dial()
	fmt.Fprint(conn, "GET /v1/status/watch HTTP/1.1\r\nHost: superd\r\n\r\n")
	h.called("watch")
	h.answersInTheEnd()
	h.called("unwatch") // without a byte read, and without a change
	h.answersInTheEnd()
}

func TestLogs(t *testing.T) {
	h := newHarness(t)
	var text bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&text, "line %d \x1b[2J\x00\xff\r\n", i)
	}
	capture := h.capture("web", text.String())
	h.on(func() { h.fake.captures["web"] = capture })
	for lines, want := range map[int]string{-1: text.String(), 1: "line 999 \x1b[2J\x00\xff\r\n", 0: ""} {
		query := ""
		if lines >= 0 {
			query = fmt.Sprint("?lines=", lines)
		}
		if status, got := h.request("GET", "/v1/programs/web/logs"+query, ""); status != 200 || got != want {
			t.Errorf("logs, %d lines: status %d, %d bytes, want %d", lines, status, len(got), len(want))
		}
		var got bytes.Buffer
		err := h.client.Logs(t.Context(), control.LogQuery{Names: []string{"web"}, Lines: lines}, func(l *control.LogBlock) error {
			fmt.Fprintln(&got, string(l.Text))
			return nil
		}, nil)
		if err != nil || got.String() != want {
			t.Errorf("lines, %d of them: %v, %d bytes, want %d", lines, err, got.Len(), len(want))
		}
	}
	conn := h.dial()
	fmt.Fprint(conn, "GET /v1/programs/web/logs?lines=1&follow=1 HTTP/1.1\r\nHost: superd\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len("line 999 \x1b[2J\x00\xff\r\n"))
	if _, err := io.ReadFull(answer.Body, first); err != nil || !bytes.HasPrefix(first, []byte("line 999")) {
		t.Errorf("followed %q, %v, want line 999", first, err)
	}
}
