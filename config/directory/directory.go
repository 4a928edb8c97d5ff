// Package directory has the directories that superd makes for programs: their kinds, where each
// kind is, and which names a configuration may give them. It makes none.
package directory

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"superd/config/codec"
	"superd/config/document"
	"superd/config/environ"
)

// A Kind is what a directory is for.
type Kind int

// The kinds of directories.
const (
	Runtime Kind = iota // sockets and pid files of a run
	State               // what the program keeps
	Cache               // what it can make again
	Logs                // logs that it writes itself
	Kinds               // how many there are
)

// Key returns the key of the kind: runtime_directory.
func (k Kind) Key() string {
	return [Kinds]string{"runtime_directory", "state_directory", "cache_directory", "logs_directory"}[k]
}

// Variable returns the environment variable that has the paths, as systemd sets it:
// RUNTIME_DIRECTORY.
func (k Kind) Variable() string { return strings.ToUpper(k.Key()) }

// A Set has the directories of one kind that superd makes for a program.
type Set struct {
	Names []string // relative to the root of the kind; ${SUPERD_REPLICA} not yet expanded
	Mode  *uint32  // nil: 0755
}

// Roots are the absolute paths below which directories are made, and those that must not be among
// them.
type Roots struct {
	Roots    [Kinds]string // by kind; "": that user has none
	Reserved []string      // superd's own directories
}

// variables name what to set where a root is "".
var variables = [Kinds]string{"XDG_RUNTIME_DIR", "HOME or XDG_STATE_HOME", "HOME or XDG_CACHE_HOME", "HOME or XDG_STATE_HOME"}

// Paths returns the absolute paths of the directories s, of the kind k. run has the variables of
// the run. The error names the key.
func (r *Roots) Paths(k Kind, s Set, run environ.Variables) ([]string, error) {
	var all []string
	for _, name := range s.Names {
		expanded, unset, err := document.Expand(name, run.Get)
		switch {
		case err == nil && len(unset) > 0:
			err = errors.New(environ.UnsetMessage(unset, "environment or env_file"))
		case err == nil:
			err = checkName(expanded)
		}
		if err == nil && r.Roots[k] == "" {
			err = fmt.Errorf("superd does not run as root, and %s is not set: set it for superd", variables[k])
		}
		full := path.Join(r.Roots[k], expanded)
		for _, own := range r.Reserved {
			if err == nil && (Within(full, own) || Within(own, full)) {
				err = fmt.Errorf("%s is a directory of superd itself: choose another name", full)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("expand %s: %w", k.Key(), err)
		}
		all = append(all, full)
	}
	return all, nil
}

// Within reports whether a cleaned path is dir or below it.
func Within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// Name reads the name of a directory below a root.
var Name = codec.Codec[string]{
	Name:   "string",
	Show:   codec.QuoteSet,
	Schema: codec.Word.Schema,
	Read: func(v codec.Value) (string, bool) {
		s, ok := codec.Word.Read(v)
		if !ok || !v.Template(s) {
			return "", false
		}
		if all, _ := document.References(s); slices.ContainsFunc(all, func(name string) bool { return !environ.IsOfRun(name) }) {
			v.Fail("%q: only variables of superd, such as ${SUPERD_REPLICA}, are known when the directory is made: write the value", s)
			return "", false
		}
		if err := checkName(s); err != nil {
			v.Fail("%w", err)
			return "", false
		}
		return s, true
	},
}

// systemNames are directories below the roots that no program may have.
var systemNames = []string{"apt", "cryptsetup", "dbus", "dpkg", "initctl", "initramfs", "journal", "lock", "log", "mount", "shm", "systemd", "udev", "user"}

// checkName refuses the name of a directory that is not below its root, or that is not for a
// program.
func checkName(s string) error {
	quoted := document.Quote(s)
	first, _, _ := strings.Cut(s, "/")
	switch {
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == ':' || r == 0x7f }):
		return fmt.Errorf("%s must have no space, colon or control character: write several names as an array", quoted)
	case slices.Contains(systemNames, first):
		return fmt.Errorf("%s belongs to the system: choose another name", quoted)
	case path.IsAbs(s):
		return fmt.Errorf("%s must be relative: write %q for the directory of that name below the root of the key",
			quoted, path.Base(s))
	case path.Clean(s) != s || s == "." || s == ".." || strings.HasPrefix(s, "../"):
		return fmt.Errorf("%s must be a plain path below the root of the key: no part of it may be . or .., and none empty", quoted)
	}
	return nil
}
