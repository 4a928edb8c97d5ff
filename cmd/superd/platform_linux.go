package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"superd/cmd/superd/eventlistener"
	"superd/cmd/superd/single"
	"superd/cmd/superd/ui"
	"superd/compat/supervisorctl"
	"superd/internal/execshim"
	"superd/pidfd"
)

// platformCommands are the commands that only Linux has.
var platformCommands = []subcommand{
	{"up", ui.Up}, {"down", ui.Down}, {"ls", ui.Ls}, {"init", ui.Init},
	{"top", ui.Top}, {"import", ui.Import}, {"export", ui.Export}, {"metrics", ui.Metrics}, {"web", ui.Web},
	{"doctor", newDoctorCommand},
	{"eventlistener", newEventListenerCommand},
	{"clean-cgroup", newCleanCgroupCommand},
}

// becomeSupervisorctl does not return if this process was started under that name.
func becomeSupervisorctl() {
	if filepath.Base(os.Args[0]) == supervisorctl.Name {
		os.Exit(supervisorctl.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
}

func newEventListenerCommand() *cobra.Command {
	return eventlistener.Command(func(err error) error { return usageError{err} },
		func(status int) error { return exitStatus(status) })
}

// becomeProgram does not return if this process is the exec shim of a program, or runs one command
// without a configuration.
func becomeProgram() {
	execshim.Run(nil)
	single.Execute()
}

// features reports by name which newer features the kernel has.
func features() map[string]bool {
	all := map[string]bool{}
	for _, f := range pidfd.Probe().List() {
		all[f.Name] = f.Has
	}
	return all
}
