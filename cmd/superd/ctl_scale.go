package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
)

func newScaleCommand(flags *ctlFlags) *cobra.Command {
	var noWait, asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "scale NAME=N...",
		Short: "Run so many instances of programs",
		Long: `Scale has a program have N instances, or each program of a group or a glob. Only the difference is started
or stopped: those of the highest numbers go. It holds until the configuration says another number of
replicas than it says now, also when superd is killed or upgraded.

A program with one replica has the instance web; a program that is scaled has web@1 to web@N.`,
		Args:              needArgs("NAME=N"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 || noWait && timeout > 0 {
				return usageError{errors.New("read --timeout: it must be positive and is not for --no-wait")}
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
				return printJSON(cmd.OutOrStdout(), all)
			}
			return printScaled(all, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return at once")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "stop waiting after this `time`, such as 10s; superd goes on")
	return cmd
}

func printScaled(all []control.Scaled, stdout, stderr io.Writer) error {
	var failed error
	for _, s := range all {
		if err := printOutcomes(s.Instances, stdout, stderr); err != nil {
			failed = err
		}
		before := fmt.Sprintf("before %d", s.From)
		if s.From == s.To {
			before = "as before"
		}
		fmt.Fprintf(stdout, "%s: %s, %s\n", s.Program, count(s.To, "instance"), before)
	}
	return failed
}
