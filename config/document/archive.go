package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// An Archive holds all that reading a configuration found. The same configuration can be read from
// it again, whatever has changed in the files since. Like the files, it may hold secrets.
type Archive struct {
	Version int       `json:"version"`
	Path    rawString `json:"path"` // path of the main file, as given to [NewReader]
	// Base of relative paths; "" if it no longer existed
	Directory rawString       `json:"directory"`
	Texts     []archivedFile  `json:"files"` // configuration and env files, as read
	Matches   []archivedMatch `json:"matches,omitempty"`

	size int // bytes of the texts
}

// maxTextBytes bounds the total size of all texts of a configuration. Its archive then always fits
// into a record of the journal: JSON takes at most six bytes for one.
const maxTextBytes = 64 << 20

const archiveVersion = 1

// An archivedFile is a file that was read, or that could not be read.
type archivedFile struct {
	Path  rawString `json:"path"`
	Text  rawString `json:"text,omitempty"`
	Error rawString `json:"error,omitempty"`
	// The error is that the file does not exist
	Missing bool `json:"missing,omitempty"`
}

// missingFile is the error, as archived, of reading a file that does not exist.
type missingFile rawString

func (e missingFile) Error() string { return string(e) }

// Is makes the error an [fs.ErrNotExist].
func (e missingFile) Is(target error) bool { return target == fs.ErrNotExist }

// An archivedMatch holds the files that an include pattern matched.
type archivedMatch struct {
	Pattern rawString   `json:"pattern"`
	Paths   []rawString `json:"paths"`
}

func newArchive(path string, files Files) *Archive {
	a := &Archive{Version: archiveVersion, Path: rawString(path)}
	if directory, err := files.Abs("."); err == nil {
		a.Directory = rawString(directory)
	}
	return a
}

// Encode returns the archive as one JSON document on one line.
func (a *Archive) Encode() []byte {
	encoded, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("encode archive: %v", err)) // not reached: only strings and numbers
	}
	return append(encoded, '\n')
}

// DecodeArchive reads the output of [Archive.Encode].
func DecodeArchive(encoded []byte) (*Archive, error) {
	a := &Archive{}
	if err := json.Unmarshal(encoded, a); err != nil {
		return nil, fmt.Errorf("read archived configuration: %w", err)
	}
	if a.Version != archiveVersion {
		return nil, fmt.Errorf("read archived configuration: it has format %d, this superd knows %d",
			a.Version, archiveVersion)
	}
	return a, nil
}

// recording returns files that record in a what they read.
func (a *Archive) recording(files Files) Files {
	glob := files.Glob
	files.Read, files.ReadEnv = a.recorder(files.Read), a.recorder(files.ReadEnv)
	files.Glob = func(pattern string) ([]string, error) {
		paths, err := glob(pattern)
		m := archivedMatch{Pattern: rawString(pattern)}
		for _, path := range paths {
			m.Paths = append(m.Paths, rawString(path))
		}
		a.Matches = append(a.Matches, m)
		return paths, err
	}
	return files
}

// recorder returns a function that calls read and records each text in a.
func (a *Archive) recorder(read reading) reading {
	return func(path string) (string, error) {
		data, err := read(path)
		if err == nil && a.size+len(data) > maxTextBytes {
			data, err = "", fmt.Errorf("the files of the configuration have more than %d MiB in all",
				maxTextBytes>>20)
		}
		a.size += len(data)
		f := archivedFile{Path: rawString(path), Text: rawString(data)}
		if err != nil {
			f.Text, f.Error = "", rawString(err.Error())
			f.Missing = errors.Is(err, fs.ErrNotExist)
		}
		a.Texts = append(a.Texts, f)
		return data, err
	}
}

// Files returns the archived files.
func (a *Archive) Files() Files {
	texts := make(map[string]archivedFile, len(a.Texts))
	for _, f := range a.Texts {
		texts[string(f.Path)] = f
	}
	read := func(path string) (string, error) {
		f, ok := texts[path]
		switch {
		case !ok:
			return "", fs.ErrNotExist
		case f.Missing:
			return "", missingFile(f.Error)
		case f.Error != "":
			return "", errors.New(string(f.Error))
		}
		return string(f.Text), nil
	}
	glob := func(pattern string) (paths []string, err error) {
		for _, m := range a.Matches {
			if string(m.Pattern) == pattern {
				for _, path := range m.Paths {
					paths = append(paths, string(path))
				}
				break
			}
		}
		return paths, nil
	}
	return Files{Read: read, ReadEnv: read, Glob: glob, Abs: a.abs}
}

// With returns an archive in which the file at path has another text; "": it does not exist.
func (a *Archive) With(path, text string) *Archive {
	b := *a
	b.Texts = slices.DeleteFunc(slices.Clone(a.Texts), func(f archivedFile) bool {
		return string(f.Path) == path
	})
	if text != "" {
		b.Texts = append(b.Texts, archivedFile{Path: rawString(path), Text: rawString(text)})
	}
	return &b
}

// IsFrom reports whether the main file is the one at path, now or for the superd that made a. The
// two may resolve relative paths against different directories.
func (a *Archive) IsFrom(path string) bool {
	own, errOwn := a.abs(string(a.Path))
	other, err := filepath.Abs(path)
	return errOwn == nil && err == nil && own == other
}

// abs makes path absolute, relative to the directory of the superd that made the archive.
func (a *Archive) abs(path string) (string, error) {
	switch {
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	case a.Directory == "":
		return "", os.ErrNotExist
	}
	return filepath.Join(string(a.Directory), path), nil
}

// rawString is a string of any bytes. In JSON it is a string if it is valid UTF-8, else
// {"base64": …}.
type rawString string

func (t rawString) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(struct {
		Base64 []byte `json:"base64"`
	}{[]byte(t)})
}

func (t *rawString) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	var encoded struct {
		Base64 []byte `json:"base64"`
	}
	err := json.Unmarshal(b, &encoded)
	*t = rawString(encoded.Base64)
	return err
}
