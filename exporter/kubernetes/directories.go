package kubernetes

import (
	"strings"

	"superd/config/directory"
	"superd/exporter/manifest"
)

// A mounted directory is one that a pod gets in place of one that superd makes.
type mounted struct {
	kind    directory.Kind
	path    string
	subPath string // within the claim, which all directories of state share
}

// directories returns the directories of a pod: those that superd would make, and the private /tmp
// and /var/tmp of a sandbox.
func directories(p *manifest.Program) (all []mounted) {
	for _, d := range p.DirectoriesOf(literal) {
		m := mounted{kind: d.Kind, path: d.Path}
		if d.Kind == directory.State {
			m.subPath = strings.TrimPrefix(d.Path, manifest.Roots[directory.State]+"/")
		}
		all = append(all, m)
	}
	if p.Sandbox != nil && p.Sandbox.PrivateTmp {
		all = append(all, mounted{kind: directory.Cache, path: "/tmp"}, mounted{kind: directory.Cache, path: "/var/tmp"})
	}
	return all
}

// directoryVariables returns the variables by which superd tells a program where they are.
func directoryVariables(p *manifest.Program) (all []manifest.Variable) {
	for kind := range directory.Kinds {
		var paths []string
		for _, d := range p.DirectoriesOf(literal) {
			if d.Kind == kind {
				paths = append(paths, d.Path)
			}
		}
		if paths != nil {
			all = append(all, manifest.Variable{Name: kind.Variable(), Value: strings.Join(paths, ":")})
		}
	}
	return all
}
