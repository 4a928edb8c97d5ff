package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"superd/cmd/superd/fleet"
	"superd/cmd/superd/report"
	"superd/control/remote"
)

// addHostFlags defines the flags that say on which hosts a command runs.
func addHostFlags(f *fleet.Flags, set *pflag.FlagSet) {
	set.StringSliceVar(&f.Names, "host", nil, "`hosts` to run it on by ssh, as in admin@a,b,c")
	set.StringVar(&f.File, "hosts-file", "", "`file` with a host a line")
	durationVar(set, &f.Timeout, "host-timeout", fleet.DefaultTimeout, "`time` to wait for a connection to a host")
	_ = cobra.MarkFlagFilename(set, "hosts-file") // no error: the flag is defined
}

// onHosts returns the command that build returns. If hosts are given it runs on each of them, all
// at the same time.
func (f *ctlFlags) onHosts(build func(*ctlFlags) *cobra.Command) *cobra.Command {
	cmd := build(f)
	local := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !f.host.Given() {
			return local(cmd, args)
		}
		hosts, err := f.host.Hosts(f.proxyArgs())
		if err != nil {
			return usageError{err}
		}
		return runOnHosts(cmd, hosts, func(h *remote.Host, out *report.Host) error {
			flags := ctlFlags{host: fleet.Flags{Single: h}}
			return runCopy(cmd, build(&flags), args, out)
		})
	}
	return cmd
}

// hereOnly returns the command that build returns. It refuses hosts.
func (f *ctlFlags) hereOnly(build func(*ctlFlags) *cobra.Command) *cobra.Command {
	cmd := build(f)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.host.Given() {
			return usageError{fmt.Errorf("read flags: %s runs on this host only: use ssh instead of --host", cmd.Name())}
		}
		return run(cmd, args)
	}
	return cmd
}

// runCopy runs a copy of a command with the flags that the command itself was given.
func runCopy(cmd, twin *cobra.Command, args []string, out *report.Host) error {
	var errs []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if own := twin.Flags().Lookup(f.Name); own != nil {
			errs = append(errs, own.Value.Set(f.Value.String()))
			own.Changed = true
		}
	})
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	twin.SetContext(cmd.Context())
	twin.SetOut(out)
	twin.SetErr(out.Errors)
	return twin.RunE(twin, args)
}

// runOnHosts calls run for all hosts. The error is that of the host with the highest exit status.
func runOnHosts(cmd *cobra.Command, hosts []*remote.Host, run func(*remote.Host, *report.Host) error) error {
	f := cmd.Flags().Lookup("json")
	status, err := fleet.Run(hosts, cmd.OutOrStdout(), cmd.ErrOrStderr(), f != nil && f.Value.String() == "true", run,
		func(err error) (string, int) { return failureText(err), statusOf(err) })
	if err == nil && status != 0 {
		err = exitStatus(status)
	}
	return err
}

// failureText returns the message of an error on one line; empty if there is none, or the command
// has printed it.
func failureText(err error) string {
	if _, silent := errors.AsType[exitStatus](err); err == nil || silent {
		return ""
	}
	return report.OneLine(strings.TrimSpace(err.Error()))
}
