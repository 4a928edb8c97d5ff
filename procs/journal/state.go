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
	Values    map[string]json.RawMessage
	Damaged   int    // lines skipped, wholly or partly
	Lost      int64  // bytes missing at the end of the file; -1: unknown
	Existed   bool   // there was a journal
	OtherBoot bool   // the machine was booted since: its processes no longer exist
	Writer    Writer // superd that last opened it; zero if unknown
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
func newState(folded *fold, boot string) *State {
	s := &State{Values: map[string]json.RawMessage{}}
	if folded != nil {
		s.Existed, s.Damaged, s.Lost, s.Writer = true, folded.damaged, folded.lost(), folded.header.Writer
		// If the header is lost, assume the same boot; each process is checked anyway.
		s.OtherBoot = folded.header.Boot != "" && folded.header.Boot != boot
	}
	return s
}

// see stores the value of a record's line.
func (s *State) see(line []byte) {
	if key, value, ok := parseRecord(line[sumBytes : len(line)-1]); ok {
		s.Values[key] = append(json.RawMessage(nil), value...)
	}
}
