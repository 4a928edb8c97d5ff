package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/config"
	"superd/control"
)

// completionTimeout bounds what a shell waits for when it completes a name.
const completionTimeout = time.Second

// ctlFlags say which superd is meant.
type ctlFlags struct {
	config, runtimeDir string
}

func newCtlCommand(args []string) *cobra.Command {
	var flags ctlFlags
	cmd := &cobra.Command{
		Use:   "ctl",
		Short: "Ask or command a running superd",
		Long: `Ctl talks to the superd that runs with the same configuration and runtime directory.

NAME is a program, an instance such as web@2, a group, or a shell glob such as 'web*'. The exit status is
0 done, 1 failed, 2 wrong usage, 3 something asked for by name is not up, 4 no superd answers.`,
		Args: cobra.NoArgs,
		RunE: needCommand,
	}
	f := cmd.PersistentFlags()
	f.StringVarP(&flags.config, "config", "c", "", "configuration `file` that names the runtime directory")
	f.StringVar(&flags.runtimeDir, "runtime-dir", "", "`directory` of the control socket")
	of := func(newCommand func(*ctlFlags) *cobra.Command) func() *cobra.Command {
		return func() *cobra.Command { return newCommand(&flags) }
	}
	addNamed(cmd, args, []subcommand{
		{"status", of(newStatusCommand)},
		{"start", of(newStartCommand)},
		{"stop", of(newStopCommand)},
		{"restart", of(newRestartCommand)},
		{"signal", of(newSignalCommand)},
		{"logs", of(newLogsCommand)},
		{"why", of(newWhyCommand)},
		{"history", of(newHistoryCommand)},
		{"tree", of(newTreeCommand)},
		{"events", of(newEventsCommand)},
		{"scale", of(newScaleCommand)},
		{"reload", of(newReloadCommand)},
		{"shutdown", of(newShutdownCommand)},
		{"upgrade", of(newUpgradeCommand)},
		{"version", of(newCtlVersionCommand)},
	})
	return cmd
}

// client returns a client of the superd that is meant.
func (f *ctlFlags) client() (*control.Client, error) {
	path, err := f.socket()
	if err != nil {
		return nil, err
	}
	return control.NewClient(path), nil
}

func (f *ctlFlags) socket() (string, error) {
	conf, err := f.load()
	if err != nil {
		return "", err
	}
	dir, err := filepath.Abs(config.RuntimeDir(f.runtimeDir, conf, os.Getenv, os.Geteuid()))
	if err != nil {
		return "", fmt.Errorf("find runtime directory: %w", err)
	}
	return filepath.Join(dir, control.SocketName), nil
}

// load returns the configuration, or nil where it has no say in the runtime directory: it is not worth
// parsing a thousand programs to learn that.
func (f *ctlFlags) load() (*config.Config, error) {
	if f.runtimeDir != "" || f.config == "" && os.Getenv("SUPERD_RUNTIME_DIR") != "" {
		return nil, nil
	}
	path, err := config.Find(f.config, os.Getenv, os.Geteuid())
	if err != nil && f.config == "" {
		return nil, nil
	}
	if err != nil {
		return nil, usageError{err}
	}
	text, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(text, []byte("runtime_dir")) {
		return nil, nil
	}
	conf, err := config.Load(path)
	if err != nil {
		return nil, usageError{fmt.Errorf("find runtime directory: correct the configuration, or name the directory with --runtime-dir:\n%w", err)}
	}
	return conf, nil
}

// completeNames completes names of instances, from the superd that is meant.
func (f *ctlFlags) completeNames(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	client, err := f.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completionTimeout)
	defer cancel()
	all, err := client.Brief(ctx, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, b := range all {
		names = append(names, cobra.CompletionWithDesc(b.Name, b.State))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// needArgs refuses a command line that lacks any of these arguments; the last may be given several times.
func needArgs(arguments ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(arguments) {
			return fmt.Errorf("missing %s", strings.Join(arguments[len(args):], " and "))
		}
		return nil
	}
}

// printOutcomes prints what a command did, and fails if it did not do it everywhere.
func printOutcomes(outcomes []control.Outcome, stdout, stderr io.Writer) error {
	var err error
	for _, o := range outcomes {
		w := stdout
		if !o.OK {
			w, err = stderr, exitStatus(statusFailed)
		}
		fmt.Fprintf(w, "%s: %s\n", o.Name, o.Message)
	}
	return err
}
