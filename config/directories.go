package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"superd/config/document"
)

// A DirectoryKind is what a directory that superd makes for a program is for.
type DirectoryKind int

// The kinds of directories.
const (
	RuntimeDirectory DirectoryKind = iota // sockets and pid files of a run
	StateDirectory                        // what the program keeps
	CacheDirectory                        // what it can make again
	LogsDirectory                         // logs that it writes itself
	DirectoryKinds                        // how many there are
)

// Key returns the key of the kind: runtime_directory.
func (k DirectoryKind) Key() string {
	return [DirectoryKinds]string{"runtime_directory", "state_directory", "cache_directory", "logs_directory"}[k]
}

// Variable returns the environment variable that has the paths, as systemd sets it:
// RUNTIME_DIRECTORY.
func (k DirectoryKind) Variable() string { return strings.ToUpper(k.Key()) }

// Directories are the directories of one kind that superd makes for a program.
type Directories struct {
	Names []string // relative to the root of the kind; ${SUPERD_REPLICA} not yet expanded
	Mode  *uint32  // nil: 0755
}

// DirectoryRoots are the absolute paths below which directories are made, by kind.
type DirectoryRoots [DirectoryKinds]string

// RootsOf returns the roots for a superd of that user: of root, those of the system. env returns
// the value of a variable. A root is "" if that user has none.
func RootsOf(env func(string) string, uid int) DirectoryRoots {
	if uid == 0 {
		return DirectoryRoots{"/run", "/var/lib", "/var/cache", "/var/log"}
	}
	home := func(variable, inHome string) string {
		if dir := env(variable); path.IsAbs(dir) {
			return path.Clean(dir)
		}
		if dir := env("HOME"); path.IsAbs(dir) && inHome != "" {
			return path.Join(dir, inHome)
		}
		return ""
	}
	state := home("XDG_STATE_HOME", ".local/state")
	roots := DirectoryRoots{home("XDG_RUNTIME_DIR", ""), state, home("XDG_CACHE_HOME", ".cache"), ""}
	if state != "" {
		roots[LogsDirectory] = path.Join(state, "log")
	}
	return roots
}

// RemovesDirectories reports whether the program has directories that superd removes after a run.
func (p *Program) RemovesDirectories() bool {
	return len(p.Directories[RuntimeDirectory].Names) > 0 && !p.RuntimeDirectoryPreserve
}

// SharedDirectory returns a directory that superd removes after a run and that all instances of the
// program have; "" if there is none.
func (p *Program) SharedDirectory() string {
	if !p.RemovesDirectories() {
		return ""
	}
	for _, name := range p.Directories[RuntimeDirectory].Names {
		all, _ := document.References(name)
		if !slices.Contains(all, "SUPERD_REPLICA") && !slices.Contains(all, "SUPERD_INSTANCE") {
			return name
		}
	}
	return ""
}

// DirectoryPaths returns the absolute paths of the program's directories of that kind. run has the
// variables of the run. The error names the key.
func (p *Program) DirectoryPaths(k DirectoryKind, roots DirectoryRoots, run Variables) ([]string, error) {
	var all []string
	for _, name := range p.Directories[k].Names {
		expanded, unset, err := document.Expand(name, run.Get)
		switch {
		case err == nil && len(unset) > 0:
			err = errors.New(unsetMessage(unset))
		case err == nil:
			err = checkDirectoryName(expanded)
		}
		if err == nil && roots[k] == "" {
			err = fmt.Errorf("superd does not run as root, and %s is not set: set it for superd", rootVariables[k])
		}
		if err != nil {
			return nil, fmt.Errorf("expand %s: %w", k.Key(), err)
		}
		all = append(all, path.Join(roots[k], expanded))
	}
	return all, nil
}

// rootVariables are the variables that lack where a root is "".
var rootVariables = [DirectoryKinds]string{"XDG_RUNTIME_DIR", "HOME or XDG_STATE_HOME", "HOME or XDG_CACHE_HOME", "HOME or XDG_STATE_HOME"}

// directoryKey returns the key for the directories of a kind.
func directoryKey(k DirectoryKind, doc string) key {
	return bind("program", k.Key(), oneOrList(directoryName),
		func(d *builder) *[]string { return &d.Directories[k].Names }, doc)
}

// directoryMode returns the key for the mode of the directories of a kind.
func directoryMode(k DirectoryKind, doc string) key {
	return reading("`\"0755\"`", bind("program", k.Key()+"_mode", octal("mode", "750"),
		func(d *builder) **uint32 { return &d.Directories[k].Mode }, doc))
}

// directoryName reads the name of a directory below a root.
var directoryName = codec[string]{
	name: "string",
	show: quoteSet,
	read: func(v value) (string, bool) {
		s, ok := word.read(v)
		if !ok || !v.template(s) {
			return "", false
		}
		if all, _ := document.References(s); slices.ContainsFunc(all, func(name string) bool { return !slices.Contains(runVariables, name) }) {
			v.fail("%q: only variables of superd, such as ${SUPERD_REPLICA}, are known when the directory is made: write the value", s)
			return "", false
		}
		if err := checkDirectoryName(s); err != nil {
			v.fail("%w", err)
			return "", false
		}
		return s, true
	},
}

// oneOrList reads an array of values of k, or a single one.
func oneOrList(k codec[string]) codec[[]string] {
	all := list("array of strings, or a string", k)
	return codec[[]string]{name: all.name, show: all.show, read: func(v value) ([]string, bool) {
		if _, isString := v.Raw.(string); isString {
			one, ok := k.read(v)
			return []string{one}, ok
		}
		return all.read(v)
	}}
}

// checkDirectoryName refuses the name of a directory that is not below its root.
func checkDirectoryName(s string) error {
	quoted := document.Quote(s)
	switch {
	case path.IsAbs(s):
		return fmt.Errorf("%s must be relative: write %q for the directory of that name below the root of the key",
			quoted, path.Base(s))
	case path.Clean(s) != s || s == "." || s == ".." || strings.HasPrefix(s, "../"):
		return fmt.Errorf("%s must be a plain path below the root of the key, without . or ..", quoted)
	}
	return nil
}

// checkDirectories checks the directories of all programs together: a runtime directory is removed
// when a run ends, so it must be of one instance.
func (l *loader) checkDirectories() {
	owners := map[string]*builder{}
	for _, d := range l.programs {
		for k := range DirectoryKinds {
			d.checkNested(k)
		}
		if !d.RemovesDirectories() {
			continue
		}
		const preserve = "write runtime_directory_preserve = true"
		at := d.mistakeAt(RuntimeDirectory.Key())
		if name := d.SharedDirectory(); name != "" && d.Replicas > 1 {
			at.fail("%q would be removed with each of the %d instances: add ${SUPERD_REPLICA} to it, or %s", name, d.Replicas, preserve)
		}
		for _, name := range d.Directories[RuntimeDirectory].Names {
			if other := owners[name]; other != nil {
				at.fail("%q is removed with each run of %s: choose another name, or %s in both programs", name, other.Name, preserve)
				continue
			}
			owners[name] = d
		}
	}
}

// setsDirectory reports whether superd sets the variable to the paths of directories.
func (d *builder) setsDirectory(variable string) bool {
	for k := range DirectoryKinds {
		if variable == k.Variable() {
			return len(d.Directories[k].Names) > 0
		}
	}
	return false
}

// checkNested refuses a directory in another one of the program: the program's user could replace
// it by a link.
func (d *builder) checkNested(k DirectoryKind) {
	names := d.Directories[k].Names
	for _, name := range names {
		for _, outer := range names {
			if strings.HasPrefix(name, outer+"/") {
				d.mistakeAt(k.Key()).fail("%q is in %q, which belongs to the program: remove it, and let the program make it", name, outer)
			}
		}
	}
}
