package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"superd/control"
	"superd/terminal"
)

func newLogsCommand(flags *ctlFlags) *cobra.Command {
	var lines string
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NAME...",
		Short: "Show the output of programs",
		Long: `Logs shows the last lines that programs have printed. The output of one program is copied byte for
byte, unless it goes to a terminal: then it is made harmless. Lines of several programs carry their names.`,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			n, err := strconv.Atoi(lines)
			if lines == "all" {
				n, err = -1, nil
			}
			if err != nil || n < -1 {
				return usageError{fmt.Errorf("read --lines: want a number or all, got %q", lines)}
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			return showLogs(cmd.Context(), client, names, n, follow, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&lines, "lines", "n", "30", "show this `many` lines, or all")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is printed from now on")
	return cmd
}

func showLogs(ctx context.Context, client *control.Client, names []string, lines int, follow bool, stdout io.Writer) error {
	instances, err := client.Brief(ctx, names)
	if err != nil {
		return err
	}
	output := terminal.Detect(stdout, os.Getenv)
	if len(instances) == 1 {
		if !output.Terminal {
			return client.Logs(ctx, instances[0].Name, lines, follow, stdout)
		}
		w := terminal.NewLineSanitizer(stdout)
		return errors.Join(client.Logs(ctx, instances[0].Name, lines, follow, w), w.Close())
	}
	printer := terminal.NewLinePrinter(stdout, output)
	writers := make([]io.WriteCloser, len(instances))
	for i, b := range instances {
		writers[i] = printer.Program(b.Name)
	}
	show := func(i int) error {
		return errors.Join(client.Logs(ctx, instances[i].Name, lines, follow, writers[i]), writers[i].Close())
	}
	errs := make([]error, len(instances))
	var all sync.WaitGroup
	for i := range instances {
		if follow {
			all.Go(func() { errs[i] = show(i) })
		} else {
			errs[i] = show(i)
		}
	}
	all.Wait()
	return errors.Join(errs...)
}
