package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A State is what a journal says.
type State struct {
	Values    map[string]json.RawMessage
	Damaged   int    // lines passed over, in whole or in part
	Existed   bool   // there was a journal
	OtherBoot bool   // the machine was booted since: what it says of processes is past
	Writer    Writer // who opened it last; zero where that is not known
}

// A Writer is the superd that opened a journal.
type Writer struct {
	Pid     int    `json:"pid"`
	Version string `json:"binary"` // of superd; "" where the build tells none
}

// A VersionError is a journal in a format that this superd does not know.
type VersionError struct {
	Path   string
	Format int
	Writer Writer
}

func (e *VersionError) Error() string {
	by := "a newer superd"
	if e.Writer.Version != "" {
		by += " (" + e.Writer.Version + ")"
	}
	return fmt.Sprintf("read %s: %s has written it, in format %d where this one knows %d: start that one, or stop the programs and remove the file",
		e.Path, by, e.Format, format)
}

// Read returns what the journal in dir says, as [Open] does, and changes nothing.
func Read(dir, boot string) (*State, error) {
	f, err := openJournal(filepath.Join(dir, fileName))
	if err != nil || f == nil {
		return newState(nil, boot), err
	}
	defer f.Close()
	folded, err := read(f)
	if err != nil {
		return nil, err
	}
	state := newState(folded, boot)
	if err := folded.copyTo(io.Discard, f, state.see); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return state, nil
}

// Remove removes the journal in dir, if there is one: there is nothing that the next superd must know.
func Remove(dir string) error {
	var errs []error
	for _, name := range []string{fileName, newName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// newState returns the state that folded tells, still without values. folded is nil without a journal.
func newState(folded *fold, boot string) *State {
	s := &State{Values: map[string]json.RawMessage{}}
	if folded != nil {
		s.Existed, s.Damaged, s.Writer = true, folded.damaged, folded.header.Writer
		// Of a journal that has lost its header it is for each process to show that it is the one.
		s.OtherBoot = folded.header.Boot != "" && folded.header.Boot != boot
	}
	return s
}

// see takes the value of a line that counts.
func (s *State) see(line []byte) {
	if key, value, ok := parseRecord(line[sumBytes : len(line)-1]); ok {
		s.Values[key] = append(json.RawMessage(nil), value...)
	}
}
