package main

import (
	"github.com/spf13/cobra"

	"superd/cmd/superd-ui/develop"
	"superd/control"
)

// developCommands returns the commands for development.
func developCommands() []*cobra.Command {
	return develop.Commands(develop.Errors{
		Usage: func(err error) error { return usageError{err} },
		None:  func(err error) error { return noSuperd{err} },
	})
}

// A noSuperd error has the exit status of a superd that does not answer.
type noSuperd struct{ error }

func (e noSuperd) Unwrap() []error { return []error{e.error, control.ErrNoSuperd} }
