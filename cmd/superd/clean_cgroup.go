//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/procs/linux/cgroup"
)

const (
	leftoverTimeout  = 10 * time.Second // for killed processes to end
	systemctlTimeout = 10 * time.Second
)

func newCleanCgroupCommand() *cobra.Command {
	var unit string
	cmd := &cobra.Command{
		Use:    "clean-cgroup",
		Short:  "End leftover processes after superd (ExecStopPost= of its systemd unit)",
		Hidden: true,
		Long: `Clean-cgroup is run by the systemd unit when superd has ended. If the unit is being stopped, it
kills leftover processes. If superd has crashed or is being restarted, it leaves them to the
successor, which adopts them.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cleanCgroup(cmd.Context(), unit, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&unit, "unit", "superd.service", "`name` of the unit")
	return cmd
}

func cleanCgroup(ctx context.Context, unit string, stderr io.Writer) error {
	cgroup, err := cgroup.OwnUnit()
	if err != nil {
		return err
	}
	stops, err := isStopping(ctx, unit)
	if err == nil && stops {
		var killed int
		if killed, err = cgroup.Kill(leftoverTimeout); killed > 0 {
			fmt.Fprintf(stderr, "leftover processes killed: %d\n", killed)
		}
	}
	return errors.Join(err, cgroup.DisableControllers())
}

// isStopping reports whether systemd has a job to stop the unit. A restart is another type of job,
// and a unit that has failed by itself has none.
func isStopping(ctx context.Context, unit string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, systemctlTimeout)
	defer cancel()
	jobs, err := exec.CommandContext(ctx, "systemctl", "list-jobs", "--no-legend", "--plain", "--full", "--no-pager").Output()
	if err != nil {
		return false, fmt.Errorf("list jobs of %s: %w", unit, err)
	}
	for line := range strings.Lines(string(jobs)) {
		if f := strings.Fields(line); len(f) >= 3 && f[1] == unit { // number, unit, type, state
			return f[2] == "stop", nil
		}
	}
	return false, nil
}
