package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

type run struct {
	Name, Run string
	Pid       *int
	Exit      *harness.ExitStatus
	DurationS *float64   `json:"duration_s"`
	CPUS      *float64   `json:"cpu_s"`
	MaxRSS    *int64     `json:"max_rss_bytes"`
	StartedAt *time.Time `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Reason    *string
}

type event struct {
	Cursor                              uint64
	Kind, Instance, From, State, Reason string
	Run, By                             string
	Pid                                 int
	Exit                                *harness.ExitStatus
	Output                              []string
	Lost                                uint64
}

func history(s *harness.Site, names ...string) (runs []run) {
	s.T.Helper()
	out := s.MustCtl(append([]string{"history", "--json"}, names...)...).Out
	if err := json.Unmarshal([]byte(out), &runs); err != nil {
		s.T.Fatalf("history: %v in %q", err, out)
	}
	return runs
}

func events(s *harness.Site, since uint64) (all []event) {
	s.T.Helper()
	for line := range strings.Lines(s.MustCtl("events", "--json", "--since", fmt.Sprint(since)).Out) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.T.Fatalf("event: %v in %q", err, line)
		}
		all = append(all, e)
	}
	return all
}

const explained = `
	[program.web]
	command = ["sh", "-c", "echo connect to database: refused; exit 3"]
	backoff = { initial = "1ms", max = "1ms" }
	start_limit = { failures = 3, within = "1h", retry_after = "1h" }
	[program.db]
	command = "sleep infinity"
	[program.down]
	command = "true"
	autostart = false
	[program.none]
	command = "DIR/none"
	restart = "never"
	`

func TestWhy(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, explained)
	s.Start()
	s.WaitState("web", "failed")
	s.WaitState("none", "failed")
	s.WaitLog("web", strings.Repeat("connect to database: refused\n", 3))
	s.MustCtl("stop", "db")
	for name, parts := range map[string][]string{
		"web":  {"web failed at", "exit status 3", "start limit hit: 3 failures", "wanted up by the configuration", "Next start in", "connect to database: refused"},
		"db":   {"db is stopped", "wanted down by the operator", "superd ctl start db"},
		"down": {"down is stopped", "not wanted up", "superd ctl start down"},
		"none": {"none failed at", s.Path("none"), "no such file"},
	} {
		// Its last lines come with an event that may be some milliseconds later than the state
		if name == "web" {
			harness.Until(t, "why has the last lines", func() bool { return strings.Contains(s.MustCtl("why", name).Out, "refused") })
		}
		out := s.MustCtl("why", name).Out
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("ctl why %s: no %q in\n%s", name, part, out)
			}
		}
	}
	if r := s.Ctl("why", "wbe"); r.Exit == 0 || !strings.Contains(r.ErrOut, `"web"`) {
		t.Errorf("ctl why of an unknown name: %v, want the nearest one", r)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, explained)
	s.Start()
	s.WaitState("web", "failed")
	db := s.WaitState("db", "running")
	s.Kill(db.Pid, syscall.SIGKILL)
	s.WaitStatus("db", "is restarted", func(st harness.Status) bool { return st.State == "running" && st.Restarts == 1 })
	runs := history(s, "web")
	if len(runs) != 3 {
		t.Fatalf("history of web: %v, want 3 runs", runs)
	}
	ids := map[string]bool{}
	for _, r := range runs {
		ids[r.Run] = true
		if r.Pid == nil || r.Exit.String() != "3" || r.DurationS == nil || *r.DurationS <= 0 || r.CPUS == nil || r.MaxRSS == nil || r.EndedAt == nil {
			t.Errorf("run of web: %+v, want pid, exit 3 and the figures", r)
		}
	}
	if len(ids) != 3 {
		t.Errorf("%d different runs, want 3", len(ids))
	}
	runs = history(s, "db")
	if len(runs) != 2 || runs[0].Exit.String() != "SIGKILL" || *runs[0].Pid != db.Pid || runs[1].Exit != nil || runs[1].EndedAt != nil {
		t.Errorf("history of db: %+v, want one run that was killed and one that runs", runs)
	}
	if runs = history(s, "none"); len(runs) != 1 || runs[0].Pid != nil || runs[0].Reason == nil || !strings.Contains(*runs[0].Reason, "no such file") {
		t.Errorf("history of none: %+v, want one that was not started", runs)
	}
	if out := s.MustCtl("history").Out; strings.Count(out, "exit status 3") != 3 || strings.Count(out, "\n") != 1+3+2+1 {
		t.Errorf("ctl history:\n%s", out)
	}
}

// TestEvents: every run has one start and one end, in this order, and no cursor is missing, from
// whatever cursor they are read.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, explained)
	d := s.Start()
	s.WaitState("web", "failed")
	s.MustCtl("restart", "db")
	s.MustCtl("signal", "USR1", "db")
	s.WaitStatus("db", "runs", func(st harness.Status) bool { return st.State == "running" || st.State == "backoff" })
	all := events(s, 0)
	started, ended := map[string]int{}, map[string]int{}
	seen := ""
	for i, e := range all {
		if e.Cursor != uint64(i+1) {
			t.Fatalf("event %d has the number %d", i+1, e.Cursor)
		}
		switch e.Kind {
		case "start":
			started[e.Run]++
		case "exit":
			if ended[e.Run]++; started[e.Run] != 1 || ended[e.Run] != 1 || e.Exit == nil {
				t.Errorf("%+v: want one start before and no other end", e)
			}
		case "state":
			if e.Reason == "" {
				t.Errorf("%+v: no reason", e)
			}
		}
		seen += e.Kind + " " + e.Instance + " " + e.By + " " + e.Reason + "\n"
	}
	for _, want := range []string{"superd ", "no-start none", "command db the operator restart", "command db the operator signal SIGUSR1", "start web", "exit web", "state db"} {
		if !strings.Contains(seen, want) {
			t.Errorf("no event %q in\n%s", want, seen)
		}
	}
	middle := uint64(len(all) / 2)
	if rest := events(s, middle); len(rest) < len(all)-int(middle) || rest[0].Cursor != middle+1 {
		t.Errorf("since %d: %d events from %+v on", middle, len(rest), rest[0])
	}
	if ahead := events(s, 1_000_000); len(ahead) == 0 || ahead[0].Kind != "gap" {
		t.Errorf("since a number that is not there yet: %+v, want a gap", ahead)
	}

	// Followed to the end of superd, and on in the next one.
	follow := s.Command("ctl", "--runtime-dir", s.RuntimeDir, "events", "-f", "--json", "--since", fmt.Sprint(len(all)))
	out := new(harness.Output)
	follow.Stdout, follow.Stderr = out, out
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	s.MustCtl("stop", "*")
	out.Wait(t, `"stopped by the operator`)
	d.Signal(syscall.SIGTERM)
	d.Wait()
	follow.Wait()
	out.Wait(t, `"kind":"shutdown"`)
	out.Wait(t, `"state":"ended"`)
}

// TestDurationCountsFromTheFork: no run of one thread takes more processor time than it lasts.
// superd may read the exit in a turn that began before it: a run lasts up to that turn.
func TestDurationCountsFromTheFork(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "true"
		backoff = { initial = "1ms", max = "1ms" }
		`)
	s.Start()
	s.WaitStatus("web", "has run 20 times", func(st harness.Status) bool { return st.Restarts >= 20 })
	s.MustCtl("stop", "web")
	const turn = 250e-6 // seconds
	for _, r := range history(s) {
		if r.DurationS == nil || r.CPUS == nil {
			continue // unknown
		}
		if *r.DurationS+turn < *r.CPUS {
			t.Errorf("a run of %.6f s took %.6f s of processor time", *r.DurationS, *r.CPUS)
		}
		if between := r.EndedAt.Sub(*r.StartedAt).Seconds(); between+turn < *r.CPUS {
			t.Errorf("a run from %v to %v took %.6f s of processor time", r.StartedAt, r.EndedAt, *r.CPUS)
		}
	}
}
