package tests

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

// TestQueries: logs, events, history and why of some programs, of all, and of a period.
func TestQueries(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		log.format = "text"
		restart = "never"
		[program.one]
		command = ["sh", "-c", "echo first; read x < DIR/step; echo third"]
		groups = ["both"]
		[program.two]
		command = ["sh", "-c", "read x < DIR/begin; echo second; sleep infinity"]
		groups = ["both"]
		`)
	begin, step := s.Steps("begin"), s.Steps("step")
	s.Start()
	s.WaitLog("one", "first\n")
	begin("go")
	s.WaitLog("two", "second\n")
	between := time.Now()
	step("go")
	s.WaitLog("one", "third\n")
	s.WaitState("one", "exited")
	contains := func(args, want string, not ...string) {
		t.Helper()
		r := s.Ctl(strings.Fields(args)...)
		if r.Exit != 0 || !regexp.MustCompile(want).MatchString(r.Out) {
			t.Errorf("superd ctl %s: exit status %d, %s%s\nwant %s", args, r.Exit, r.Out, r.ErrOut, want)
		}
		for _, n := range not {
			if strings.Contains(r.Out, n) {
				t.Errorf("superd ctl %s: %s\nwithout %s", args, r.Out, n)
			}
		}
	}
	until := between.UTC().Format(time.RFC3339Nano)
	contains("logs", `one \|.* first\ntwo \|.* second\none \|.* third\n$`)
	contains("logs --until "+until, `one \|.* first\ntwo \|.* second\n$`)
	contains("logs --since "+until, `^one \|.* third\n$`)
	contains("logs -n 1 --until "+until+" one", `^[^\n]* first\n$`)
	contains("logs -n 1 --until 10m", `^$`)

	contains("events one", `started by the configuration`, "two", "superd started")
	contains("events both", `one .*(?s).*two `, "superd started")
	contains("events -n 1 one", `^CURSOR.*\n[^\n]*one[^\n]*\n$`, "starting")
	contains("events --since 10m", `superd started`)
	contains("events --since 2100-01-01", `^CURSOR[^\n]*\n$`)
	contains("events --json -n 2 --since 1", `^\{"cursor":[^\n]*\n\{"cursor":[^\n]*\n$`)

	contains("why one two", `one exited at (?s).*\n\ntwo is running`)

	runs := history(s, "one")
	if len(runs) != 1 || len(runs[0].Run) != 32 {
		t.Fatalf("history of one: %v", runs)
	}
	id := runs[0].Run
	contains("history", regexp.QuoteMeta(id[:8]))
	contains("logs --run "+id[:8], `first\n[^\n]*third\n$`)
	contains("logs --run "+id, `first\n[^\n]*third\n$`)

	// No message may quote Go's parsers.
	for _, args := range []string{
		"logs -n x", "logs --since x", "logs --until x", "logs --grep (", "logs --run x", "logs --run 7", "events --since x",
		"events -n x", "stop --timeout x one", "stop --timeout 5 one", "scale one=x", "scale one=99999999999999999999",
		"status --json=x", "signal x one", "signal 99999999999999999999 one", "events nobody", "why nobody",
	} {
		r := s.Ctl(strings.Fields(args)...)
		if r.Exit == 0 || r.ErrOut == "" {
			t.Errorf("superd ctl %s: exit status %d, %q", args, r.Exit, r.ErrOut)
		}
		for _, word := range []string{"strconv", "invalid syntax", "parsing ", "time:", "out of range", "invalid argument"} {
			if strings.Contains(r.ErrOut, word) {
				t.Errorf("superd ctl %s: %s has the words of a parser, %q", args, r.ErrOut, word)
			}
		}
	}
}
