package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"superd/config"
	"superd/control/server"
)

func newCheckCommand() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and tell every mistake in it",
		Long: `Check reads the configuration as run does and tells every mistake and warning. Its exit status is 2
when there is a mistake.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return check(file, asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration `file`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of mistakes, each with file, line, column, key, message and severity")
	return cmd
}

func check(file string, asJSON bool, stdout, stderr io.Writer) error {
	path, programs, mistakes, warnings := inspect(file)
	if asJSON {
		all := slices.Concat(server.Mistakes(mistakes, "error"), server.Mistakes(warnings, "warning"))
		if err := printJSON(stdout, all); err != nil {
			return err
		}
	} else {
		verdict := stdout
		for _, m := range mistakes {
			fmt.Fprintln(stderr, m)
			verdict = stderr
		}
		for _, w := range warnings {
			fmt.Fprintln(stderr, "warning:", w)
		}
		report := count(len(mistakes), "mistake")
		if len(warnings) > 0 {
			report += ", " + count(len(warnings), "warning")
		}
		if path != "" {
			report = fmt.Sprintf("%s: %s, %s", path, count(programs, "program"), report)
		}
		fmt.Fprintln(verdict, report)
	}
	if len(mistakes) > 0 {
		return exitStatus(statusUsage)
	}
	return nil
}

// inspect reads a configuration and returns what is to be said of it. A file that can't be found is a mistake, too.
func inspect(file string) (path string, programs int, mistakes, warnings config.Errors) {
	path, err := config.Find(file, os.Getenv, os.Geteuid())
	if err != nil {
		return "", 0, config.Errors{{Err: err}}, nil
	}
	conf, err := config.Examine(path)
	if errs, ok := errors.AsType[config.Errors](err); ok {
		return path, 0, errs, nil
	}
	if err != nil {
		return path, 0, config.Errors{{File: path, Err: err}}, nil
	}
	return path, len(conf.Programs), conf.Errors, conf.Warnings
}

// printJSON prints an array with a value a line, so that a person can read it, too.
func printJSON[T any](w io.Writer, all []T) error {
	out := []byte("[")
	for i, v := range all {
		if i > 0 {
			out = append(out, ',')
		}
		line, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode JSON: %w", err)
		}
		out = append(append(out, '\n'), line...)
	}
	if len(all) > 0 {
		out = append(out, '\n')
	}
	_, err := w.Write(append(out, "]\n"...))
	return err
}
