package procs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"superd/procs/schedule"
)

func TestScheduleFile(t *testing.T) {
	dir := t.TempDir()
	want := schedule.State{Line: "@every 5m", BootID: "b", Boot: 7 * time.Second, Grid: 5 * time.Minute, Wall: time.Unix(1_800_000_000, 5).UTC()}
	steps := []struct {
		name  string
		write map[string]schedule.State
	}{{"nothing, where there is no file", nil}, {"one", map[string]schedule.State{"a": want}}, {"nothing any more", nil}}
	for _, step := range steps {
		if err := WriteSchedules(dir, step.write); err != nil {
			t.Errorf("write %s: %v", step.name, err)
		}
		got, err := ReadSchedules(dir)
		if err != nil || len(got) != len(step.write) || len(got) > 0 && got["a"] != want {
			t.Errorf("%s: read %v, %v", step.name, got, err)
		}
		if files, _ := os.ReadDir(dir); len(files) != len(step.write) {
			t.Errorf("%s: %d files", step.name, len(files))
		}
	}
	if err := os.WriteFile(filepath.Join(dir, scheduleFile), []byte(`{"a":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadSchedules(dir); err == nil {
		t.Errorf("half a file is read as %v", got)
	}
}
