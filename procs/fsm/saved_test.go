package fsm

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestRestore: a machine with a value in each field is restored from its snapshot, through JSON.
func TestRestore(t *testing.T) {
	m := filled(t)
	v := m.Snapshot()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	read := Saved{Outdated: v.Outdated}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	restored := New(m.program, m.rules)
	restored.Restore(read, true)
	if !reflect.DeepEqual(&restored, m) {
		t.Errorf("restored it is\n%+v\nwant\n%+v", restored, *m)
	}
	restored.failures[0]++
	restored.desiredBeforeShutdown.Up = !restored.desiredBeforeShutdown.Up
	if !reflect.DeepEqual(m.Snapshot(), v) {
		t.Error("the restored machine shares memory with the first one")
	}
}

// filled returns a machine without a field that is zero, but for the table: a new field without a
// place in the snapshot is found.
func filled(t *testing.T) *Machine {
	t.Helper()
	reason := func(k ReasonKind) Reason { return Reason{k, "detail"} }
	m := &Machine{
		program: testProgram(), desired: Target{true, Actor{ActorOperator, "web"}},
		desiredBeforeShutdown: &Target{true, By(ActorReload)}, failureReason: reason(ReasonUnhealthy),
		restartAttempts: 1, failures: []time.Duration{2, 3}, restarts: 4, delay: 5,
		startReason: reason(ReasonStarted), exitReason: reason(ReasonExited), stateReason: reason(ReasonStopping),
		state: Stopping, outcome: RunEndedRestart, outdated: true, restartPending: true, runPending: true,
		startLimitHit: true, notStarted: true, failed: true, resourceShortage: true,
	}
	for i, v := 0, reflect.ValueOf(*m); i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "rules" {
			t.Fatalf("field %s is not filled", name)
		}
	}
	return m
}

// TestRestoreRunWithoutReasons: a start record alone has neither actor nor reasons.
func TestRestoreRunWithoutReasons(t *testing.T) {
	tests := []struct {
		name          string
		saved         Saved
		start, reason string
	}{
		{"up by the configuration", Saved{Desired: Target{true, By(ActorConfiguration)}.Snapshot()},
			"started by the configuration", "started by the configuration"},
		{"no actor", Saved{}, "started by an unknown actor", "stop requested by an unknown actor"},
		{"a newer actor", Saved{Desired: SavedTarget{true, "oracle", "db"}},
			"started by an unknown actor, for db", "started by an unknown actor, for db"},
		{"a newer reason", Saved{StateReason: SavedReason{"whim", "it wanted to"}},
			"started by an unknown actor", "it wanted to"},
		{"of before the run", Saved{Desired: Target{true, By(ActorOperator)}.Snapshot(), StateReason: SavedReason{"not-started", ""}},
			"started by the operator", "started by the operator"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.saved.State, tt.saved.Outcome = Spawning.Name(), WantUp.OutcomeName()
			m := testMachine(nil)
			m.Restore(tt.saved, true)
			if m.state != Spawning || m.startReason.String() != tt.start || m.stateReason.String() != tt.reason {
				t.Errorf("%v: %q, %q; want spawning, %q, %q", m.state.Name(), m.startReason, m.stateReason, tt.start, tt.reason)
			}
		})
	}
}

// TestCheck: values that are unknown or do not fit are refused.
func TestCheck(t *testing.T) {
	up := SavedTarget{Up: true, By: "operator"}
	tests := []struct {
		saved Saved
		says  string // empty: it is accepted
	}{
		{Saved{State: "stopped", Outcome: "none"}, ""},
		{Saved{State: "running", Outcome: "none", Desired: up}, ""},
		{Saved{State: "teardown", Outcome: "retry"}, ""},
		{Saved{State: "asleep", Outcome: "none"}, `unknown name "asleep"`},
		{Saved{Outcome: "none"}, `unknown name ""`},
		{Saved{State: "stopped", Outcome: "luck"}, `unknown name "luck"`},
		{Saved{State: "running", Outcome: "none"}, "running while not wanted up"},
		{Saved{State: "starting", Outcome: "none"}, "starting while not wanted up"},
		{Saved{State: "teardown", Outcome: "none"}, "teardown with outcome none"},
	}
	for _, tt := range tests {
		err := tt.saved.Check()
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Check of %+v = %v, want %q", tt.saved, err, tt.says)
		}
	}
}
