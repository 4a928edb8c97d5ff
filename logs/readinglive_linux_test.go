package logs

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"superd/logs/follow"
)

// TestReadingFollows: new output is read as it comes, across rotations, of old and new instances.
func TestReadingFollows(t *testing.T) {
	r := newRig(t)
	o := Options{Path: filepath.Join(t.TempDir(), "web.log"), MaxSize: 40, Keep: 1000}
	p := r.program(o)
	p.log("before\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reading := follow.NewReading(ctx, follow.Query{Lines: 0, Follow: true})
	defer reading.Close()
	if err := reading.Set([]follow.Input{{Log: p.Collector.Log(Stdout)}}); err != nil {
		t.Fatal(err)
	}
	got := rest(t, reading)
	until := func(want string) {
		t.Helper()
		for got != want {
			r.await(reading.Wake(), fmt.Sprintf("%q, got %q", want, got))
			got += rest(t, reading)
		}
		got = ""
	}
	want := ""
	for i := range 20 {
		p.log(fmt.Sprintf("line %d\n", i))
		want += fmt.Sprintf("web:line %d ", i)
	}
	until(want)
	p.log("begun")
	other := r.program(Options{Path: filepath.Join(t.TempDir(), "other.log")})
	other.log("there already\n")
	if err := reading.Set([]follow.Input{{Log: p.Collector.Log(Stdout)}, {Log: other.Collector.Log(Stdout), FromStart: true}}); err != nil {
		t.Fatal(err)
	}
	until("web:there already ")
	r.do(func() { p.EndRun() }) // so that a line without a newline is complete
	until("web:begun+ ")
	p.log("more\n")
	other.log("last")
	until("web:more ")
	r.do(other.scope.Close) // removed
	until("web:last+ ")
	if err := reading.Set([]follow.Input{{Log: p.Collector.Log(Stdout)}}); err != nil {
		t.Fatal(err)
	}
	p.log("end\n")
	until("web:end ")
}

// TestReadingAcrossPathsInMidLine: a line without a newline when the path changes is returned
// without one.
func TestReadingAcrossPathsInMidLine(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	p := r.program(Options{Path: filepath.Join(dir, "a.log")})
	p.log("one\nbegun")
	reading := follow.NewReading(t.Context(), follow.Query{Lines: -1, Follow: true})
	defer reading.Close()
	if err := reading.Set([]follow.Input{{Log: p.Collector.Log(Stdout)}}); err != nil {
		t.Fatal(err)
	}
	if got := rest(t, reading); got != "web:one " {
		t.Errorf("before: %q", got)
	}
	r.do(func() { p.SetOptions(Options{Path: filepath.Join(dir, "b.log")}) })
	p.log("two\n")
	if got := rest(t, reading); got != "web:begun+ web:two " {
		t.Errorf("after: %q", got)
	}
}

// TestSlowReadingReportsMissingOutput: a slow reader delays nothing and gets a report of what it
// has missed. Source: row 27 of the failure table.
func TestSlowReadingReportsMissingOutput(t *testing.T) {
	r := newRig(t)
	p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log"), MaxSize: 64, Keep: 2})
	reading := follow.NewReading(t.Context(), follow.Query{Lines: -1, Follow: true})
	defer reading.Close()
	if err := reading.Set([]follow.Input{{Log: p.Collector.Log(Stdout)}}); err != nil {
		t.Fatal(err)
	}
	p.log("line 1000\n")
	if got := rest(t, reading); got != "web:line 1000 " {
		t.Fatalf("at first: %s", got)
	}
	all := "line 1000\n"
	for i := 1001; i < 1200; i++ {
		p.log(fmt.Sprintf("line %d\n", i))
		all += fmt.Sprintf("line %d\n", i)
	}
	e, err := reading.Next()
	if err != nil || e == nil || e.Note == "" || e.MissingBytes <= 0 {
		t.Fatalf("after 200 lines of which few remain: %+v, %v", e, err)
	}
	missing := e.MissingBytes
	shown := rest(t, reading)
	if got, want := strings.Count(shown, "web:"), len(all)/10-1-int(missing)/10; got != want || !strings.HasSuffix(shown, "web:line 1199 ") {
		t.Errorf("%d bytes are missing, %d lines are shown, want %d", missing, got, want)
	}
}
