package fsm

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The golden file of the names of this package.
const namesPath = "../testdata/names.txt"

// TestNames: values have the names in the golden file, each a unique one.
func TestNames(t *testing.T) {
	var b strings.Builder
	section := func(title string, names []string, mayLack func(i int) bool, more func(i int) string) {
		fmt.Fprintf(&b, "%s\n", title)
		for i, name := range names {
			switch {
			case name == "" && mayLack(i):
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
	want, err := os.ReadFile(namesPath)
	if err != nil {
		t.Fatal(err)
	}
	if got := regexp.MustCompile(` +\n`).ReplaceAllString(b.String(), "\n"); got != string(want) {
		t.Errorf("the names are\n%swant those of %s", got, namesPath)
	}
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
