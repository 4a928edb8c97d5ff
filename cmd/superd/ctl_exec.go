package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"superd/control"
	"superd/internal/signame"
	"superd/internal/terminal"
)

func newExecCommand(flags *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "exec NAME -- COMMAND [ARG...]",
		Short: "Execute a command beside a program",
		Long: `Exec executes a command beside the main process of one instance, which must run: with the program's
user, directory, environment, limits, process tree and sandbox. The command has the standard input
and output of exec; in a terminal it gets a terminal of its own. It ends when exec ends, and when
the program stops. The exit status is that of the command, 128 and the number of the signal that
ended it, or as of other commands if it could not be executed.`,
		Example: `  superd ctl exec web -- env
  superd ctl exec db@2 -- psql -c 'select 1'`,
		Args:              needArgs("NAME", "COMMAND"),
		ValidArgsFunction: flags.completeFirst,
		RunE: func(cmd *cobra.Command, args []string) error {
			return executeBeside(cmd, flags, args[0], args[1:])
		},
	}
}

// loginShell is a command that executes the best shell there is.
var loginShell = []string{"/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"}

func newShellCommand(flags *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "shell NAME",
		Short: "Open a shell beside a program",
		Long: `Shell executes bash, or else sh, as exec does: with the user, directory, environment, limits and
sandbox of a program that runs.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: flags.completeFirst,
		RunE: func(cmd *cobra.Command, args []string) error {
			return executeBeside(cmd, flags, args[0], loginShell)
		},
	}
}

// completeFirst completes the name of an instance as the first argument.
func (f *ctlFlags) completeFirst(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return f.completeNames(cmd, args, word)
}

// executeBeside executes a command beside an instance. The error has its exit status.
func executeBeside(cmd *cobra.Command, flags *ctlFlags, name string, words []string) error {
	client, err := flags.client()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	command := control.Command{Words: words, Files: [3]*os.File{os.Stdin, os.Stdout, os.Stderr}}
	if terminal.IsTerminal(os.Stdin) && terminal.IsTerminal(os.Stdout) {
		bridge, err := terminal.OpenBridge(os.Stdin)
		if err != nil {
			return err
		}
		defer bridge.Close()
		command.Terminal, command.TERM = true, os.Getenv("TERM")
		command.Files = [3]*os.File{bridge.Terminal, bridge.Terminal, bridge.Terminal}
		command.Passed = func() error { return bridge.Begin(os.Stdin, os.Stdout) }
	}
	exit, err := client.Execute(ctx, name, command)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return errors.New("execute command: interrupted")
		}
		return fmt.Errorf("execute command: %w", err)
	}
	return endAs(exit)
}

// signalBase is added to the number of the signal that ended a command, as shells do.
const signalBase = 128

// endAs returns the error with which superd ends as the command has.
func endAs(exit control.Exit) error {
	switch {
	case exit.Code != nil && *exit.Code == 0:
		return nil
	case exit.Code != nil:
		return exitStatus(*exit.Code)
	case exit.Signal != nil:
		if sig, err := signame.Parse(*exit.Signal); err == nil {
			return exitStatus(signalBase + int(sig))
		}
	}
	return errors.New("execute command: how it ended is unknown")
}
