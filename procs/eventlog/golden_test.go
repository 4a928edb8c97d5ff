package eventlog

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"superd/tests/golden"
)

// firstVersion is an event log as the first version writes it. docs/compatibility.md promises that
// later ones read it.
const firstVersion = "v1/events"

// TestGoldenEvents: what is written has each field, and is read back as it was.
func TestGoldenEvents(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 20, 45, 123456000, time.UTC)
	all := []Event{
		{
			Cursor: 1, At: at, Kind: Exit, Instance: "web@2", Program: "web", Run: "9f86d081884c7d659a2feaa0c55ad015", From: "running",
			State: "backoff", Pid: 7, Socket: "http", Address: "127.0.0.1:80", By: "the operator", ByKind: "operator",
			Reason: "exit status 3", ReasonKind: "exited", Exit: &ExitStatus{Code: new(3), Known: true}, Started: at.Add(-time.Minute),
			Duration: new(60.5), CPU: new(0.25), MaxRSS: 4096, RSSBound: true, RestartIn: new(0.1), Output: []string{"last", "words"},
			Place: "a cursor", Lost: 5,
		},
		{Cursor: 2, At: at.Add(time.Second), Kind: Exit, Exit: &ExitStatus{Signal: new("SIGKILL"), Known: true}},
	}
	var b bytes.Buffer
	for i := range all {
		if err := Encode(&b, &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	set := reflect.ValueOf(all[0])
	for i := range set.NumField() {
		if set.Field(i).IsZero() {
			t.Errorf("the event does not set %s", set.Type().Field(i).Name)
		}
	}
	golden.Check(t, firstVersion, b.String())

	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("testdata", firstVersion))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, currentName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	l, _ := open(t, dir, 1<<20)
	if got := collect(t, l.Since(0)); !reflect.DeepEqual(got, all) {
		t.Errorf("read back\n%+v, want\n%+v", got, all)
	}
}
