package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"superd/config/codec"
	"superd/config/document"
	"superd/config/environ"
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

// DirectoryRoots are the absolute paths below which directories are made, and those that must not
// be among them.
type DirectoryRoots struct {
	Roots    [DirectoryKinds]string // by kind; "": that user has none
	Reserved []string               // superd's own directories
}

// RemovesDirectories reports whether the program has directories that superd removes after a run.
func (p *Program) RemovesDirectories() bool {
	return len(p.Directories[RuntimeDirectory].Names) > 0 && !p.RuntimeDirectoryPreserve
}

// SharedDirectory returns a directory that superd removes after a run and that the instances of the
// program share; "" if there is none.
func (p *Program) SharedDirectory() string {
	if !p.RemovesDirectories() {
		return ""
	}
	for _, name := range p.Directories[RuntimeDirectory].Names {
		if all, _ := document.References(name); !slices.Contains(all, "SUPERD_REPLICA") && !slices.Contains(all, "SUPERD_INSTANCE") {
			return name
		}
	}
	return ""
}

// DirectoryPaths returns the absolute paths of the program's directories of that kind. run has the
// variables of the run. The error names the key.
func (p *Program) DirectoryPaths(k DirectoryKind, roots DirectoryRoots, run environ.Variables) ([]string, error) {
	var all []string
	for _, name := range p.Directories[k].Names {
		expanded, unset, err := document.Expand(name, run.Get)
		switch {
		case err == nil && len(unset) > 0:
			err = errors.New(environ.UnsetMessage(unset, "environment or env_file"))
		case err == nil:
			err = checkDirectoryName(expanded)
		}
		if err == nil && roots.Roots[k] == "" {
			err = fmt.Errorf("superd does not run as root, and %s is not set: set it for superd", rootVariables[k])
		}
		full := path.Join(roots.Roots[k], expanded)
		for _, own := range roots.Reserved {
			if err == nil && (within(full, own) || within(own, full)) {
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

// within reports whether a cleaned path is dir or below it.
func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// rootVariables name what to set where a root is "".
var rootVariables = [DirectoryKinds]string{"XDG_RUNTIME_DIR", "HOME or XDG_STATE_HOME", "HOME or XDG_CACHE_HOME", "HOME or XDG_STATE_HOME"}

// directoryKey returns the key for the directories of a kind.
func directoryKey(k DirectoryKind, doc string) key {
	return bind("program", k.Key(), codec.OneOrList(directoryName),
		func(d *builder) *[]string { return &d.Directories[k].Names }, doc)
}

// directoryMode returns the key for the mode of the directories of a kind.
func directoryMode(k DirectoryKind, doc string) key {
	return reading("`\"0755\"`", bind("program", k.Key()+"_mode", codec.Octal("mode", "750", 0o7777),
		func(d *builder) **uint32 { return &d.Directories[k].Mode }, doc))
}

// directoryName reads the name of a directory below a root.
var directoryName = codec.Codec[string]{
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
		if err := checkDirectoryName(s); err != nil {
			v.Fail("%w", err)
			return "", false
		}
		return s, true
	},
}

// systemNames are directories below the roots that no program may have.
var systemNames = []string{"apt", "cryptsetup", "dbus", "dpkg", "initctl", "initramfs", "journal", "lock", "log", "mount", "shm", "systemd", "udev", "user"}

// checkDirectoryName refuses the name of a directory that is not below its root, or that is not for
// a program.
func checkDirectoryName(s string) error {
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

// checkDirectories checks the directories of all programs together. A runtime directory is removed
// when a run ends, so it must be of one instance.
func (l *loader) checkDirectories() {
	owners := map[string]*builder{} // of runtime directories
	for _, d := range l.programs {
		for k := range DirectoryKinds {
			d.checkNested(k)
		}
		if name := d.SharedDirectory(); name != "" && d.Replicas > 1 {
			d.mistakeAt(RuntimeDirectory.Key()).Fail("%q would be removed with each of the %d instances: add ${SUPERD_REPLICA} to it, or write runtime_directory_preserve = true", name, d.Replicas)
			continue
		}
		for _, name := range d.runtimeNames() {
			if owners[name] == nil {
				owners[name] = d
			} else if owners[name] != d {
				d.checkRemoval(name, owners[name], name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		for outer := path.Dir(name); outer != "."; outer = path.Dir(outer) {
			if other := owners[outer]; other != nil && other != owners[name] {
				owners[name].checkRemoval(name, other, outer)
			}
		}
	}
}

// checkRemoval refuses a directory that is, or is in, a directory of another program if one of the
// two is removed.
func (d *builder) checkRemoval(name string, other *builder, its string) {
	if d.RemovesDirectories() || other.RemovesDirectories() {
		d.mistakeAt(RuntimeDirectory.Key()).Fail("%q is removed with runs of %s, which has %q: choose another name, or write runtime_directory_preserve = true in both programs", name, other.Name, its)
	}
}

// runtimeNames returns the expanded runtime directories of all instances.
func (d *builder) runtimeNames() (all []string) {
	if len(d.Directories[RuntimeDirectory].Names) == 0 {
		return nil
	}
	for _, instance := range d.Instances() {
		_, replica, _ := strings.Cut(instance, "@")
		var run environ.Variables
		run.Set("SUPERD_INSTANCE", instance)
		run.Set("SUPERD_NAME", d.Name)
		run.Set("SUPERD_REPLICA", cmp.Or(replica, "1"))
		for _, name := range d.Directories[RuntimeDirectory].Names {
			if expanded, _, err := document.Expand(name, run.Get); err == nil {
				all = append(all, expanded)
			}
		}
	}
	return all
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
				d.mistakeAt(k.Key()).Fail("%q is in %q, which belongs to the program: remove it, and let the program make it", name, outer)
			}
		}
	}
}
