package procs

import (
	"superd/config/environ"
	"superd/procs/execprobe"
	"superd/procs/host"
)

// A Platform is what commands beside the programs run on.
type Platform struct {
	Host        host.Host
	Reaper      execprobe.Reaper
	Environment environ.Variables // that programs inherit
}

// PlatformOf returns what commands beside the programs run on.
func PlatformOf(s *Supervisor) Platform {
	return Platform{Host: s.Host, Reaper: s.reaper, Environment: s.Env.Environment}
}

// Existing returns which of the instances the supervisor has.
func Existing(s *Supervisor, names []string) map[string]bool {
	found := make(map[string]bool, len(names))
	for _, name := range names {
		found[name] = s.registry.named(name) != nil
	}
	return found
}
