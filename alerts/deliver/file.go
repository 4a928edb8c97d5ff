package deliver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"superd/alerts"
)

const (
	suffix    = ".json"
	temporary = ".new" // while it is written
	maxState  = 64 << 20
)

// files are the states of receivers, one file each. The directory is made with the first one. It
// is below the runtime directory, so a state lives as long as the event log that it refers to.
type files struct {
	dir      string        // its path
	blocking chan struct{} // semaphore of what may block in a file system
}

// open opens the directory.
func (f *files) open() (*os.Root, error) {
	return os.OpenRoot(f.dir)
}

// block runs what may block in a file system, together with few others.
func (f *files) block(do func() error) error {
	f.blocking <- struct{}{}
	defer func() { <-f.blocking }()
	return do()
}

// errBroken is that of a state that was read and is none.
var errBroken = errors.New("not a state of superd")

// load reads the state of a receiver; ok is false without one. The error is errBroken where another
// attempt is of no use.
func (f *files) load(name string) (state alerts.State, ok bool, err error) {
	err = f.block(func() error {
		dir, err := f.open()
		if err != nil {
			return err
		}
		defer dir.Close()
		file, err := dir.Open(name + suffix)
		if err != nil {
			return err
		}
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, maxState))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &state); err != nil {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return alerts.State{}, false, nil
	case err != nil:
		return alerts.State{}, false, fmt.Errorf("read state of receiver %s: %w", name, err)
	}
	return state, true, nil
}

// save replaces the state of a receiver. It returns when the state is on disk.
func (f *files) save(name string, state alerts.State) error {
	text, err := json.Marshal(state)
	if err == nil {
		err = f.block(func() error { return f.write(name, text) })
	}
	if err != nil {
		return fmt.Errorf("save state of receiver %s: %w", name, err)
	}
	return nil
}

func (f *files) write(name string, text []byte) error {
	if err := os.Mkdir(f.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := f.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	file, err := dir.OpenFile(name+temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return dir.Rename(name+temporary, name+suffix)
}

// remove removes the state of a receiver.
func (f *files) remove(name string) error {
	return f.block(func() error {
		dir, err := f.open()
		if err != nil {
			return ignoreMissing(err)
		}
		defer dir.Close()
		_ = dir.Remove(name + temporary) // there is hardly ever one
		return ignoreMissing(dir.Remove(name + suffix))
	})
}

// names returns the names of the receivers that have a state.
func (f *files) names() (names []string, err error) {
	err = f.block(func() error {
		entries, err := os.ReadDir(f.dir)
		for _, entry := range entries {
			if name, ok := strings.CutSuffix(entry.Name(), suffix); ok {
				names = append(names, name)
			}
		}
		return ignoreMissing(err)
	})
	return names, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
