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

// A State is the contents of a journal.
type State struct {
	Values       map[string]json.RawMessage
	Damaged      int    // lines skipped, wholly or partly
	MissingBytes int64  // bytes missing at the end of the file; -1: unknown
	Existed      bool   // there was a journal
	OtherBoot    bool   // the machine was booted since: its processes no longer exist
	Writer       Writer // superd that last opened it; zero if unknown
}

// A Writer is the superd that opened a journal.
type Writer struct {
	Pid     int    `json:"pid"`
	Version string `json:"binary"` // version of superd; "" if the build has none
}

// A VersionError reports a journal in an unknown format.
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
	return fmt.Sprintf("read %s: written by %s in format %d, this superd knows %d: start that superd, or stop the programs and remove the file",
		e.Path, by, e.Format, format)
}

// Read returns the contents of the journal in dir, like [Open], and changes nothing.
func Read(dir, boot string) (*State, error) {
	f, err := openJournal(filepath.Join(dir, fileName))
	if err != nil || f == nil {
		return newState(nil, boot), err
	}
	defer f.Close()
	contents, err := read(f)
	if err != nil {
		return nil, err
	}
	state := newState(contents, boot)
	if err := contents.copyTo(io.Discard, f, state.visit); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return state, nil
}

// Remove removes the journal in dir, if there is one, when a successor needs no information.
func Remove(dir string) error {
	var errs []error
	for _, name := range []string{fileName, newName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// newState returns the state of folded, without values. folded is nil if there is no journal.
func newState(contents *index, boot string) *State {
	s := &State{Values: map[string]json.RawMessage{}}
	if contents != nil {
		s.Existed, s.Damaged, s.MissingBytes, s.Writer = true, contents.damaged, contents.missing(), contents.header.Writer
		// If the header is missing, assume the same boot; each process is checked anyway.
		s.OtherBoot = contents.header.Boot != "" && contents.header.Boot != boot
	}
	return s
}

// see stores the value of a record's line.
func (s *State) visit(line []byte) {
	if key, value, ok := parseRecord(line[sumBytes : len(line)-1]); ok {
		s.Values[key] = append(json.RawMessage(nil), value...)
	}
}
