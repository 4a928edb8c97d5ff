package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
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
			await, err := newAwaited(condition)
			if err != nil {
				return usageError{err}
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			return waitFor(cmd.Context(), client, names, await, timeout)
		},
	}
	cmd.Flags().StringVar(&condition, "for", "ready", "`condition`: "+words.OneOf(conditionNames()))
	_ = cmd.RegisterFlagCompletionFunc("for", // no error: the flag is defined
		cobra.FixedCompletions(conditionNames(), cobra.ShellCompDirectiveNoFileComp))
	durationVar(cmd.Flags(), &timeout, "timeout", 0, "stop waiting after this `time`, such as 10s")
	return cmd
}

// waitFor returns when await is met. superd sends the status after each change.
func waitFor(ctx context.Context, client *control.Client, names []string, await *awaited, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	errMet := errors.New("the condition is met")
	err := client.Watch(ctx, names, func(all []control.Status) error {
		switch met, err := await.observe(all); {
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
		return fmt.Errorf("wait for %s: not within %s: %s", await.condition, words.Duration(timeout), await.unsatisfied())
	case err == nil:
		return fmt.Errorf("wait for %s: %w any more", await.condition, control.ErrNoSuperd)
	}
	return err
}

// An awaited is a condition that all instances must meet.
type awaited struct {
	condition string
	met       func(s *control.Status, before *control.Exit) bool
	last      []control.Status
	before    map[string]*control.Exit // ends of runs at the begin of the wait, by instance
}

// conditions have for each condition whether an instance meets it. before is the end of its last
// run at the begin of the wait.
var conditions = []struct {
	name string
	met  func(s *control.Status, before *control.Exit) bool
}{
	{"ready", func(s *control.Status, _ *control.Exit) bool { return s.Up() }},
	{"healthy", func(s *control.Status, _ *control.Exit) bool { return s.Up() && s.Healthy != nil && *s.Healthy }},
	{"stopped", func(s *control.Status, _ *control.Exit) bool { return rests(s) }},
	{"exited", func(s *control.Status, before *control.Exit) bool {
		ended := s.Exit != nil && (before == nil || !s.Exit.At.Equal(before.At))
		return ended || rests(s) || s.State == control.StateBackoff
	}},
	{"failed", func(s *control.Status, _ *control.Exit) bool { return s.State == control.StateFailed }},
}

// rests reports whether the instance has no process, and none is due soon.
func rests(s *control.Status) bool {
	return s.State == control.StateStopped || s.State == control.StateExited || s.State == control.StateFailed
}

func conditionNames() []string {
	var names []string
	for _, c := range conditions {
		names = append(names, c.name)
	}
	return names
}

func newAwaited(condition string) (*awaited, error) {
	for _, c := range conditions {
		if c.name == condition {
			return &awaited{condition: condition, met: c.met}, nil
		}
	}
	names := conditionNames()
	return nil, fmt.Errorf("read --for: unknown condition %q%s", condition,
		words.DidYouMean(condition, names, ": it can be "+words.OneOf(names)))
}

// observe reports whether all instances meet the condition now. The error says that one can't.
func (a *awaited) observe(all []control.Status) (met bool, err error) {
	a.last = all
	if a.before == nil {
		a.before = map[string]*control.Exit{}
		for i := range all {
			a.before[all[i].Name] = all[i].Exit
		}
	}
	met = len(all) > 0
	for i := range all {
		s := &all[i]
		if s.State == control.StateFailed && (a.condition == "ready" || a.condition == "healthy") {
			return false, fmt.Errorf("wait for %s: %s has failed: %s", a.condition,
				terminal.Sanitize(s.Name), report.OneLine(report.Shown(s.Reason, func(why string) string { return why })))
		}
		met = met && a.meets(s)
	}
	return met, nil
}

func (a *awaited) meets(s *control.Status) bool { return a.met(s, a.before[s.Name]) }

// unsatisfied describes the instances that do not meet the condition.
func (a *awaited) unsatisfied() string {
	var unsatisfied []string
	for i := range a.last {
		if s := &a.last[i]; !a.meets(s) {
			unsatisfied = append(unsatisfied, terminal.Sanitize(s.Name)+" is "+s.State)
		}
	}
	if len(unsatisfied) == 0 {
		return "superd has sent no status"
	}
	return strings.Join(unsatisfied, ", ")
}
