package snapshot

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"superd/procs/fsm"
	"superd/procs/journal"
	"superd/tests/golden"
)

// fieldsPath is the journal of the current format that has each field of each record.
const fieldsPath = "testdata/v1/fields.journal"

// TestFieldsJournal writes the journal of TestGoldenJournals that has each field, if there is none
// and with -update: no real superd writes all of them at once.
func TestFieldsJournal(t *testing.T) {
	if _, err := os.Stat(fieldsPath); err == nil || !errors.Is(err, fs.ErrNotExist) || !golden.Update() {
		t.Skip("it exists")
	}
	dir := t.TempDir()
	j, _, err := journal.Open(dir, "boot", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range allFields() {
		if err := j.Put(key, value); err != nil {
			t.Fatal(err)
		}
	}
	j.Close(time.Minute)
	if err := os.Rename(filepath.Join(dir, "journal"), fieldsPath); err != nil {
		t.Fatal(err)
	}
}

// allFields returns records that this superd accepts and that have a value in each field.
func allFields() map[string]any {
	f := plainValues()
	var self Superd
	var running, backoff Instance
	var start Start
	var scale Scale
	for _, v := range []any{&self, &running, &backoff, &start, &scale} {
		f.fill(reflect.ValueOf(v).Elem())
	}
	self.Config, self.Before = 2, 1
	up := fsm.Target{Up: true, By: fsm.Actor{Kind: fsm.ActorOperator, For: "db"}}.Snapshot()
	for _, v := range []*Instance{&running, &backoff} {
		v.Config, v.Desired, v.Outcome = 2, up, fsm.RunEndedRetry.OutcomeName()
		v.FailureReason = fsm.Reason{Kind: fsm.ReasonUnhealthy, Detail: "unhealthy"}.Snapshot()
	}
	running.State, running.Due, running.Run.Hook.At = fsm.Running.Name(), nil, 1
	backoff.State, backoff.Run = fsm.Backoff.Name(), nil
	*start.Hook, start.Number, scale.Replicas = 1, 7, 2
	return map[string]any{
		SuperdKey: self, InstanceKey("running"): running, InstanceKey("backoff"): backoff,
		StartKey("other", start.Number): start, ScaleKey("web"): scale, ScheduleKey("daily"): start.Schedule,
	}
}

// TestAllFieldsAreSet: the records of allFields have no field that is zero, apart from those that
// exclude each other, and are accepted.
func TestAllFieldsAreSet(t *testing.T) {
	records := allFields()
	for key, record := range records {
		v := reflect.Indirect(reflect.ValueOf(record))
		for i := range v.NumField() {
			field := v.Type().Field(i).Name
			if v.Field(i).IsZero() && (key != InstanceKey("running") || field != "Due") && (key != InstanceKey("backoff") || field != "Run") {
				t.Errorf("%s has no %s", key, field)
			}
		}
		if v, ok := record.(Instance); ok {
			if err := v.Check(); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}
