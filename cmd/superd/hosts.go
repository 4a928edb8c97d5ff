package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"superd/cmd/superd/report"
	"superd/control/remote"
)

const (
	// maxConcurrentHosts bounds how many hosts are asked at a time: each takes a process of ssh.
	maxConcurrentHosts = 64

	hostTimeout = 15 * time.Second // default of --host-timeout
)

// hostFlags say on which hosts a command runs.
type hostFlags struct {
	names   []string
	file    string
	timeout time.Duration
	single  *remote.Host // the one host that a copy of the command is for; nil: none
}

// args returns the flags as they were given.
func (f *hostFlags) args() (args []string) {
	if len(f.names) > 0 {
		args = append(args, "--host", strings.Join(f.names, ","))
	}
	if f.file != "" {
		args = append(args, "--hosts-file", f.file)
	}
	if f.timeout != hostTimeout {
		args = append(args, "--host-timeout", f.timeout.String())
	}
	return args
}

func (f *hostFlags) add(set *pflag.FlagSet) {
	set.StringSliceVar(&f.names, "host", nil, "`hosts` to run it on by ssh, as in admin@a,b,c")
	set.StringVar(&f.file, "hosts-file", "", "`file` with a host a line")
	durationVar(set, &f.timeout, "host-timeout", hostTimeout, "`time` to wait for a connection to a host")
	_ = cobra.MarkFlagFilename(set, "hosts-file") // no error: the flag is defined
}

// given reports whether the command runs on hosts.
func (f *hostFlags) given() bool { return len(f.names) > 0 || f.file != "" }

// hosts returns the hosts to connect to, each once, in the order given. args are those of the
// proxy.
func (f *hostFlags) hosts(args []string) ([]*remote.Host, error) {
	names := slices.Clone(f.names)
	if f.file != "" {
		listed, err := readHosts(f.file)
		if err != nil {
			return nil, err
		}
		names = append(names, listed...)
	}
	if f.timeout <= 0 {
		return nil, errors.New("read --host-timeout: must be positive, got 0")
	}
	var all []*remote.Host
	for i, name := range names {
		if err := remote.CheckName(name); err != nil {
			return nil, fmt.Errorf("read --host: %w", err)
		}
		if !slices.Contains(names[:i], name) {
			all = append(all, &remote.Host{Name: name, SSH: os.Getenv("SUPERD_SSH"), Args: args, Timeout: f.timeout})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("read --hosts-file: %s names no host", f.file)
	}
	return all, nil
}

// readHosts returns the hosts of a file: one a line, without empty lines and comments.
func readHosts(path string) (names []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read --hosts-file: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, _, _ := strings.Cut(lines.Text(), "#")
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read --hosts-file: %w", err)
	}
	return names, nil
}

// onHosts returns the command that build returns. If hosts are given it runs on each of them, all
// at the same time.
func (f *ctlFlags) onHosts(build func(*ctlFlags) *cobra.Command) *cobra.Command {
	cmd := build(f)
	local := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !f.host.given() {
			return local(cmd, args)
		}
		hosts, err := f.host.hosts(f.proxyArgs())
		if err != nil {
			return usageError{err}
		}
		return runOnHosts(cmd, hosts, func(h *remote.Host, out *report.Host) error {
			flags := ctlFlags{host: hostFlags{single: h}}
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
		if f.host.given() {
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

// runOnHosts calls run for all hosts and prints their results in the order of hosts. The error is
// that of the host with the highest exit status.
func runOnHosts(cmd *cobra.Command, hosts []*remote.Host, run func(*remote.Host, *report.Host) error) error {
	asJSON := false
	if f := cmd.Flags().Lookup("json"); f != nil {
		asJSON = f.Value.String() == "true"
	}
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	fleet := report.NewFleet(cmd.OutOrStdout(), cmd.ErrOrStderr(), names, asJSON)
	slots := make(chan struct{}, maxConcurrentHosts)
	var running sync.WaitGroup
	for i, h := range hosts {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out := fleet.Host(i)
			err := run(h, out)
			out.End(failureText(err), statusOf(err))
		})
	}
	running.Wait()
	status, err := fleet.Finish()
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
