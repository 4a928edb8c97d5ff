package ui

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// uiName is the name of the binary with the commands that need large libraries. superd executes it,
// so that neither the supervisor nor `superd ctl` links them.
const uiName = "superd-ui"

// Metrics returns the command `superd metrics`.
func Metrics() *cobra.Command {
	return uiCommand("metrics", "Print or serve metrics for Prometheus")
}

// Web returns the command `superd web`.
func Web() *cobra.Command {
	return uiCommand("web", "Show programs in a browser")
}

// Top returns the command `superd top`.
func Top() *cobra.Command {
	return uiCommand("top", "Show programs on a screen that follows them")
}

// Import returns the command `superd import`.
func Import() *cobra.Command {
	return uiCommand("import", "Make a configuration from the files of another supervisor")
}

// Export returns the command `superd export`.
func Export() *cobra.Command {
	return uiCommand("export", "Write a configuration as files for a cluster or for systemd")
}

// Up returns the command `superd up`.
func Up() *cobra.Command {
	return developCommand("up", "Run the programs of a project for development")
}

// Down returns the command `superd down`.
func Down() *cobra.Command { return developCommand("down", "End a project that superd up runs") }

// Ls returns the command `superd ls`.
func Ls() *cobra.Command { return developCommand("ls", "List the projects that superd up runs") }

// Init returns the command `superd init`.
func Init() *cobra.Command {
	return developCommand("init", "Write a first superd.toml for this directory")
}

// developCommand returns a command that gets the path of this program, which it executes.
func developCommand(name, short string) *cobra.Command {
	cmd := uiCommand(name, short)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		own, err := os.Executable()
		if err != nil {
			return fmt.Errorf("run superd %s: %w", name, err)
		}
		return executeUI(name, append([]string{"--superd=" + own}, args...))
	}
	return cmd
}

// RunFrom runs what --from names: superd-ui imports it, and executes this program with the result
// and the other flags of the command line.
func RunFrom(from string, flags *pflag.FlagSet) error {
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("run %s: %w", from, err)
	}
	args := []string{"--", from, own}
	flags.Visit(func(f *pflag.Flag) {
		if f.Name != "from" {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return executeUI("run-from", args)
}

// uiCommand returns the command of superd-ui with that name, which parses its arguments itself.
func uiCommand(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              short,
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return executeUI(name, args) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			complete := cobra.ShellCompRequestCmd
			if slices.Contains(os.Args, cobra.ShellCompNoDescRequestCmd) {
				complete = cobra.ShellCompNoDescRequestCmd
			}
			args = append(append([]string{name}, args...), word)
			_ = executeUI(complete, args) // returns if there is no superd-ui only
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// executeUI replaces this process by superd-ui.
func executeUI(name string, args []string) error {
	path, err := findUI()
	if err != nil {
		return fmt.Errorf("run superd %s: %w", name, err)
	}
	err = unix.Exec(path, append([]string{uiName, name}, args...), os.Environ())
	return fmt.Errorf("run superd %s: execute %s: %w", name, path, err)
}

// findUI finds superd-ui beside this executable, else in PATH.
func findUI() (path string, err error) {
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", uiName, err)
	}
	if path, err = exec.LookPath(filepath.Join(filepath.Dir(own), uiName)); err == nil {
		return path, nil
	}
	if path, err = exec.LookPath(uiName); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("no %s beside %s or in PATH: install it there, it has this command", uiName, own)
}
