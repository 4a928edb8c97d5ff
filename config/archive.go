package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// An archive is all that loading a configuration read: told the same again, it gives the same configuration.
type archive struct {
	Version   int             `json:"version"`
	Path      exact           `json:"path"`      // as given to Load
	Directory exact           `json:"directory"` // where relative paths begin; "" where the working directory was gone
	Files     []archivedFile  `json:"files"`     // configuration and env files, in the order they were read
	Matches   []archivedMatch `json:"matches,omitempty"`
}

const archiveVersion = 1

// An archivedFile is one that was read, or could not be.
type archivedFile struct {
	Path  exact `json:"path"`
	Text  exact `json:"text,omitempty"`
	Error exact `json:"error,omitempty"`
}

// An archivedMatch is what a pattern of include matched.
type archivedMatch struct {
	Pattern exact   `json:"pattern"`
	Paths   []exact `json:"paths"`
}

// Archive returns the sources of c as one JSON document: from it [Restore] makes c again, whatever has become of the files.
// As they may, it may hold secrets.
func (c *Config) Archive() []byte {
	document, err := json.Marshal(c.sources)
	if err != nil {
		panic(fmt.Sprintf("encode archive: %v", err)) // it is strings and numbers
	}
	return append(document, '\n')
}

// Restore returns the configuration that an archive was made of. Warnings tell of the machine as it is now.
func Restore(document []byte) (*Config, error) {
	return restore(document, machine())
}

func restore(document []byte, h host) (*Config, error) {
	var a archive
	if err := json.Unmarshal(document, &a); err != nil {
		return nil, fmt.Errorf("read archived configuration: %w", err)
	}
	if a.Version != archiveVersion {
		return nil, fmt.Errorf("read archived configuration: it has format %d, this superd knows %d", a.Version, archiveVersion)
	}
	return load(string(a.Path), a.host(h))
}

// IsFrom reports whether c was loaded from path, now or by the superd that made its archive: relative ones may begin at
// different directories.
func (c *Config) IsFrom(path string) bool {
	own, errOwn := c.sources.abs(string(c.sources.Path))
	other, err := filepath.Abs(path)
	return errOwn == nil && err == nil && own == other
}

// recording returns h, writing down in a what it says.
func (a *archive) recording(h host) host {
	if directory, err := h.abs("."); err == nil {
		a.Directory = exact(directory)
	}
	read, glob := h.read, h.glob
	h.read = func(path string) (string, error) {
		data, err := read(path)
		f := archivedFile{Path: exact(path), Text: exact(data)}
		if err != nil {
			f.Text, f.Error = "", exact(err.Error())
		}
		a.Files = append(a.Files, f)
		return data, err
	}
	h.glob = func(pattern string) ([]string, error) {
		paths, err := glob(pattern)
		m := archivedMatch{Pattern: exact(pattern)}
		for _, path := range paths {
			m.Paths = append(m.Paths, exact(path))
		}
		a.Matches = append(a.Matches, m)
		return paths, err
	}
	return h
}

// host returns h, saying what a says.
func (a *archive) host(h host) host {
	files := make(map[string]archivedFile, len(a.Files))
	for _, f := range a.Files {
		files[string(f.Path)] = f
	}
	h.read = func(path string) (string, error) {
		f, ok := files[path]
		switch {
		case !ok:
			return "", fs.ErrNotExist
		case f.Error != "":
			return "", errors.New(string(f.Error))
		}
		return string(f.Text), nil
	}
	h.glob = func(pattern string) (paths []string, err error) {
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
	h.abs = a.abs
	return h
}

// abs makes path absolute as it was for the superd that made the archive.
func (a *archive) abs(path string) (string, error) {
	switch {
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	case a.Directory == "":
		return "", os.ErrNotExist
	}
	return filepath.Join(string(a.Directory), path), nil
}

// exact is a string of any bytes. In JSON it is one of its characters where it is UTF-8, else {"base64": …}.
type exact string

func (t exact) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(struct {
		Base64 []byte `json:"base64"`
	}{[]byte(t)})
}

func (t *exact) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	var encoded struct {
		Base64 []byte `json:"base64"`
	}
	err := json.Unmarshal(b, &encoded)
	*t = exact(encoded.Base64)
	return err
}
