package main

import (
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/await"
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
is to become ready or healthy has failed. If no superd answers yet, wait waits for it, too: for ten
seconds, or until the time-out is over. The exit status is 4 if there is none then.`,
		Example: `  superd ctl wait db cache                  both are ready
  superd run & superd wait web              superd itself still starts
  superd ctl wait backup --for exited --timeout 10m`,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			awaited, err := await.For(condition)
			if err != nil {
				return usageError{err}
			}
			return awaited.Wait(cmd.Context(), flags.client, names, timeout)
		},
	}
	cmd.Flags().StringVar(&condition, "for", "ready", "`condition`: "+words.OneOf(await.Names()))
	_ = cmd.RegisterFlagCompletionFunc("for", // no error: the flag is defined
		cobra.FixedCompletions(await.Names(), cobra.ShellCompDirectiveNoFileComp))
	durationVar(cmd.Flags(), &timeout, "timeout", 0, "stop waiting after this `time`, such as 10s")
	return cmd
}
