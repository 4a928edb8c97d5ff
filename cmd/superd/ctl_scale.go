package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
)

// completeScale completes the programs with "=", after which a number follows.
func (f *ctlFlags) completeScale(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	instances, directive := f.completeNames(cmd, args, word)
	var programs []cobra.Completion
	for _, c := range instances {
		name, _, _ := strings.Cut(c, "\t") // the state follows
		program, _, _ := strings.Cut(name, "@")
		programs = append(programs, program+"=")
	}
	return slices.Compact(programs), directive | cobra.ShellCompDirectiveNoSpace
}

func newScaleCommand(flags *ctlFlags) *cobra.Command {
	var noWait, asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "scale NAME=N...",
		Short: "Change the number of instances",
		Long: `Scale sets the number of instances of a program, or of each program of a group or glob. Only the
difference is started or stopped; the highest numbers are stopped first.

A scale survives a crash and an upgrade of superd. It ends when a reload changes the number of
replicas, or when superd is shut down. A program with one replica has the instance web; a program
that is scaled has web@1 to web@N.`,
		Args:              needArgs("NAME=N"),
		ValidArgsFunction: flags.completeScale,
		RunE: func(cmd *cobra.Command, args []string) error {
			if noWait && timeout > 0 {
				return usageError{errors.New("read flags: --no-wait and --timeout cannot be combined")}
			}
			replicas := map[string]int{}
			for _, arg := range args {
				name, number, _ := strings.Cut(arg, "=")
				n, err := strconv.Atoi(number)
				if name == "" || err != nil || n < 0 {
					return usageError{fmt.Errorf("read %q: want a name and a number, such as web=5", arg)}
				}
				if _, twice := replicas[name]; twice {
					return usageError{fmt.Errorf("read %q: %s is named twice", arg, name)}
				}
				replicas[name] = n
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			all, err := client.Scale(cmd.Context(), replicas, !noWait, timeout)
			switch {
			case err != nil:
				return err
			case asJSON:
				return cmp.Or(report.JSON(cmd.OutOrStdout(), all), scaleStatus(all))
			}
			return printScaleResults(all, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it is done")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	durationVar(cmd.Flags(), &timeout, "timeout", 0,
		"stop waiting after this `time`, such as 10s; the command stays in effect")
	return cmd
}

// scaleStatus returns the error that stands for the exit status: nil if all was done and is in the
// journal.
func scaleStatus(all []control.ScaleResult) error {
	for _, s := range all {
		if s.Unrecorded != "" || commandStatus(s.Instances) != nil {
			return exitStatus(statusFailed)
		}
	}
	return nil
}

func printScaleResults(all []control.ScaleResult, stdout, stderr io.Writer) error {
	for _, s := range all {
		// Its error is ignored: scaleStatus covers it.
		_ = printResults(s.Instances, stdout, stderr)
		before := fmt.Sprintf("was %d", s.From)
		if s.From == s.To {
			before = "unchanged"
		}
		fmt.Fprintf(stdout, "%s: %s, %s\n", s.Program, count(s.To, "instance"), before)
		if s.Unrecorded != "" {
			printUnrecorded(stderr, s.Program+": scaled", s.Unrecorded)
		}
	}
	return scaleStatus(all)
}
