package main

import (
	"superd/internal/execshim"
	"superd/pidfd"
)

// platformCommands are the commands that only Linux has.
var platformCommands = []subcommand{
	{"metrics", newMetricsCommand}, {"web", newWebCommand}, {"doctor", newDoctorCommand}, {"clean-cgroup", newCleanCgroupCommand},
}

// becomeProgram does not return if this process is the exec shim of a program.
func becomeProgram() { execshim.Run(nil) }

// features reports by name which newer features the kernel has.
func features() map[string]bool {
	all := map[string]bool{}
	for _, f := range pidfd.Probe().List() {
		all[f.Name] = f.Has
	}
	return all
}
