package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"superd/internal/words"
)

// execute runs the command that args name.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	// An error before the command itself begins is a wrong command line.
	begun := false
	root := newRootCommand(args)
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true }
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil || begun {
		return err
	}
	if _, ok := errors.AsType[suggestion](err); !ok {
		err = fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
	}
	return usageError{err}
}

// A suggestion is an error in a command line that names the likely correction.
type suggestion string

func (s suggestion) Error() string { return string(s) }

// newRootCommand returns the command superd with the subcommands that args may need.
func newRootCommand(args []string) *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "superd",
		Short: "Supervise programs",
		Long: `superd is a process supervisor. It starts the programs of a TOML file, restarts them when they
end, keeps their output, stops them with all their processes, and reports what happened and why.

` + searchPath + `

Each command of ` + "`superd ctl`" + ` also works without ctl, as in ` + "`superd status`" + `.
` + "`superd ctl --help`" + ` lists them.`,
		Example: `  superd check superd.toml     report every mistake in it
  superd run superd.toml       run its programs until Ctrl-C
  superd status                show what runs, from another terminal
  superd logs -f web           follow the output of web
  superd why web               explain its state`,
		Args:              refuseUnknownCommand,
		ValidArgsFunction: completeWithoutCtl,
		SilenceErrors:     true,
		SilenceUsage:      true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if showVersion {
				printVersion(cmd.OutOrStdout(), binaryOnly(ownVersion()))
				return nil
			}
			return needCommand(cmd, args)
		},
	}
	root.Flags().BoolVar(&showVersion, "version", false, "show the version of this binary")
	root.SetFlagErrorFunc(flagError)
	named := addNamed(root, args, slices.Concat(rootCommands(args), commandsWithoutCtl()))
	root.CompletionOptions.DisableDefaultCmd = named && !slices.Contains(args, "completion")
	return root
}

// searchPath is the paragraph of help texts on where superd looks for a configuration.
const searchPath = `The configuration is the FILE given, else ./superd.toml, else (unless root runs superd)
$XDG_CONFIG_HOME/superd/superd.toml (~/.config/superd/superd.toml), else /etc/superd/superd.toml.`

// A subcommand builds a command below another one.
type subcommand struct {
	name  string
	build func() *cobra.Command
}

// rootCommands returns the commands below superd that its help lists.
func rootCommands(args []string) []subcommand {
	return append([]subcommand{
		{"run", newRunCommand},
		{"check", newCheckCommand},
		{"ctl", func() *cobra.Command { return newCtlCommand(args) }},
		{"schema", newSchemaCommand},
		{"version", newVersionCommand},
	}, platformCommands...)
}

// commandsWithoutCtl returns the commands of ctl that work without ctl, hidden from help. ctl's
// version is not among them, since `superd version` is about the binary.
func commandsWithoutCtl() []subcommand {
	var all []subcommand
	var flags ctlFlags
	for _, c := range ctlCommands(&flags) {
		if c.name == "version" {
			continue
		}
		all = append(all, subcommand{c.name, func() *cobra.Command {
			cmd := c.build()
			cmd.Hidden = true
			flags.add(cmd.Flags())
			return cmd
		}})
	}
	return all
}

// completeWithoutCtl completes the commands that commandsWithoutCtl returns.
func completeWithoutCtl(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, c := range commandsWithoutCtl() {
		if strings.HasPrefix(c.name, word) {
			all = append(all, cobra.CompletionWithDesc(c.name, c.build().Short))
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// addNamed adds to parent the command that args begin with, or else all commands that args name at
// any place, and reports whether there are any. If there are none it adds all commands, for help,
// completion or an error. To build all of them would make a short command a tenth slower.
func addNamed(parent *cobra.Command, args []string, all []subcommand) bool {
	isNamed := func(c subcommand) bool { return slices.Contains(args, c.name) }
	if slices.ContainsFunc(all, func(c subcommand) bool { return len(args) > 0 && c.name == args[0] }) {
		isNamed = func(c subcommand) bool { return c.name == args[0] }
	}
	named := slices.ContainsFunc(all, isNamed)
	for _, c := range all {
		if !named || isNamed(c) {
			parent.AddCommand(c.build())
		}
	}
	return named
}

// needCommand runs a command that only has subcommands: it shows its help without examples, and
// fails.
func needCommand(cmd *cobra.Command, _ []string) error {
	cmd.SetOut(cmd.ErrOrStderr())
	cmd.Example = ""
	if err := cmd.Help(); err != nil {
		return err
	}
	return exitStatus(statusUsage)
}

// needCtlCommand is needCommand for ctl, whose commands with a line each would not fit a screen.
func needCtlCommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), "Usage: %s COMMAND\n\nAvailable Commands:\n%s\n\n"+
		"`%[1]s --help` says what each does.\n", cmd.CommandPath(), inLines(names, 80))
	if err != nil {
		return err
	}
	return exitStatus(statusUsage)
}

// inLines returns names in indented lines of at most width columns.
func inLines(names []string, width int) string {
	var text strings.Builder
	column := 0
	for _, name := range names {
		if column == 0 || column+1+len(name) > width {
			if column > 0 {
				text.WriteByte('\n')
			}
			text.WriteByte(' ')
			column = 1
		}
		text.WriteString(" " + name)
		column += 1 + len(name)
	}
	return text.String()
}

// refuseUnknownCommand returns an error for an unknown command. It suggests the nearest one, if
// there is any.
func refuseUnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	unknown := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if nearest := nearestCommand(cmd, args[0]); nearest != "" {
		return suggestion(fmt.Sprintf("%s: did you mean `%s`?", unknown, nearest))
	}
	return errors.New(unknown)
}

// nearestCommand returns the command line nearest to name, "" if none is similar.
func nearestCommand(cmd *cobra.Command, name string) string {
	own := []string{"help", "completion"}
	for _, c := range slices.Concat(rootCommands(nil), commandsWithoutCtl()) {
		if c.name != "clean-cgroup" {
			own = append(own, c.name)
		}
	}
	if cmd.HasParent() { // ctl
		below := []string{}
		for _, c := range ctlCommands(new(ctlFlags)) {
			below = append(below, c.name)
		}
		if nearest := words.Nearest(name, below); nearest != "" {
			return cmd.CommandPath() + " " + nearest
		}
	}
	if nearest := words.Nearest(name, own); nearest != "" {
		return "superd " + nearest
	}
	if info, err := os.Stat(name); filepath.Ext(name) == ".toml" || err == nil && info.Mode().IsRegular() {
		return "superd run " + name
	}
	return ""
}
