package procs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"superd/procs/schedule"
)

// scheduleFile is where a superd that comes to an orderly end leaves what the next one must know of the schedules. (After any other end it is
// in the journal.)
const scheduleFile = "schedules"

// ReadSchedules returns what the last superd has left of its schedules in the runtime directory, by instance.
func ReadSchedules(dir string) (map[string]schedule.State, error) {
	text, err := os.ReadFile(filepath.Join(dir, scheduleFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all map[string]schedule.State
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	return all, nil
}

// WriteSchedules leaves all for the next superd: nothing, or all of it.
func WriteSchedules(dir string, all map[string]schedule.State) error {
	path := filepath.Join(dir, scheduleFile)
	if len(all) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove schedules: %w", err)
		}
		return nil
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(path+".new", append(text, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write schedules: %w", err)
	}
	return nil
}
