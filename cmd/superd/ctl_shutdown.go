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

// askAgain is how often a superd that can't be watched is asked whether it is still there.
const askAgain = 100 * time.Millisecond

func newShutdownCommand(flags *ctlFlags) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use:   "shutdown",
		Short: "Stop all programs and end superd",
		Long: `Shutdown stops all programs and ends superd, and returns when superd has gone. A second one doesn't
wait for programs to end by themselves.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			return shutDown(cmd.Context(), client, !noWait, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return at once")
	return cmd
}

func shutDown(ctx context.Context, client *control.Client, wait bool, stdout io.Writer) error {
	// Its descriptor is had before the request, so that it can't be another process's that came after.
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
	if !wait {
		return nil
	}
	if process != nil {
		err = process.Wait(ctx)
	} else {
		err = waitUntilSilent(ctx, client)
	}
	if err == nil {
		fmt.Fprintln(stdout, "superd has ended")
	}
	return err
}

// watchSuperd returns the process that ends last of the superd that client talks to, the keeper where there is one, nil where it can't be told
// from here: the pids that superd tells are of its own namespace, the kernel's word of the peer is one of ours.
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

// waitUntilSilent waits until no superd answers any more: what can be done about one whose process is not visible
// from here.
func waitUntilSilent(ctx context.Context, client *control.Client) error {
	for {
		if _, err := client.Version(ctx); errors.Is(err, control.ErrNoSuperd) {
			return nil
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
