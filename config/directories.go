package config

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"superd/config/codec"
	"superd/config/directory"
	"superd/config/document"
	"superd/config/environ"
)

// RemovesDirectories reports whether the program has directories that superd removes after a run.
func (p *Program) RemovesDirectories() bool {
	return len(p.Directories[directory.Runtime].Names) > 0 && !p.RuntimeDirectoryPreserve
}

// SharedDirectory returns a directory that superd removes after a run and that the instances of the
// program share; "" if there is none.
func (p *Program) SharedDirectory() string {
	if !p.RemovesDirectories() {
		return ""
	}
	for _, name := range p.Directories[directory.Runtime].Names {
		if all, _ := document.References(name); !slices.Contains(all, "SUPERD_REPLICA") && !slices.Contains(all, "SUPERD_INSTANCE") {
			return name
		}
	}
	return ""
}

// directoryKey returns the key for the directories of a kind.
func directoryKey(k directory.Kind, doc string) key {
	return bind("program", k.Key(), codec.OneOrList(directory.Name),
		func(d *builder) *[]string { return &d.Directories[k].Names }, doc)
}

// directoryMode returns the key for the mode of the directories of a kind.
func directoryMode(k directory.Kind, doc string) key {
	return reading("`\"0755\"`", bind("program", k.Key()+"_mode", codec.Octal("mode", "750", 0o7777),
		func(d *builder) **uint32 { return &d.Directories[k].Mode }, doc))
}

// checkDirectories checks the directories of all programs together. A runtime directory is removed
// when a run ends, so it must be of one instance.
func (l *loader) checkDirectories() {
	owners := map[string]*builder{} // of runtime directories
	for _, d := range l.programs {
		for k := range directory.Kinds {
			d.checkNested(k)
		}
		if name := d.SharedDirectory(); name != "" && d.Replicas > 1 {
			d.mistakeAt(directory.Runtime.Key()).Fail("%q would be removed with each of the %d instances: add ${SUPERD_REPLICA} to it, or write runtime_directory_preserve = true", name, d.Replicas)
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
		d.mistakeAt(directory.Runtime.Key()).Fail("%q is removed with runs of %s, which has %q: choose another name, or write runtime_directory_preserve = true in both programs", name, other.Name, its)
	}
}

// runtimeNames returns the expanded runtime directories of all instances.
func (d *builder) runtimeNames() (all []string) {
	if len(d.Directories[directory.Runtime].Names) == 0 {
		return nil
	}
	for _, instance := range d.Instances() {
		_, replica, _ := strings.Cut(instance, "@")
		var run environ.Variables
		run.Set("SUPERD_INSTANCE", instance)
		run.Set("SUPERD_NAME", d.Name)
		run.Set("SUPERD_REPLICA", cmp.Or(replica, "1"))
		for _, name := range d.Directories[directory.Runtime].Names {
			if expanded, _, err := document.Expand(name, run.Get); err == nil {
				all = append(all, expanded)
			}
		}
	}
	return all
}

// setsDirectory reports whether superd sets the variable to the paths of directories.
func (d *builder) setsDirectory(variable string) bool {
	for k := range directory.Kinds {
		if variable == k.Variable() {
			return len(d.Directories[k].Names) > 0
		}
	}
	return false
}

// checkNested refuses a directory in another one of the program: the program's user could replace
// it by a link.
func (d *builder) checkNested(k directory.Kind) {
	names := d.Directories[k].Names
	for _, name := range names {
		for _, outer := range names {
			if strings.HasPrefix(name, outer+"/") {
				d.mistakeAt(k.Key()).Fail("%q is in %q, which belongs to the program: remove it, and let the program make it", name, outer)
			}
		}
	}
}
