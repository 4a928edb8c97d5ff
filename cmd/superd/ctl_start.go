package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
)

func newStartCommand(flags *ctlFlags) *cobra.Command {
	return newProgramsCommand(flags, "start", "Start programs",
		`Start starts programs, and resets their start limit. It returns when they are ready or have failed.
Start waits for a one-shot until it ends.`, new(rollFlags))
}

func newStopCommand(flags *ctlFlags) *cobra.Command {
	return newProgramsCommand(flags, "stop", "Stop programs",
		`Stop stops programs, and returns when they have ended. They stay stopped until they are
started by a command, also when superd is restarted.`, new(rollFlags))
}

func newRestartCommand(flags *ctlFlags) *cobra.Command {
	var roll rollFlags
	cmd := newProgramsCommand(flags, "restart", "Stop programs and start them again",
		`Restart stops programs and those that require them, then starts all of them. It returns when they
are ready or have failed.

With --rolling it restarts one instance after the other, as the key rolling of the program says, and
ends at the first that fails. With --canary N it first starts N extra instances and returns when
they are ready: superd ctl continue then restarts the others, superd ctl undo removes the extra
ones.`, &roll)
	cmd.Flags().BoolVar(&roll.rolling, "rolling", false,
		"restart one instance after the other, each when the one before is ready")
	cmd.Flags().IntVar(&roll.canary, "canary", 0,
		"with --rolling: start `N` extra instances, and wait for a decision")
	return cmd
}

// rollFlags are the flags of a rolling restart; zero: it is none.
type rollFlags struct {
	rolling bool
	canary  int
}

// check refuses flags that do not belong together.
func (r *rollFlags) check(noWait bool) error {
	switch {
	case noWait && r.rolling:
		return usageError{errors.New("read flags: --rolling and --no-wait cannot be combined")}
	case r.canary < 0:
		return usageError{errors.New("read flags: --canary must be a positive number")}
	case r.canary > 0 && !r.rolling:
		return usageError{errors.New("read flags: --canary is for a rolling restart: add --rolling")}
	}
	return nil
}

func newContinueCommand(flags *ctlFlags) *cobra.Command {
	return newDecisionCommand(flags, "continue", "Continue a rolling restart that waits",
		`Continue restarts the instances that are left, after restart --rolling --canary or after a restart
that failed. It returns when they are ready or one has failed.`, (*control.Client).ContinueRoll)
}

func newUndoCommand(flags *ctlFlags) *cobra.Command {
	return newDecisionCommand(flags, "undo", "End a rolling restart",
		`Undo ends a rolling restart: no further instance is restarted, and the extra ones are stopped. Those
that were restarted stay so. If some are, and one is not ready, the extra ones stay until it is.`, (*control.Client).UndoRoll)
}

// newDecisionCommand returns the command continue or undo, which decide is for.
func newDecisionCommand(
	flags *ctlFlags, verb, short, long string,
	decide func(*control.Client, context.Context, []string, time.Duration) ([]control.CommandResult, error),
) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:               verb + " NAME...",
		Short:             short,
		Long:              long,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			outcomes, err := decide(client, cmd.Context(), names, timeout)
			if err != nil {
				return err
			}
			return printResults(outcomes, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	durationVar(cmd.Flags(), &timeout, "timeout", 0,
		"stop waiting after this `time`, such as 10s; the command stays in effect")
	return cmd
}

// newProgramsCommand returns the command start, stop or restart, as verb says. roll has flags of
// restart.
func newProgramsCommand(flags *ctlFlags, verb, short, long string, roll *rollFlags) *cobra.Command {
	var noWait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:               verb + " NAME...",
		Short:             short,
		Long:              long,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			if noWait && timeout > 0 {
				return usageError{errors.New("read flags: --no-wait and --timeout cannot be combined")}
			}
			if err := roll.check(noWait); err != nil {
				return err
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			var outcomes []control.CommandResult
			if roll.rolling {
				outcomes, err = client.RestartRolling(cmd.Context(), names, roll.canary, timeout)
			} else {
				outcomes, err = client.Command(cmd.Context(), verb, names, !noWait, timeout)
			}
			if err != nil {
				return err
			}
			return printResults(outcomes, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it is done")
	durationVar(cmd.Flags(), &timeout, "timeout", 0,
		"stop waiting after this `time`, such as 10s; the command stays in effect")
	return cmd
}
