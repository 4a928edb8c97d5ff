// Package exporter writes a configuration as files for another supervisor or for a cluster.
//
// Each format is a package below this one. It has a rule for every key, and notes on the keys that
// have no counterpart or mean something else.
package exporter

import (
	"fmt"
	"strings"

	"superd/config"
	"superd/exporter/compose"
	"superd/exporter/kubernetes"
	"superd/exporter/manifest"
	"superd/exporter/nomad"
	"superd/exporter/systemd"
)

// A Format is what a configuration can be exported to.
type Format struct {
	Name, Description string
	// Export writes each program in the words of the target
	Export func(*config.Config, manifest.Options) (*manifest.Export, error)
	// Whole writes superd with the whole configuration
	Whole func(*config.Config, manifest.Options) (*manifest.Export, error)
	// Rules has an entry for every key of a program
	Rules func() manifest.Rules
}

// Formats returns all formats.
func Formats() []Format {
	return []Format{
		{nomad.Format, "jobs of Nomad", nomad.Export, nomad.Whole, nomad.Rules},
		{kubernetes.Format, "manifests of Kubernetes", kubernetes.Export, kubernetes.Whole, kubernetes.Rules},
		{systemd.Format, "units of systemd", systemd.Export, systemd.Whole, systemd.Rules},
		{compose.Format, "a compose.yaml of Docker", compose.Export, compose.Whole, compose.Rules},
	}
}

// Find returns the format of a name.
func Find(name string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("%q is no format: write one of %s", name, strings.Join(names, ", "))
}
