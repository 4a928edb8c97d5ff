package server

import (
	"os"
	"strings"
	"testing"
	"time"

	"superd/internal/procfs"
	"superd/procs"
	"superd/procs/counters"
	"superd/procs/diagnosis"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/tests/golden"
)

// Read implements [Meter].
func (f *fakeSupervisor) Read() (procs.Info, []procs.Measured) {
	all := make([]procs.Measured, len(f.all))
	for i, st := range f.all {
		all[i] = procs.Measured{Status: st, Counts: f.counts[st.Name]}
	}
	return f.Info(), all
}

// Count implements [Meter].
func (f *fakeSupervisor) Count(readings []counters.Reading, recorded func(error)) counters.Totals {
	f.readings = readings
	recorded(f.unrecorded)
	totals, _ := counters.Totals(nil).Add(readings)
	return totals
}

// TestCounters: the answer has what the supervisor counts, what processes use, and the events.
func TestCounters(t *testing.T) {
	h := newHarness(t)
	h.server.options.TreeUsages = func(mains []host.MainProcess, others []int) []host.TreeUsage {
		usages := make([]host.TreeUsage, len(mains))
		for i, m := range mains {
			if m.Pid != 0 {
				usages[i] = host.TreeUsage{CPU: time.Hour, RSS: 1 << 40, Processes: 2}
			}
		}
		return usages
	}
	own, err := procfs.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	counts := counters.Counts{NotStarted: 1}
	counts.Starts.Add(fsm.ReasonStarted)
	counts.Exit(counters.Failure, 7*time.Second)
	h.on(func() {
		h.fake.counts = map[string]counters.Counts{"down": counts}
		h.fake.all = []procs.Status{
			{Name: "daily", Program: "daily", State: fsm.Waiting, NextStart: new(time.Hour)},
			{Name: "down", Program: "down", State: fsm.Backoff, NextStart: new(1500 * time.Millisecond)},
			{Name: "web@2", Program: "web", State: fsm.Running, Healthy: new(true),
				Check: &diagnosis.Check{Took: 250 * time.Millisecond},
				Main:  procs.MainStatus{Pid: os.Getpid(), Start: own.Start, Uptime: time.Minute}},
			{Name: "gone", Program: "gone", State: fsm.Running, Main: procs.MainStatus{Pid: os.Getpid(), Start: 1}},
		}
	})
	h.events.Append(eventlog.Event{Kind: eventlog.Exit})
	if err := h.events.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := h.client.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	daily, down, web, gone := got.Instances[0], got.Instances[1], got.Instances[2], got.Instances[3]
	if got.Version != "1.2.3" || got.Events["exit"] != 1 || got.Events["state"] != 0 {
		t.Errorf("superd %+v", got)
	}
	if daily.ScheduleNext == nil || daily.RestartDelay != nil || daily.Processes != 0 {
		t.Errorf("an instance that waits for its schedule: %+v", daily)
	}
	if down.ScheduleNext != nil || *down.RestartDelay != 1.5 || down.Starts["started"] != 1 ||
		down.StartFailures != 1 || down.Exits["failure"] != 1 || down.CPU != 7 {
		t.Errorf("an instance in backoff: %+v", down)
	}
	if web.Replica != 2 || web.Program != "web" || web.Processes != 3 || web.RSS <= 1<<40 || web.CPU < 3600 ||
		!*web.Healthy || *web.CheckSeconds != 0.25 {
		t.Errorf("an instance that runs: %+v", web)
	}
	h.on(func() {
		if r := h.fake.readings[3]; r.Live >= 0 {
			t.Errorf("a process whose pid another one has is read: %+v, %+v", r, gone)
		}
	})
	status, body := h.request("GET", "/v1/counters", "")
	if status != 200 {
		t.Fatalf("status %d: %s", status, body)
	}
	h.on(func() { h.fake.all = h.fake.all[1:2] })
	_, body = h.request("GET", "/v1/counters", "")
	golden.Check(t, "counters.json", indented(t, body))
}

// TestReadiness: /readyz has a status for probes of load balancers, and says what is not ready.
func TestReadiness(t *testing.T) {
	h := newHarness(t)
	for _, tt := range []struct {
		path, body string
		status     int
	}{
		{"/readyz?name=web", `{"ready":true,"not_ready":[]}`, 200},
		{"/readyz?name=web&name=db", `{"ready":false,"not_ready":["db"]}`, 503},
		{"/readyz", `{"ready":false,"not_ready":[]}`, 503},
		{"/readyz?name=none", `"error"`, 404},
		{"/healthz", `{"ok":true}`, 200},
	} {
		status, body := h.request("GET", tt.path, "")
		if status != tt.status || !strings.Contains(body, tt.body) {
			t.Errorf("%s: %d %s, want %d %s", tt.path, status, body, tt.status, tt.body)
		}
	}
}

// TestHealthOfHungLoop: a loop that hangs shows as an answer, not as silence.
func TestHealthOfHungLoop(t *testing.T) {
	h := newHarness(t, func(s *Server) { s.health = 10 * time.Millisecond })
	release := make(chan struct{})
	h.loop.Post(func() { <-release })
	defer close(release)
	if status, body := h.request("GET", "/healthz", ""); status != 503 || !strings.Contains(body, "hangs") {
		t.Errorf("%d %s, want 503", status, body)
	}
}
