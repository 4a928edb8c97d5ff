// Command superd-ui has the commands of superd that need large libraries. superd executes it, as in
// `superd metrics`, so that neither the supervisor nor `superd ctl` links them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"superd/control"
	"superd/internal/terminal"
)

// Exit statuses, as those of superd.
const (
	statusFailed   = 1
	statusUsage    = 2 // wrong usage or invalid configuration
	statusNoSuperd = 4 // no superd answers
)

// version is set when a release is built: -ldflags '-X main.version=1.2.3'.
var version = "devel"

// heapGrowth is when Go collects garbage, in percent of what lives: an answer is short-lived, and
// large with a thousand programs.
const heapGrowth = 400

func main() {
	debug.SetGCPercent(heapGrowth)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run runs a command line, without the program's name, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	begun := false // an error before the command itself begins is a wrong command line
	root := newRootCommand()
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true }
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if !begun {
		err = usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
	}
	fmt.Fprint(stderr, "superd: ")
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(stderr, terminal.Sanitize(strings.TrimSuffix(line, "\n")))
	}
	_, usage := errors.AsType[usageError](err)
	switch {
	case usage:
		return statusUsage
	case errors.Is(err, control.ErrNoSuperd):
		return statusNoSuperd
	}
	return statusFailed
}

// newRootCommand returns the command with those that superd executes this program for.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "superd", // which executes this program
		Short:         "Commands of superd that need large libraries",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newMetricsCommand(), newTopCommand(), newWebCommand(), newImportCommand(),
		newExportCommand(), newRunFromCommand())
	root.AddCommand(developCommands()...)
	return root
}

// A usageError is a mistake in the command line or in the configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }
