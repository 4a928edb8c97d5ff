package tests

import (
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestStatusShowsReasons: the table has a reason for each instance that does not simply run, and
// shows no line of an older run.
func TestStatusShowsReasons(t *testing.T) {
	t.Parallel()
	const simple = `
		[program.web]
		command = ["sh", "-c", "cat; sleep infinity"]
		`
	s := harness.NewSite(t, simple)
	s.Mkdir("log")
	s.Write("log/web.log", "from yesterday\n")
	s.Write("log/down.log", "from yesterday\n")
	d := s.Start()
	s.WaitState("web", "running")
	if table := s.MustCtl("status").Out; strings.Contains(table, "REASON") || strings.Contains(table, "yesterday") {
		t.Errorf("all simply run, and none has printed anything:\n%s", table)
	}
	s.MustCtl("shutdown")
	d.Wait()

	s.Configure(simple + `
		[program.starting]
		command = ["sh", "-c", "trap '' TERM; echo deaf; exec sleep infinity"]
		ready = { notify = true }
		stop_timeout = "1h"
		[program.down]
		command = "true"
		autostart = false
		[program.twice]
		command = ["sh", "-c", "if [ -e DIR/again ]; then sleep infinity; fi; touch DIR/again; echo first run; exit 3"]
		backoff = { initial = "1ms", max = "1ms" }
		`)
	s.Start()
	s.WaitStatus("starting", "is not ready yet", func(st harness.Status) bool {
		return st.State == "starting" && strings.Contains(st.Reason, "READY=1")
	})
	s.WaitStatus("twice", "runs again", func(st harness.Status) bool { return st.Restarts == 1 && st.State == "running" })
	table := s.MustCtl("status").Out
	for _, want := range []string{"REASON", "READY=1"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	for _, old := range []string{"yesterday", "first run"} {
		if strings.Contains(table, old) {
			t.Errorf("the table shows %q, which is of an older run:\n%s", old, table)
		}
	}
	s.WaitLog("starting", "deaf")
	s.MustCtl("stop", "--no-wait", "starting")
	s.WaitState("starting", "stopping")
	stopping := s.Status("starting")
	if table := s.MustCtl("status").Out; stopping.Reason == "" || !strings.Contains(table, stopping.Reason) {
		t.Errorf("the table lacks the reason %q of stopping:\n%s", stopping.Reason, table)
	}
	s.MustCtl("signal", "KILL", "starting")
	s.WaitState("starting", "stopped")
}
