package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/await"
	"superd/control"
	"superd/internal/words"
)

func newWaitCommand(flags *ctlFlags) *cobra.Command {
	var condition string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait NAME...",
		Short: "Wait until programs are ready, stopped or the like",
		Long: `Wait returns when all instances that the names select meet the condition at the same time:

  ready     it runs and is ready
  healthy   it runs, is ready, and its last health checks passed
  stopped   it has no process, and none is started soon
  exited    the run that was under way has ended, also if another one has begun since
  failed    it has failed, and superd has given up or retries slowly

It starts and stops nothing. The exit status is 1 when the time-out is over, and when a program that
is to become ready or healthy has failed.`,
		Example: `  superd ctl wait db cache                  both are ready
  superd ctl wait backup --for exited --timeout 10m`,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			awaited, err := await.For(condition)
			if err != nil {
				return usageError{err}
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			return waitFor(cmd.Context(), client, names, awaited, timeout)
		},
	}
	cmd.Flags().StringVar(&condition, "for", "ready", "`condition`: "+words.OneOf(await.Names()))
	_ = cmd.RegisterFlagCompletionFunc("for", // no error: the flag is defined
		cobra.FixedCompletions(await.Names(), cobra.ShellCompDirectiveNoFileComp))
	durationVar(cmd.Flags(), &timeout, "timeout", 0, "stop waiting after this `time`, such as 10s")
	return cmd
}

// waitFor returns when awaited is met. superd sends the status after each change.
func waitFor(ctx context.Context, client *control.Client, names []string, awaited *await.Condition, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	errMet := errors.New("the condition is met")
	err := client.Watch(ctx, names, func(all []control.Status) error {
		switch met, err := awaited.Observe(all); {
		case err != nil:
			return err
		case met:
			return errMet
		}
		return nil
	})
	switch {
	case errors.Is(err, errMet):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("wait for %s: not within %s: %s", awaited.Name, words.Duration(timeout), awaited.Unsatisfied())
	case err == nil:
		return fmt.Errorf("wait for %s: %w any more", awaited.Name, control.ErrNoSuperd)
	}
	return err
}
