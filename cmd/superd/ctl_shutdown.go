package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
)

// pollInterval is the pause between requests to a superd whose process can't be watched.
const pollInterval = 100 * time.Millisecond

func newShutdownCommand(flags *ctlFlags) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use:   "shutdown",
		Short: "Stop all programs and end superd",
		Long: `Shutdown stops all programs and ends superd. It returns when superd has ended. A second shutdown, a
second or more after the first, kills the programs that still run.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			return shutDown(cmd.Context(), client, !noWait, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until superd has ended")
	return cmd
}

func shutDown(ctx context.Context, client *control.Client, wait bool, stdout, stderr io.Writer) error {
	// The pidfd is opened before the request: later the pid may be that of another process.
	process, err := watchSuperd(ctx, client)
	if err != nil {
		return err
	}
	defer process.Close()
	answer, err := client.Shutdown(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "superd (pid %d): %s\n", answer.Pid, answer.Message)
	if answer.Unrecorded != "" {
		printUnrecorded(stderr, "superd shuts down", answer.Unrecorded)
	}
	switch {
	case wait:
	case answer.Unrecorded != "":
		return exitStatus(statusFailed)
	default:
		return nil
	}
	if process != nil {
		err = process.Wait(ctx)
	} else {
		err = waitUntilGone(ctx, client)
	}
	if err == nil {
		fmt.Fprintln(stdout, "superd has ended")
	}
	return err
}

// watchSuperd returns the process of client's superd that ends last: the keeper, or the supervisor
// if there is no keeper. It returns nil if superd is in another PID namespace. There the pid that
// superd reports differs from the pid of the peer that the kernel reports, which is one of ours.
func watchSuperd(ctx context.Context, client *control.Client) (*watchedProcess, error) {
	version, err := client.Version(ctx)
	if err != nil {
		return nil, err
	}
	if pid, err := client.PeerPid(ctx); err != nil || pid != version.Pid {
		return nil, err
	}
	last := version.Pid
	if version.KeeperPid != nil {
		last = *version.KeeperPid
	}
	process, _ := watchProcess(last)
	return process, nil
}

// waitUntilGone waits until no superd answers. It is used if the process can't be watched.
func waitUntilGone(ctx context.Context, client *control.Client) error {
	for {
		if _, err := client.Version(ctx); errors.Is(err, control.ErrNoSuperd) {
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
