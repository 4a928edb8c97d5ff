package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/config"
	"superd/config/places"
	"superd/control/mistakes"
	"superd/internal/terminal"
)

func newCheckCommand() *cobra.Command {
	var file string
	var asJSON, security bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Report every mistake in the configuration",
		Long: `Check reads the configuration as run does and reports every mistake and warning. Its exit status is
2 if there is a mistake. With --security it then lists what each program can do that most services
do not need, and the key that takes it away.

` + searchPath,
		Example: `  superd check
  superd check web.toml
  superd check --security
  superd check --json web.toml | python3 -m json.tool`,
		Args:              oneFile,
		ValidArgsFunction: completeTOML,
		RunE: func(cmd *cobra.Command, args []string) error {
			path := fileOf(args, file)
			if security {
				return checkSecurity(path, asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return check(path, asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	configFlag(cmd.Flags(), &file, "configuration `file`")
	cmd.Flags().BoolVar(&asJSON, "json", false,
		"print a JSON array of mistakes: file, line, column, key, message, severity")
	cmd.Flags().BoolVar(&security, "security", false,
		"list what programs can do that most do not need; as JSON: program, can, remedy")
	return cmd
}

func check(file string, asJSON bool, stdout, stderr io.Writer) error {
	path, programs, wrong, warnings := inspect(file)
	if asJSON {
		all := slices.Concat(mistakes.JSON(wrong, "error"), mistakes.JSON(warnings, "warning"))
		if err := report.JSON(stdout, all); err != nil {
			return err
		}
	} else {
		to := stdout
		for _, m := range wrong {
			fmt.Fprintln(stderr, sanitizeLines(m.Error()))
			to = stderr
		}
		for _, w := range warnings {
			fmt.Fprintln(stderr, "warning:", sanitizeLines(w.Error()))
		}
		report := count(len(wrong), "mistake")
		if len(warnings) > 0 {
			report += ", " + count(len(warnings), "warning")
		}
		if path != "" {
			report = fmt.Sprintf("%s: %s, %s", terminal.Sanitize(path), count(len(programs), "program"), report)
		}
		fmt.Fprintln(to, report)
	}
	if len(wrong) > 0 {
		return exitStatus(statusUsage)
	}
	return nil
}

// inspect reads a configuration and returns its path, programs, mistakes and warnings. A file that
// is not found is a mistake, too.
func inspect(file string) (path string, programs []*config.Program, mistakes, warnings config.Errors) {
	path, err := places.Find(file, os.Getenv, os.Geteuid())
	if err != nil {
		return "", nil, config.Errors{{Err: err}}, nil
	}
	conf, err := config.Examine(path)
	if errs, ok := errors.AsType[config.Errors](err); ok {
		return path, nil, errs, nil
	}
	if err != nil {
		return path, nil, config.Errors{{File: path, Err: err}}, nil
	}
	return path, conf.Programs, conf.Errors, conf.Warnings
}
