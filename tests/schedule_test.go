package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

// eventsOf returns the events of one kind about a program.
func eventsOf(s *harness.Site, name, kind string) []event {
	s.T.Helper()
	return slices.DeleteFunc(events(s, 0), func(e event) bool { return e.Kind != kind || e.Instance != name })
}

func waitEvents(s *harness.Site, name, kind string, n int) {
	s.T.Helper()
	harness.Until(s.T, fmt.Sprintf("%d events %s of %s", n, kind, name), func() bool { return len(eventsOf(s, name, kind)) >= n })
}

// TestSchedule: a program with a schedule runs at its times, whatever the outcomes of its runs, and
// shows its next start.
func TestSchedule(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.tick]
		type = "oneshot"
		command = ["sh", "-c", "echo tick; exit 3"]
		schedule = "@every 1s"
		[program.retried]
		type = "oneshot"
		command = ["sh", "-c", "echo try; test -e DIR/go"]
		schedule = "@every 1s"
		restart = "on-failure"
		backoff = { initial = "50ms", max = "50ms" }
		[program.slow]
		type = "oneshot"
		command = ["sh", "-c", "echo slow; sleep 3"]
		schedule = "@every 1s"
		[program.nightly]
		type = "oneshot"
		command = ["sh", "-c", "echo night"]
		schedule = "@every 24h"
		schedule_jitter = "1h"
		`)
	s.Start()
	began := time.Now()
	st := s.WaitState("nightly", "waiting")
	if remaining := *st.NextStartInS; remaining < 86390 || remaining > 90000 || !strings.Contains(st.Reason, "waits for its schedule; next run at 20") {
		t.Errorf("%v, next start in %v s; want one in 24 to 25 hours", st, remaining)
	}
	s.WaitLog("tick", "tick\ntick\n")
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("the second run came after %v, want 1s between two", took)
	}
	st = s.WaitStatus("tick", "waits again", func(st harness.Status) bool { return st.State == "waiting" && st.Exit != nil })
	if st.Exit.String() != "3" || st.Restarts != 0 || st.NextStartInS == nil || *st.NextStartInS > 1 || !strings.HasPrefix(st.Reason, "exit status 3 after ") {
		t.Errorf("between two runs: %v, next start in %v; want exit 3, no restart, within 1s", st, st.NextStartInS)
	}

	// Retries belong to their run.
	s.WaitLog("retried", strings.Repeat("try\n", 4))
	s.Write("go", "")
	s.WaitStatus("retried", "waits for its next time", func(st harness.Status) bool { return st.State == "waiting" && st.Exit.String() == "0" })

	// A long run is not replaced: what is due meanwhile is skipped, and that is recorded.
	waitEvents(s, "slow", "skip", 2)
	if starts, skips := eventsOf(s, "slow", "start"), eventsOf(s, "slow", "skip"); len(starts) != 1 && !strings.Contains(skips[1].Reason, "due times in all during one run") {
		t.Errorf("%d starts, skipped: %v; want one start, the first one that was skipped and how many were", len(starts), skips)
	}
	if why := s.MustCtl("why", "slow").Out; !strings.Contains(why, "skipped: due at ") {
		t.Errorf("why says nothing of what was skipped:\n%s", why)
	}
	if why := s.MustCtl("why", "nightly").Out; !strings.Contains(why, `Its schedule is "@every 24h": next run at 20`) {
		t.Errorf("why says nothing of the next run:\n%s", why)
	}

	// The operator starts it, and stops it.
	if r := s.MustCtl("start", "nightly"); !strings.Contains(r.Out, "nightly") || s.Log("nightly") != "night\n" {
		t.Errorf("start says %q, log %q; want that it ran", r.Out, s.Log("nightly"))
	}
	if r := s.Ctl("start", "tick"); r.Exit != 1 || !strings.Contains(r.Out+r.ErrOut, "exit status 3") {
		t.Errorf("start of a run that fails: exit %d, %s%s", r.Exit, r.Out, r.ErrOut)
	}
	s.MustCtl("stop", "nightly", "tick")
	for _, name := range []string{"nightly", "tick"} {
		if st := s.Status(name); st.State != "stopped" || st.NextStartInS != nil {
			t.Errorf("held by the operator: %v, next start in %v", st, st.NextStartInS)
		}
	}
	s.MustCtl("start", "nightly")
	if st := s.Status("nightly"); st.State != "waiting" || st.NextStartInS == nil || s.Log("nightly") != "night\nnight\n" {
		t.Errorf("started again: %v", st)
	}
}

// TestScheduleIsReloaded: a new schedule is in force at once, without effect on the present run.
func TestScheduleIsReloaded(t *testing.T) {
	t.Parallel()
	program := func(name, schedule, command string) string {
		return fmt.Sprintf("[program.%s]\ntype = 'oneshot'\ncommand = ['sh', '-c', '%s']\n%s\n", name, command, schedule)
	}
	s := harness.NewSite(t, program("late", `schedule = "@every 24h"`, "echo late")+program("runs", `schedule = "@every 1s"`, "echo runs; sleep infinity")+
		program("once", "", "echo once"))
	s.Start()
	s.WaitState("once", "exited")
	before := s.WaitState("runs", "running")
	s.Configure(program("late", `schedule = "@every 1s"`, "echo late") + program("runs", `schedule = "@every 2h"`, "echo runs; sleep infinity") +
		program("once", `schedule = "0 0 1 1 *"`, "echo once"))
	s.MustCtl("reload")
	s.WaitLog("late", "late\nlate\n")
	if after := s.Status("runs"); after.Pid != before.Pid || s.Log("runs") != "runs\n" {
		t.Errorf("the run under way: %v, before the reload %v", after, before)
	}
	if st := s.Status("once"); st.State != "waiting" || s.Log("once") != "once\n" || !strings.Contains(st.Reason, "next run at 2") {
		t.Errorf("it has got a schedule: %v, log %q", st, s.Log("once"))
	}

	s.Configure(program("late", `schedule = "61 * * * *"`, "echo late"))
	if r := s.Ctl("reload"); r.Exit != 2 || !strings.Contains(r.ErrOut, `superd.toml:7:12: program.late.schedule: "61" is not a minute (0 to 59)`) {
		t.Errorf("reload of a broken line: exit %d, %s", r.Exit, r.ErrOut)
	}
	if st := s.Status("late"); st.State != "waiting" && st.State != "running" && st.State != "starting" && st.State != "stopping" {
		t.Errorf("after a reload that was refused: %v", st)
	}
}

// TestScheduleOutlivesSuperd: schedules survive each kind of end of superd. A time missed meanwhile
// is made up for once, or skipped.
func TestScheduleOutlivesSuperd(t *testing.T) {
	t.Parallel()
	ends := map[string]func(d *harness.Superd){
		"killed":  func(d *harness.Superd) { d.Kill() },
		"orderly": func(d *harness.Superd) { d.MustCtl("shutdown"); d.Wait() },
	}
	for end, by := range ends {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, `
				[defaults]
				type = "oneshot"
				[program.missed]
				command = ["sh", "-c", "echo missed"]
				schedule = "@every 3s"
				[program.passed]
				command = ["sh", "-c", "echo passed"]
				schedule = "@every 3s"
				schedule_missed = "skip"
				[program.later]
				command = ["sh", "-c", "echo later"]
				schedule = "@every 1h"
				`)
			d := s.Start()
			before := *s.WaitState("later", "waiting").NextStartInS
			s.WaitLog("missed", "missed\n")
			s.WaitLog("passed", "passed\n")
			for _, name := range []string{"missed", "passed"} {
				s.WaitState(name, "waiting")
			}
			by(d)
			ran := strings.Count(s.Log("missed"), "missed\n")
			// Downtime: at least one time of the schedule passes, 2 at most
			harness.Window(t, 4500*time.Millisecond)
			s.Start()
			s.WaitLog("missed", strings.Repeat("missed\n", ran+1))
			// A run that the end of superd interrupted would be one more
			harness.Until(t, "a start that makes up", func() bool {
				return slices.ContainsFunc(eventsOf(s, "missed", "start"), func(e event) bool {
					return strings.Contains(e.Reason, "to make up for 20")
				})
			})
			waitEvents(s, "passed", "skip", 1)
			if skips := eventsOf(s, "passed", "skip"); !strings.Contains(skips[0].Reason, `schedule_missed = "skip"`) {
				t.Errorf("skipped: %v", skips)
			}
			if remaining := *s.Status("later").NextStartInS; remaining > before-4 {
				t.Errorf("the next run in an hour is in %v s, it was in %v s before superd was down for 4.5 s", remaining, before)
			}
		})
	}
}
