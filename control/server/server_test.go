package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/control"
	"superd/internal/procfs"
	"superd/procs"
	"superd/procs/fsm"
)

func TestStatusHasEveryKey(t *testing.T) {
	h := newHarness(t)
	at := time.Date(2026, 11, 21, 7, 20, 45, 0, time.UTC)
	self, err := procfs.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	bye := h.capture("ended", "bye\x1b\xff\n")
	h.on(func() {
		h.fake.all = []procs.Status{
			{Name: "db", Program: "db", State: fsm.Stopped},
			{Name: "ended", Program: "ended", State: fsm.Backoff, Since: at, Restarts: procs.Restarts{Count: 3}, NextStart: new(1500 * time.Millisecond),
				Exit: &procs.ExitStatus{Code: 0, At: at, Known: true}, Collector: bye, HasRun: true,
				Reason: "exit status 0", ReasonKind: fsm.ReasonExited},
			{Name: "gone", Program: "gone", State: fsm.Running, Main: procs.MainStatus{Pid: os.Getpid(), Start: self.Start + 1, Uptime: time.Second}},
			{Name: "killed", Program: "killed", State: fsm.Failed, Exit: &procs.ExitStatus{Signal: "SIGKILL", At: at, Known: true}},
			{Name: "lost", Program: "lost", State: fsm.Failed, Exit: &procs.ExitStatus{At: at}},
		}
	})
	status, body := h.request("GET", "/v1/status", "")
	want := `[` +
		`{"name":"db","program":"db","groups":[],"state":"stopped","ready":false,"healthy":null,"pid":null,"since":null,"uptime_s":null,"restarts":0,"exit":null,"next_start_in_s":null,"cpu_s":null,"rss_bytes":null,"log_file":null,"last_line":null,"reason":null,"reason_kind":null,"status_text":null,"health_check":null,"autostart":false},` +
		`{"name":"ended","program":"ended","groups":[],"state":"backoff","ready":false,"healthy":null,"pid":null,"since":"2026-11-21T07:20:45Z","uptime_s":null,"restarts":3,"exit":{"code":0,"signal":null,"at":"2026-11-21T07:20:45Z","known":true},"next_start_in_s":1.5,"cpu_s":null,"rss_bytes":null,"log_file":null,"last_line":"bye\u001b\ufffd","reason":"exit status 0","reason_kind":"exited","status_text":null,"health_check":null,"autostart":false},` +
		fmt.Sprintf(`{"name":"gone","program":"gone","groups":[],"state":"running","ready":true,"healthy":null,"pid":%d,"since":null,"uptime_s":1,"restarts":0,"exit":null,"next_start_in_s":null,"cpu_s":null,"rss_bytes":null,"log_file":null,"last_line":null,"reason":null,"reason_kind":null,"status_text":null,"health_check":null,"autostart":false},`, os.Getpid()) +
		`{"name":"killed","program":"killed","groups":[],"state":"failed","ready":false,"healthy":null,"pid":null,"since":null,"uptime_s":null,"restarts":0,"exit":{"code":null,"signal":"SIGKILL","at":"2026-11-21T07:20:45Z","known":true},"next_start_in_s":null,"cpu_s":null,"rss_bytes":null,"log_file":null,"last_line":null,"reason":null,"reason_kind":null,"status_text":null,"health_check":null,"autostart":false},` +
		`{"name":"lost","program":"lost","groups":[],"state":"failed","ready":false,"healthy":null,"pid":null,"since":null,"uptime_s":null,"restarts":0,"exit":{"code":null,"signal":null,"at":"2026-11-21T07:20:45Z","known":false},"next_start_in_s":null,"cpu_s":null,"rss_bytes":null,"log_file":null,"last_line":null,"reason":null,"reason_kind":null,"status_text":null,"health_check":null,"autostart":false}` +
		"]\n"
	if status != http.StatusOK || body != want {
		t.Errorf("GET /v1/status: %d\n%s\nwant 200\n%s", status, body, want)
	}
}

func TestStatusReadsUsageOfTheVeryProcess(t *testing.T) {
	h := newHarness(t)
	self, err := procfs.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	h.on(func() { h.fake.all[1].Main.Start = self.Start })
	all, err := h.client.Status(t.Context(), []string{"web"})
	if err != nil || len(all) != 1 {
		t.Fatalf("status: %v, %v", all, err)
	}
	if s := all[0]; s.CPU == nil || s.RSS == nil || *s.RSS < 1<<20 {
		t.Errorf("cpu_s %v, rss_bytes %v: want those of this test", s.CPU, s.RSS)
	}
}

func TestBrief(t *testing.T) {
	h := newHarness(t)
	_, body := h.request("GET", "/v1/status?brief=1&name=db&name=web", "")
	want := fmt.Sprintf(`[{"name":"db","state":"stopped","pid":null},{"name":"web","state":"running","pid":%d}]`+"\n", os.Getpid())
	if body != want {
		t.Errorf("brief status is %s, want %s", body, want)
	}
}

// globs returns parameters with that many different globs.
func globs(n int) string {
	form := url.Values{}
	for i := range n {
		form.Add("name", fmt.Sprintf("%d*", i))
	}
	return form.Encode()
}

func TestRefusals(t *testing.T) {
	h := newHarness(t)
	tests := []struct {
		method, target, body string
		status               int
		contains             string
	}{
		{"GET", "/v1/status?name=wob", "", 404, `did you mean \"web\"?`},
		{"GET", "/v1/status?nam=web", "", 400, `unknown parameter \"nam\"`},
		{"GET", "/v1/status?" + globs(maxGlobs+1), "", 400, "33 different globs"},
		{"GET", "/v1/status?" + globs(maxGlobs) + "&" + globs(maxGlobs), "", 404, "no program"},
		{"GET", "/v1/status?brief=perhaps", "", 400, `not a boolean: \"perhaps\"`},
		{"GET", "/v1/status?name=%zz", "", 400, "read request"},
		{"POST", "/v1/status", "", 405, "use GET"},
		{"GET", "/v1/programs/web/start", "", 405, "use POST"},
		{"DELETE", "/v1/programs/web", "", 404, "unknown path"},
		{"GET", "/", "", 404, "unknown path /"},
		{"GET", "/v2/status", "", 404, "unknown path"},
		{"POST", "/v1/programs/wob/start", "", 404, `no program, instance or group is named \"wob\"`},
		{"POST", "/v1/programs/start", "", 400, "no program is named"},
		{"POST", "/v1/programs/web/stop?timeout=5", "", 400, `not a positive duration: \"5\"`},
		{"POST", "/v1/programs/web/stop?timeout=-5s", "", 400, "not a positive duration"},
		{"POST", "/v1/programs/web/stop?wait=maybe", "", 400, "not a boolean"},
		{"POST", "/v1/programs/web/signal", "", 400, "no signal is named"},
		{"POST", "/v1/programs/web/signal?signal=BOO", "", 400, "BOO"},
		{"POST", "/v1/programs/wob/signal?signal=HUP", "", 404, "wob"},
		{"POST", "/v1/programs/reload", "", 400, "no program is named"},
		{"POST", "/v1/programs/continue", "", 400, "no program is named"},
		{"POST", "/v1/programs/web/restart?canary=1", "", 400, "only for a rolling restart"},
		{"POST", "/v1/programs/web/restart?rolling=1&canary=0", "", 400, "not a positive number"},
		{"POST", "/v1/programs/web/restart?rolling=1&wait=0", "", 400, "cannot be combined"},
		{"POST", "/v1/programs/web/start?rolling=1", "", 400, "unknown parameter"},
		{"POST", "/v1/programs/wob/reload", "", 404, "wob"},
		{"GET", "/v1/programs/wob/logs", "", 404, "wob"},
		{"GET", "/v1/programs/web/logs?lines=-3", "", 400, "not a number of lines"},
		{"GET", "/v1/programs/web/logs?follow=2", "", 400, "not a boolean"},
		{"POST", "/v1/programs/start", "name=" + strings.Repeat("x", maxBodyBytes), 413, "65536 bytes"},
	}
	for _, tt := range tests {
		status, body := h.request(tt.method, tt.target, tt.body)
		var e control.Error
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			t.Errorf("%s %s: answer is not JSON: %v: %s", tt.method, tt.target, err, body)
		}
		if status != tt.status || !strings.Contains(body, tt.contains) {
			t.Errorf("%s %s: %d %s, want %d with %q", tt.method, tt.target, status, body, tt.status, tt.contains)
		}
	}
	select {
	case call := <-h.fake.calls:
		t.Errorf("supervisor was asked %q", call)
	default:
	}
}

func TestCommands(t *testing.T) {
	h := newHarness(t)
	outcomes, err := h.client.Command(t.Context(), "restart", []string{"web", "db"}, true, time.Minute)
	want := []control.CommandResult{
		{Name: "web", OK: true, State: "running", Message: "running, pid 7"},
		{Name: "db", OK: true, State: "running", Message: "running, pid 7"},
	}
	if fmt.Sprint(outcomes, err) != fmt.Sprint(want, error(nil)) {
		t.Errorf("restart: %v, %v, want %v", outcomes, err, want)
	}
	h.called("restart [web db] wait=true")
	if status, body := h.request("POST", "/v1/programs/web/start?wait=0", ""); status != 200 {
		t.Errorf("start: %d %s", status, body)
	}
	h.called("start [web] wait=false")
	if status, body := h.request("POST", "/v1/programs/stop?name=db&name=web", ""); status != 200 {
		t.Errorf("stop: %d %s", status, body)
	}
	h.called("stop [db web] wait=true")
	if outcomes, err := h.client.Signal(t.Context(), "usr1", []string{"web"}); err != nil || len(outcomes) != 1 || outcomes[0].OK {
		t.Errorf("signal: %v, %v", outcomes, err)
	}
	h.called("signal 10 [web]")
	for _, err := range []error{
		second(h.client.RestartRolling(t.Context(), []string{"web"}, 2, time.Minute)),
		second(h.client.ContinueRoll(t.Context(), []string{"web"}, 0)),
		second(h.client.UndoRoll(t.Context(), []string{"web"}, 0)),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	h.called("rolling restart [web], canary 2")
	h.called("decision 0 about [web]")
	h.called("decision 1 about [web]")
}

func second[T any](_ T, err error) error { return err }

// TestCommandTimesOut: a command answered as still under way is carried out, even if its time was
// over before the loop came to it.
func TestCommandTimesOut(t *testing.T) {
	h := newHarness(t)
	h.on(func() { h.fake.pending = true })
	proceed := make(chan struct{})
	h.loop.Post(func() { <-proceed })
	_, err := h.client.Command(t.Context(), "stop", []string{"web"}, true, time.Millisecond)
	if e, ok := errors.AsType[*control.Error](err); !ok || e.Status != http.StatusGatewayTimeout {
		t.Errorf("stop: %v, want status 504", err)
	}
	close(proceed)
	h.called("stop [web] wait=true")
	h.called("cancel")
}

func TestCommandIsCancelledWhenTheClientGoes(t *testing.T) {
	h := newHarness(t)
	h.on(func() { h.fake.pending = true })
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := h.client.Command(ctx, "stop", []string{"web"}, true, 0)
		failed <- err
	}()
	h.called("stop [web] wait=true")
	cancel()
	if err := receive(t, failed, "the command"); !errors.Is(err, context.Canceled) {
		t.Errorf("stop: %v, want %v", err, context.Canceled)
	}
	h.called("cancel")
}

func TestReload(t *testing.T) {
	h := newHarness(t)
	h.on(func() {
		h.fake.report = procs.ReloadResult{Diff: config.Diff{Programs: []config.Change{{Name: "web", Kind: config.ProgramAdded}}}}
	})
	if status, body := h.request("POST", "/v1/reload", ""); status != 200 || body != `{"dry_run":false,"added":["web"],"removed":[],"changed":[],"programs":[{"program":"web","change":"added","keys":[]}],"sockets":[],"superd":[],"notes":[]}`+"\n" {
		t.Errorf("reload: %d %s", status, body)
	}
	h.on(func() {
		h.fake.loadErr = fmt.Errorf("reload: %w", config.Errors{{File: "superd.toml", Key: "program.web.comand", Line: 3, Column: 1, Err: errors.New("unknown key")}})
	})
	_, err := h.client.Reload(t.Context())
	e, ok := errors.AsType[*control.Error](err)
	want := control.Mistake{File: "superd.toml", Line: 3, Column: 1, Key: "program.web.comand", Message: "unknown key", Severity: "error"}
	if !ok || e.Status != http.StatusUnprocessableEntity || len(e.Mistakes) != 1 || e.Mistakes[0] != want {
		t.Errorf("reload: %+v, want status 422 with %+v", err, want)
	}
	h.on(func() { h.fake.loadErr = errors.New("reload configuration: superd is shutting down") })
	_, err = h.client.Reload(t.Context())
	if e, ok := errors.AsType[*control.Error](err); !ok || e.Status != http.StatusConflict {
		t.Errorf("reload: %v, want status 409", err)
	}
}

func TestShutdownIsAnsweredThoughTheServerClosesAtOnce(t *testing.T) {
	h := newHarness(t)
	closed := make(chan struct{})
	h.on(func() {
		h.fake.onStop = func() {
			h.server.Close()
			close(closed)
		}
	})
	s, err := h.client.Shutdown(t.Context())
	if err != nil || s.Pid != os.Getpid() || s.Message == "" {
		t.Errorf("shutdown: %+v, %v", s, err)
	}
	h.called(fmt.Sprintf("shutdown: user %d requested it over the control socket", os.Geteuid()))
	receive(t, closed, "Close")
	if _, err := h.client.Version(t.Context()); !errors.Is(err, control.ErrNoSuperd) {
		t.Errorf("version after Close: %v, want %v", err, control.ErrNoSuperd)
	}
}

func TestShutdownThatIsNotOnRecord(t *testing.T) {
	h := newHarness(t)
	h.on(func() { h.fake.unrecorded = errors.New("no space left") })
	s, err := h.client.Shutdown(t.Context())
	if err != nil || s.Unrecorded != "no space left" {
		t.Errorf("shutdown: %+v, %v; want that it is not on record", s, err)
	}
}

func TestVersion(t *testing.T) {
	h := newHarness(t)
	_, body := h.request("GET", "/v1/version", "")
	want := fmt.Sprintf(`{"version":"1.2.3","commit":null,"date":null,"pid":%d,"keeper_pid":null,"uptime_s":90,"features":{"pidfs":true}}`+"\n", os.Getpid())
	if body != want {
		t.Errorf("version is %s, want %s", body, want)
	}
}

func TestNamesAreEscaped(t *testing.T) {
	h := newHarness(t)
	if status, body := h.request("POST", "/v1/programs/"+url.PathEscape("we?/b")+"/start", ""); status != 404 || !strings.Contains(body, `\"we?/b\"`) {
		t.Errorf("start of we?/b: %d %s", status, body)
	}
}
