//go:build !linux

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// platformCommands is empty: superd supervises on Linux only.
var platformCommands []subcommand

func becomeProgram() {}

func becomeSupervisorctl() {}

// features returns an empty map: superd uses features of Linux only.
func features() map[string]bool { return map[string]bool{} }

// newRunCommand returns a command that only reports where run works.
func newRunCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "run",
		Short:              "Run the programs of the configuration (on Linux only)",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("run programs: superd supervises on Linux only: here, check a configuration with " +
				"`superd check`, or control a superd elsewhere through its control socket with `superd ctl`")
		},
	}
}

// A watchedProcess stands for a process of superd. Here there are none.
type watchedProcess struct{}

func watchProcess(int) (*watchedProcess, bool) { return nil, false }

func (p *watchedProcess) Wait(context.Context) error { return nil }

func (p *watchedProcess) Close() error { return nil }
