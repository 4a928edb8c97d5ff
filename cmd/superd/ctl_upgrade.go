package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
)

// upgradeTimeout bounds the wait until the new binary, or again the old one, answers.
const upgradeTimeout = 30 * time.Second

func newUpgradeCommand(flags *ctlFlags) *cobra.Command {
	var binary string
	var ifRunning bool
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Continue with another binary of superd",
		Long: `Upgrade makes superd execute another binary, or the file that it was started from. The programs keep
running and stay its children. The new binary must first report its version and accept the
configuration. If it is not ready within 10 seconds, the old one continues. Without a keeper, as
under systemd, a failed upgrade is not reverted.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			err = upgrade(cmd.Context(), client, binary, cmd.OutOrStdout())
			if ifRunning && errors.Is(err, control.ErrNoSuperd) {
				return nil
			}
			return err
		},
	}
	cmd.Flags().StringVar(&binary, "binary", "",
		"`path` of the new binary (default: the file that superd was started from)")
	cmd.Flags().BoolVar(&ifRunning, "if-running", false, "do nothing, and succeed, if no superd runs")
	return cmd
}

// upgrade requests an upgrade and waits until a superd answers again. If its pid is the same, it is
// the new one.
func upgrade(ctx context.Context, client *control.Client, binary string, stdout io.Writer) error {
	if binary != "" {
		path, err := filepath.Abs(binary)
		if err != nil {
			return fmt.Errorf("find binary: %w", err)
		}
		binary = path
	}
	requested := time.Now()
	answer, err := client.Upgrade(ctx, binary)
	if err != nil {
		return err
	}
	if !answer.Reverts {
		fmt.Fprintln(stdout, "superd runs without a keeper: a failed upgrade is not reverted")
	}
	ctx, cancel := context.WithTimeout(ctx, upgradeTimeout)
	defer cancel()
	for {
		before := time.Now()
		v, err := client.Version(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("upgrade to %s: no superd has answered for %v", answer.Binary, upgradeTimeout)
		case err == nil && v.Pid != answer.Pid:
			return fmt.Errorf("upgrade to %s: the new binary did not become ready; superd %s continues: see its log", answer.Binary, v.Version)
		// It has started after the request.
		case err == nil && before.Add(-time.Duration(v.Uptime*float64(time.Second))).After(requested):
			fmt.Fprintf(stdout, "superd %s runs, upgraded from %s\n", v.Version, answer.From)
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
		}
	}
}
