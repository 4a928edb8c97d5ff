package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"superd/config"
	"superd/control"
	"superd/logs/segment"
	"superd/procs"
	"superd/procs/diagnosis"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/probe"
	"superd/tests/golden"
)

// indented returns JSON with a line for each key.
func indented(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return b.String()
}

// TestGoldenAnswers compares the JSON of status, events, history and why with golden files.
func TestGoldenAnswers(t *testing.T) {
	h := newHarness(t)
	at := func(s int) time.Time { return startOfTest.Add(time.Duration(s) * time.Second) }
	var all []procs.Status
	for state := fsm.Stopped; state <= fsm.Failed; state++ {
		name := fmt.Sprintf("p%02d", state)
		all = append(all, procs.Status{Name: name, Program: name, State: state, Since: at(0)})
	}
	all = append(all, procs.Status{
		Name: "web@2", Program: "web", Definition: &config.Program{Settings: &config.Settings{Groups: []string{"front"}}}, State: fsm.Running, Healthy: new(false),
		StatusText: "3 clients", Check: &diagnosis.Check{At: at(1), Took: time.Second, Outcome: probe.Failed, Reason: "refused", Failures: 2},
		LastReload: &procs.ReloadEnd{At: at(1), OK: true, Outcome: "reloaded: SIGHUP sent to process 7"},
		Main:       procs.MainStatus{Pid: 1 << 30, Uptime: time.Minute, Sandbox: []string{"sandbox.landlock: operation not supported"}}, Since: at(0), Restarts: procs.Restarts{Count: 3},
		Exit:      &procs.ExitStatus{Signal: "SIGKILL", At: at(0), Known: true},
		NextStart: new(1500 * time.Millisecond), LogFile: "/var/log/superd/web@2.log",
		Reason: "started by the operator", ReasonKind: fsm.ReasonStarted, WantedUp: true,
	})
	h.on(func() { h.fake.all = all })
	get := func(target string) string {
		status, body := h.request("GET", target, "")
		if status != 200 {
			t.Fatalf("%s: %d %s", target, status, body)
		}
		return body
	}
	golden.Check(t, "status.json", indented(t, get("/v1/status")))
	golden.Check(t, "status-brief.json", indented(t, get("/v1/status?brief=1&name=web")))

	mark := eventlog.Event{Instance: "web@2", Program: "web", Run: "r1"}
	for i, e := range []eventlog.Event{
		{Kind: eventlog.Superd, State: eventlog.Started, Pid: 1},
		{Kind: eventlog.State, From: "stopped", State: "starting", Reason: "started by the operator", ReasonKind: "started"},
		{Kind: eventlog.Start, Pid: 7, Reason: "by the operator", ReasonKind: "started"},
		{Kind: eventlog.Health, State: eventlog.Unhealthy, Reason: "unhealthy: 1 failed check in a row", ReasonKind: "unhealthy"},
		{Kind: eventlog.Health, State: eventlog.Healthy, Reason: "tcp 127.0.0.1:80", ReasonKind: "healthy"},
		{Kind: eventlog.Print, Reason: "first output", ReasonKind: "first-output", Place: segment.Cursor{}.String()},
		{Kind: eventlog.Outage, State: eventlog.Begun, Reason: "output does not get into /l: full", ReasonKind: "log-outage"},
		{Kind: eventlog.Outage, State: eventlog.Over, Reason: "output gets into its log again, after 1s", ReasonKind: "log-outage-over"},
		{Kind: eventlog.Command, By: "the operator", ByKind: "operator", Reason: "stop", ReasonKind: "stop"},
		{Kind: eventlog.Exit, Pid: 7, Reason: "exit status 3", ReasonKind: "exited", Exit: &eventlog.ExitStatus{Code: new(3), Known: true},
			Started: at(2), Duration: new(7.5), CPU: new(0.25), MaxRSS: 4096, RSSBound: true},
		{Kind: eventlog.State, From: "running", State: "backoff", Reason: "exit status 3 after 7.5s", ReasonKind: "exited",
			RestartIn: new(0.1)},
		{Kind: eventlog.Output, Output: []string{"panic", "<gone>"}},
		{Kind: eventlog.NoStart, Run: "r2", Reason: "open executable /x: no such file or directory", ReasonKind: "start-failed"},
		{Kind: eventlog.Skip, Reason: "due at 07:00: the previous run is not over", ReasonKind: "skipped-overlap"},
		{Kind: eventlog.Start, Run: "r3", Pid: 8, Reason: "again: exit status 3", ReasonKind: "restarted"},
		{Kind: eventlog.Reload, Reason: "1 added", ReasonKind: "reloaded"},
		{Kind: eventlog.Shutdown, Reason: "SIGTERM", ReasonKind: "shutdown-requested"},
		{Kind: eventlog.Superd, State: eventlog.Ended, Pid: 1, Reason: "SIGTERM", ReasonKind: "shutdown-requested"},
		{Kind: eventlog.Superd, State: eventlog.Started, Pid: 2},
		{Kind: eventlog.Start, Run: "r4", Pid: 9, Reason: "by the operator", ReasonKind: "started"},
	} {
		e.At = at(i)
		switch e.Kind {
		case eventlog.Superd, eventlog.Shutdown, eventlog.Reload:
		default:
			e.Instance, e.Program = mark.Instance, mark.Program
			if e.Run == "" {
				e.Run = mark.Run
			}
		}
		h.events.Append(e)
	}
	golden.Check(t, "events.jsonl", get("/v1/events"))
	golden.Check(t, "history.json", indented(t, get("/v1/history")))
	golden.Check(t, "why.json", indented(t, get("/v1/why?name=web")))
}

// TestClientNames compares the names that clients know with those of superd.
func TestClientNames(t *testing.T) {
	for client, own := range map[string]string{
		control.StateStopped:  fsm.Stopped.String(),
		control.StateWaiting:  fsm.Waiting.String(),
		control.StateStarting: fsm.Starting.String(),
		control.StateRunning:  fsm.Running.String(),
		control.StateStopping: fsm.Stopping.String(),
		control.StateBackoff:  fsm.Backoff.String(),
		control.StateExited:   fsm.Exited.String(),
		control.StateFailed:   fsm.Failed.String(),

		control.ReasonWaitsForSchedule:   fsm.ReasonWaitsForSchedule.String(),
		control.ReasonWaitsForConnection: fsm.ReasonWaitsForConnection.String(),

		control.KindState:    string(eventlog.State),
		control.KindStart:    string(eventlog.Start),
		control.KindNoStart:  string(eventlog.NoStart),
		control.KindExit:     string(eventlog.Exit),
		control.KindHealth:   string(eventlog.Health),
		control.KindOutput:   string(eventlog.Output),
		control.KindPrint:    string(eventlog.Print),
		control.KindOutage:   string(eventlog.Outage),
		control.KindSkip:     string(eventlog.Skip),
		control.KindFlapping: string(eventlog.Flapping),
		control.KindCommand:  string(eventlog.Command),
		control.KindReload:   string(eventlog.Reload),
		control.KindRoll:     string(eventlog.Roll),
		control.KindShutdown: string(eventlog.Shutdown),
		control.KindSuperd:   string(eventlog.Superd),
		control.KindGap:      string(eventlog.Gap),
		control.OutageBegun:  eventlog.Begun,

		control.ChangeUnchanged: string(config.Unchanged),
		control.ChangeLive:      string(config.AppliedLive),
		control.ChangeRestart:   string(config.RestartNeeded),
		control.ChangeAdded:     string(config.ProgramAdded),
		control.ChangeRemoved:   string(config.ProgramRemoved),
	} {
		if client != own {
			t.Errorf("clients know %q, superd says %q", client, own)
		}
	}
}
