package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"superd/cmd/superd/attach"
	"superd/cmd/superd/fleet"
	"superd/cmd/superd/receivers"
	"superd/cmd/superd/report"
	"superd/control"
	"superd/control/locate"
	"superd/internal/terminal"
)

// completionTimeout bounds the completion of a name in a shell.
const completionTimeout = time.Second

// ctlFlags select the superd to talk to.
type ctlFlags struct {
	config, runtimeDir string
	host               fleet.Flags
}

func newCtlCommand(args []string) *cobra.Command {
	var flags ctlFlags
	cmd := &cobra.Command{
		Use:   "ctl",
		Short: "Control a running superd",
		Long: `Ctl talks to the superd of the same configuration or runtime directory. "ctl" may be left out.

Without a command, in a terminal, it reads commands at a prompt.

NAME is a program, an instance such as web@2, a group, or a shell glob such as 'web*'. Exit status:
0 done, 1 failed, 2 wrong usage, 3 a named program is not up, 4 no superd answers.`,
		Example: `  superd ctl status             all programs
  superd ctl restart web@2 db   an instance and a program
  superd ctl logs -f 'web*'     output of all whose names begin with web
  superd ctl events --since 1h  what happened in the last hour
  superd ctl --host a,b status  all programs of two hosts, by ssh`,
		Args:              refuseUnknownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              flags.prompt,
	}
	flags.add(cmd.PersistentFlags())
	addNamed(cmd, args, ctlCommands(&flags))
	return cmd
}

// add defines the flags in set.
func (f *ctlFlags) add(set *pflag.FlagSet) {
	configFlag(set, &f.config, "configuration `file` that names the runtime directory")
	set.StringVar(&f.runtimeDir, "runtime-dir", "", "`directory` of the control socket")
	_ = cobra.MarkFlagDirname(set, "runtime-dir") // no error: the flag is defined
	addHostFlags(&f.host, set)
}

// ctlCommands returns the commands below ctl.
func ctlCommands(flags *ctlFlags) []subcommand {
	of := func(newCommand func(*ctlFlags) *cobra.Command) func() *cobra.Command {
		return func() *cobra.Command { return flags.onHosts(newCommand) }
	}
	here := func(newCommand func(*ctlFlags) *cobra.Command) func() *cobra.Command {
		return func() *cobra.Command { return flags.hereOnly(newCommand) }
	}
	return []subcommand{
		{"status", of(newStatusCommand)},
		{"ready", of(newReadyCommand)},
		{"is-active", of(func(f *ctlFlags) *cobra.Command { return f.systemctl().IsActive() })},
		{"is-failed", of(func(f *ctlFlags) *cobra.Command { return f.systemctl().IsFailed() })},
		{"show", of(func(f *ctlFlags) *cobra.Command { return f.systemctl().Show() })},
		{"list-dependencies", of(func(f *ctlFlags) *cobra.Command { return f.systemctl().ListDependencies() })},
		{"start", of(newStartCommand)},
		{"stop", of(newStopCommand)},
		{"restart", of(newRestartCommand)},
		{"continue", of(newContinueCommand)},
		{"undo", of(newUndoCommand)},
		{"signal", of(newSignalCommand)},
		{"logs", of(newLogsCommand)},
		{"why", of(newWhyCommand)},
		{"history", of(newHistoryCommand)},
		{"tree", of(newTreeCommand)},
		{"exec", here(newExecCommand)},
		{"shell", here(newShellCommand)},
		{"attach", here(func(f *ctlFlags) *cobra.Command { return attach.Command(f.client, f.completeFirst) })},
		{"sockets", of(newSocketsCommand)},
		{"events", of(newEventsCommand)},
		{"notify", of(func(f *ctlFlags) *cobra.Command { return receivers.Command(f.client, exitStatus(statusFailed)) })},
		{"scale", of(newScaleCommand)},
		{"reload", of(newReloadCommand)},
		{"diff", of(newDiffCommand)},
		{"cat", of(newCatCommand)},
		{"edit", here(newEditCommand)},
		{"enable", of(newEnableCommand)},
		{"disable", of(newDisableCommand)},
		{"reset-failed", of(newResetFailedCommand)},
		{"wait", of(newWaitCommand)},
		{"shutdown", of(newShutdownCommand)},
		{"upgrade", of(newUpgradeCommand)},
		{"version", of(newCtlVersionCommand)},
		{"proxy", here(newProxyCommand)},
	}
}

// client returns a client of the superd that the flags select.
func (f *ctlFlags) client() (*control.Client, error) {
	if h := f.host.Single; h != nil {
		return control.NewClient(h.Name, control.WithConnect(h.Dial)), nil
	}
	path, err := f.socket()
	if err != nil {
		return nil, err
	}
	return control.NewClient(path), nil
}

// proxyArgs returns the flags that select the same superd on another host.
func (f *ctlFlags) proxyArgs() (args []string) {
	if f.config != "" {
		args = append(args, "--config", f.config)
	}
	if f.runtimeDir != "" {
		args = append(args, "--runtime-dir", f.runtimeDir)
	}
	return args
}

func (f *ctlFlags) socket() (string, error) {
	path, err := locate.Socket(f.config, f.runtimeDir)
	if err != nil {
		return "", usageError{err}
	}
	return path, nil
}

// completeNames completes names of instances. It asks the superd that the flags select.
func (f *ctlFlags) completeNames(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	client, err := f.client()
	if err != nil || f.host.Given() { // ssh would take too long
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

// needArgs returns a check that refuses a command line without all of these arguments. The last one
// may be repeated.
func needArgs(arguments ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(arguments) {
			return fmt.Errorf("missing %s", strings.Join(arguments[len(args):], " and "))
		}
		return nil
	}
}

// printUnrecorded warns that what was done is not in the journal: a crash of superd would undo it.
func printUnrecorded(stderr io.Writer, done, cause string) {
	fmt.Fprintf(stderr, "%s, but not recorded, so a crash of superd undoes it: %s\n", done, cause)
}

// printResults prints the result of a command for each instance. It returns an error if the command
// failed for any of them.
func printResults(results []control.CommandResult, stdout, stderr io.Writer) error {
	for _, o := range results {
		w := stdout
		if !o.OK {
			w = stderr
		}
		fmt.Fprintf(w, "%s: %s\n", terminal.Sanitize(o.Name), report.OneLine(o.Message))
		for _, line := range o.Output {
			fmt.Fprintf(w, "  %s\n", terminal.Sanitize(line))
		}
	}
	return commandStatus(results)
}

// commandStatus returns the error that stands for the exit status: nil if the command did not fail.
func commandStatus(results []control.CommandResult) error {
	if slices.ContainsFunc(results, func(o control.CommandResult) bool { return !o.OK }) {
		return exitStatus(statusFailed)
	}
	return nil
}
