package counters

import (
	"encoding/json"
	"testing"
	"time"

	"superd/procs/fsm"
)

// TestTotalsNeverDecrease: CPU time and bytes continue across the end of runs, of processes that
// nobody waited for, and of superd.
func TestTotalsNeverDecrease(t *testing.T) {
	s := time.Second
	type step struct {
		what  string
		r     Reading
		cpu   time.Duration
		bytes int64
	}
	steps := []step{
		{"the first run", Reading{Pid: 1, Start: 1, Live: 5 * s, Written: 10}, 5 * s, 10},
		{"it goes on", Reading{Pid: 1, Start: 1, Live: 7 * s, Written: 15}, 7 * s, 15},
		{"a child ends that was not waited for", Reading{Pid: 1, Start: 1, Live: 6 * s, Written: 15}, 7 * s, 15},
		{"the main process continues", Reading{Pid: 1, Start: 1, Live: 8 * s, Written: 15}, 9 * s, 15},
		{"it can't be read", Reading{Live: -1, Written: 15}, 9 * s, 15},
		{"it has ended", Reading{Ended: 10 * s, Written: 16}, 11 * s, 16},
		{"a run between two readings", Reading{Ended: 11 * s, Written: 16}, 12 * s, 16},
		{"the next run, same pid", Reading{Pid: 1, Start: 9, Ended: 11 * s, Live: 2 * s, Written: 16}, 14 * s, 16},
		{"two runs later", Reading{Pid: 3, Start: 20, Ended: 19 * s, Live: 1 * s, Written: 20}, 21 * s, 20},
		{"its usage was not seen", Reading{Pid: 4, Start: 30, Ended: 19 * s, Live: 1 * s, Written: 20}, 22 * s, 20},
		{"SUCCESSOR", Reading{Pid: 4, Start: 30, Ended: 19 * s, Live: 2 * s, Written: 3}, 23 * s, 23},
		{"another instance of that name", Reading{Pid: 4, Start: 30, Ended: 19 * s, Live: 2 * s, Written: 1}, 23 * s, 24},
	}
	var totals Totals
	for _, step := range steps {
		if step.what == "SUCCESSOR" {
			text, err := json.Marshal(totals)
			if err != nil {
				t.Fatal(err)
			}
			totals = nil
			if err := json.Unmarshal(text, &totals); err != nil {
				t.Fatal(err)
			}
		}
		step.r.Instance = "web"
		totals, _ = totals.Add([]Reading{step.r})
		if got := totals["web"]; got.CPU != step.cpu || got.LogBytes != step.bytes {
			t.Errorf("%s: %v and %d bytes, want %v and %d", step.what, got.CPU, got.LogBytes, step.cpu, step.bytes)
		}
	}
	if _, changed := totals.Add([]Reading{{Instance: "web", Pid: 4, Start: 30, Ended: 19 * s, Live: 2 * s, Written: 1}}); changed {
		t.Error("the same reading changes the totals")
	}
	if next, changed := totals.Add(nil); !changed || len(next) != 0 {
		t.Errorf("totals of a removed instance: %v, %v; want none, true", next, changed)
	}
}

func TestResultOf(t *testing.T) {
	for name, tt := range map[string]struct {
		exit     fsm.Exit
		stopping bool
		want     Result
	}{
		"exit code 0":             {fsm.Exit{Known: true}, false, Success},
		"another exit code":       {fsm.Exit{Known: true, Code: 3}, false, Failure},
		"a signal":                {fsm.Exit{Known: true, Signal: 9}, false, Signal},
		"a signal during a stop":  {fsm.Exit{Known: true, Signal: 9}, true, Stopped},
		"unknown during a stop":   {fsm.Exit{}, true, Unknown},
		"an exit code of success": {fsm.Exit{Known: true, Code: 7}, false, Success},
	} {
		if got := ResultOf(tt.exit, []int{0, 7}, tt.stopping); got != tt.want {
			t.Errorf("%s: %s, want %s", name, resultNames[got], resultNames[tt.want])
		}
	}
}

// TestCountsAreRestored: counts are what they were in the record, also with names that only another
// version of superd knows.
func TestCountsAreRestored(t *testing.T) {
	var c Counts
	c.Starts.Add(fsm.ReasonStarted)
	c.Starts.Add(fsm.ReasonExited) // no reason of a start
	c.NotStarted = 2
	c.Exit(Signal, time.Second)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"starts":{"other":1,"started":1},"not_started":2,"exits":{"signal":1},"cpu":1000000000}`
	if string(text) != want {
		t.Errorf("record %s, want %s", text, want)
	}
	var got Counts
	if err := json.Unmarshal([]byte(`{"starts":{"later":4,"other":1,"started":1},"not_started":2,"exits":{"signal":1,"later":1},"cpu":1000000000}`), &got); err != nil {
		t.Fatal(err)
	}
	if got != c {
		t.Errorf("restored %+v, want %+v", got, c)
	}
}
