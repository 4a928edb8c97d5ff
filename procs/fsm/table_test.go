package fsm

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"superd/tests/golden"
)

const (
	designPage = "../../docs/design/states.md"
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
		t.Fatalf("the state table in %s is out of date: run go test ./procs/fsm -run %s -update", designPage, t.Name())
	}
	if err := os.WriteFile(designPage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func renderRules() string {
	var b strings.Builder
	b.WriteString("| state | event | next state | effects |\n| --- | --- | --- | --- |\n")
	for state := range StateCount {
		for event := range EventCount {
			r := rules[state][event]
			if r == nil {
				continue
			}
			var effects []string
			for _, e := range r.Effects {
				effects = append(effects, e.String())
			}
			next := r.Next.Name()
			if r.Next == state {
				next = "–"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", state.Name(), event, next, strings.Join(effects, ", "))
		}
	}
	return b.String()
}

// TestRulesAreComplete checks the table itself: each desired state is legal in each state, and each
// effect has the run or process that it needs.
func TestRulesAreComplete(t *testing.T) {
	for state := range StateCount {
		for _, desired := range []Event{WantUp, WantDown, Restart} {
			if rules[state][desired] == nil {
				t.Errorf("%s in %s: no rule; every command is legal in every state", desired, state.Name())
			}
		}
		for event := range EventCount {
			r := rules[state][event]
			if r == nil {
				continue
			}
			there := state.HasRun()
			main := state.Lives() || event == Spawned || event == SpawnedUnready || event == SpawnedOutdated
			for _, effect := range r.Effects {
				switch effect {
				case SignalStop, SignalAbort, SignalKill, AwaitReady, StartMonitoring, ArmStop, ArmKill, ReportUnkillable:
					if !main {
						t.Errorf("%s in %s: %s without a process", event, state.Name(), effect)
					}
				case EndRun, Teardown, CancelSpawn:
					if !there {
						t.Errorf("%s in %s: %s without a run", event, state.Name(), effect)
					}
				case Spawn, ArmRestart, RearmRestart, Disarm: // need neither
				}
				switch effect {
				case EndRun:
					there = false
				case Spawn:
					if there {
						t.Errorf("%s in %s: Spawn during a run", event, state.Name())
					}
					there = true
				default: // leaves the run as it is
				}
			}
			if there != r.Next.HasRun() {
				t.Errorf("%s in %s: next is %s, with a run: %v", event, state.Name(), r.Next.Name(), there)
			}
		}
	}
}
