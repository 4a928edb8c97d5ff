package fsm

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"superd/tests/golden"
)

const apiPage = "../../docs/api.md"

// TestNames: each value has the name in the golden file, a unique one.
func TestNames(t *testing.T) {
	var b strings.Builder
	section := func(title string, names []string, optional func(i int) bool, more func(i int) string) {
		fmt.Fprintf(&b, "%s\n", title)
		for i, name := range names {
			switch {
			case name == "" && optional(i):
				continue
			case name == "":
				t.Errorf("%s: value %d has no name", title, i)
			case slices.Index(names, name) != i:
				t.Errorf("%s: %q is the name of two values", title, name)
			}
			fmt.Fprintf(&b, "  %-24s%s\n", name, more(i))
		}
	}
	none := func(i int) bool { return i == 0 }
	section("states in the journal, and as they are shown", stateNames[:],
		func(int) bool { return false }, func(i int) string { return State(i).String() })
	section("outcomes", outcomeNames[:],
		func(i int) bool { return Event(i) < RunEndedRetry || Event(i) > RunEndedWait }, func(int) string { return "" })
	section("actors", actorNames[:], none, func(i int) string { return Actor{ActorKind(i), "web"}.String() })
	section("reasons", reasonNames[:], none, func(i int) string { return Reason{ReasonKind(i), "…"}.String() })
	page, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range reasonNames[1:] {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("%s does not have the kind of reason %q", apiPage, name)
		}
	}
	golden.Check(t, "names.txt", regexp.MustCompile(` +\n`).ReplaceAllString(b.String(), "\n"))
}

// TestParse: each name is read as the value that has it.
func TestParse(t *testing.T) {
	for s := range StateCount {
		if got, err := ParseState(s.Name()); got != s || err != nil {
			t.Errorf("ParseState(%q) = %v, %v", s.Name(), got, err)
		}
	}
	for e := range EventCount {
		if got, err := ParseOutcome(e.OutcomeName()); e.OutcomeName() != "" && (got != e || err != nil) {
			t.Errorf("ParseOutcome(%q) = %v, %v", e.OutcomeName(), got, err)
		}
	}
	for _, name := range []string{"", "asleep"} {
		if _, err := ParseState(name); err == nil {
			t.Errorf("ParseState(%q) reports no error", name)
		}
		if _, err := ParseOutcome(name); err == nil {
			t.Errorf("ParseOutcome(%q) reports no error", name)
		}
	}
	for e := range EventCount {
		if e.String() == "" {
			t.Errorf("event %d has no name", e)
		}
	}
	for e := range effectCount {
		if e.String() == "" {
			t.Errorf("effect %d has no name", e)
		}
	}
}

// TestRecordedKind: the end of a run by lack of memory is recorded, once.
func TestRecordedKind(t *testing.T) {
	tests := []struct {
		exit ReasonKind
		from State
		want ReasonKind
	}{
		{ReasonOutOfMemory, Running, ReasonOutOfMemory},
		{ReasonOutOfMemory, Starting, ReasonOutOfMemory},
		{ReasonOutOfMemory, TearingDown, ReasonWaitsForSchedule},
		{ReasonOutOfMemory, Stopped, ReasonWaitsForSchedule},
		{ReasonExited, Running, ReasonWaitsForSchedule},
	}
	for _, tt := range tests {
		m := Machine{exitReason: Reason{Kind: tt.exit}}
		if got := m.RecordedKind(tt.from, ReasonWaitsForSchedule); got != tt.want {
			t.Errorf("RecordedKind(%v) after %v = %v, want %v", tt.from, tt.exit, got, tt.want)
		}
	}
}
