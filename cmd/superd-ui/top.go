package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
	"superd/control/locate"
	"superd/control/remote"
	"superd/internal/terminal"
	"superd/top"
)

// connectTimeout is how long a connection to a host may take.
const connectTimeout = 15 * time.Second

func newTopCommand() *cobra.Command {
	var config, runtimeDir string
	var hosts []string
	cmd := &cobra.Command{
		Use:   "top [NAME…]",
		Short: "Show programs on a screen that follows them",
		Long: `Top shows all programs, or those that are named, on a screen: what they are doing, what they use,
and their last lines. It has their logs and events, says why they are in their states, and starts and
stops them. ? lists the keys.

It goes on when superd ends, and shows what another superd does on the same socket.`,
		Example: `  superd top
  superd top 'web*' db
  superd top --host a,b`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, names []string) error {
			if !terminal.IsTerminal(os.Stdin) || !terminal.IsTerminal(os.Stdout) {
				return usageError{errors.New("superd top needs a terminal; use superd ctl status")}
			}
			sources, err := topSources(config, runtimeDir, hosts)
			if err != nil {
				return usageError{err}
			}
			if err := anyAnswers(cmd.Context(), sources, names); err != nil {
				return err
			}
			return top.Run(cmd.Context(), top.Options{
				Sources: sources, Names: names, Input: os.Stdin, Output: os.Stdout,
				Colour: terminal.Detect(os.Stdout, os.Getenv).Colour,
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&config, "config", "c", "", "configuration `file` that names the runtime directory")
	flags.StringVar(&runtimeDir, "runtime-dir", "", "`directory` of the control socket")
	flags.StringSliceVar(&hosts, "host", nil, "`hosts` whose programs are shown, by ssh, as in admin@a,b,c")
	return cmd
}

// topSources returns the superd of each host or, without hosts, the one of this machine.
func topSources(config, runtimeDir string, hosts []string) (all []top.Source, err error) {
	if len(hosts) == 0 {
		socket, err := locate.Socket(config, runtimeDir)
		if err != nil {
			return nil, err
		}
		return []top.Source{{Client: control.NewClient(socket)}}, nil
	}
	args := remoteArgs(config, runtimeDir)
	for i, name := range hosts {
		if err := remote.CheckName(name); err != nil {
			return nil, fmt.Errorf("read --host: %w", err)
		}
		if slices.Contains(hosts[:i], name) {
			continue
		}
		h := &remote.Host{Name: name, SSH: os.Getenv("SUPERD_SSH"), Args: args, Timeout: connectTimeout}
		all = append(all, top.Source{Host: name, Client: control.NewClient(name, control.WithConnect(h.Dial))})
	}
	return all, nil
}

// remoteArgs returns the flags by which `superd ctl proxy` on another host finds its superd.
func remoteArgs(config, runtimeDir string) (args []string) {
	if config != "" {
		args = append(args, "--config", config)
	}
	if runtimeDir != "" {
		args = append(args, "--runtime-dir", runtimeDir)
	}
	return args
}

// anyAnswers returns an error if none of the sources answers, or none has the names. Later the
// screen waits for those that do not.
func anyAnswers(ctx context.Context, sources []top.Source, names []string) error {
	errs := make([]error, len(sources))
	var asked sync.WaitGroup
	for i, s := range sources {
		asked.Go(func() {
			_, errs[i] = s.Client.(*control.Client).Brief(ctx, names)
		})
	}
	asked.Wait()
	if slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(errs...)
}
