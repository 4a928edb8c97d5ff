package procs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"superd/tests/golden"
)

const (
	designPage = "../docs/design/states.md"
	tableBegin = "<!-- states:begin -->\n"
	tableEnd   = "<!-- states:end -->\n"
)

// TestDesignShowsTheRules keeps the table in docs/design/states.md equal to the rules.
func TestDesignShowsTheRules(t *testing.T) {
	page, err := os.ReadFile(designPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(page), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no marks %q and %q", designPage, tableBegin, tableEnd)
	}
	want := before + tableBegin + renderRules() + tableEnd + after
	if string(page) == want {
		return
	}
	if !golden.Update() {
		t.Fatalf("the state table in %s is out of date: run go test ./procs -run %s -update", designPage, t.Name())
	}
	if err := os.WriteFile(designPage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func renderRules() string {
	var b strings.Builder
	b.WriteString("| state | event | next state | effects |\n| --- | --- | --- | --- |\n")
	for state := range stateCount {
		for event := range eventCount {
			r := rules[state][event]
			if r == nil {
				continue
			}
			var effects []string
			for _, e := range r.effects {
				effects = append(effects, e.String())
			}
			next := stateNames[r.next]
			if r.next == state {
				next = "–"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", stateNames[state], event, next, strings.Join(effects, ", "))
		}
	}
	return b.String()
}

// TestRulesAreComplete checks the table itself: each desired state is legal in each state, and each
// effect has the run or process that it needs.
func TestRulesAreComplete(t *testing.T) {
	run := map[State]bool{Spawning: true, Starting: true, Running: true, StopPending: true, Stopping: true, Killing: true, TearingDown: true}
	for state := range stateCount {
		for _, desired := range []Event{WantUp, WantDown, Restart} {
			if rules[state][desired] == nil {
				t.Errorf("%s in %s: no rule; every command is legal in every state", desired, stateNames[state])
			}
		}
		for event := range eventCount {
			r := rules[state][event]
			if r == nil {
				continue
			}
			there := run[state]
			main := state.lives() || event == Spawned || event == SpawnedUnready || event == SpawnedOutdated
			for _, effect := range r.effects {
				switch effect {
				case SignalStop, SignalAbort, SignalKill, AwaitReady, StartMonitoring, ArmStop, ArmKill, ReportUnkillable:
					if !main {
						t.Errorf("%s in %s: %s without a process", event, stateNames[state], effect)
					}
				case EndRun, Teardown, CancelSpawn:
					if !there {
						t.Errorf("%s in %s: %s without a run", event, stateNames[state], effect)
					}
				case Spawn, ArmRestart, Disarm: // need neither
				}
				switch effect {
				case EndRun:
					there = false
				case Spawn:
					if there {
						t.Errorf("%s in %s: Spawn during a run", event, stateNames[state])
					}
					there = true
				default: // leaves the run as it is
				}
			}
			if there != run[r.next] {
				t.Errorf("%s in %s: next is %s, with a run: %v", event, stateNames[state], stateNames[r.next], there)
			}
		}
	}
}
