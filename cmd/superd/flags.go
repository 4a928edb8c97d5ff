package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"superd/config/codec"
	"superd/internal/words"
)

// A durationFlag is the value of a flag that takes a duration as the configuration does.
type durationFlag time.Duration

// durationVar defines a flag that takes a duration, or 0 without a unit. usual is its default.
func durationVar(f *pflag.FlagSet, d *time.Duration, name string, usual time.Duration, usage string) {
	*d = usual
	f.Var((*durationFlag)(d), name, usage)
}

// Set parses the flag's argument.
func (d *durationFlag) Set(text string) error {
	if text == "0" {
		*d = 0
		return nil
	}
	parsed, err := codec.ParseDuration(text)
	if err == nil && parsed < 0 {
		err = fmt.Errorf("must not be negative, got %s", text)
	}
	if err == nil {
		*d = durationFlag(parsed)
	}
	return err
}

// String returns the value for help, nothing for 0.
func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type returns the name of a value in help.
func (d *durationFlag) Type() string { return "duration" }

// flagError returns the error for a wrong flag, with the nearest flag if there is one.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := e.GetFlag()
		if flag.Value.Type() == "bool" {
			return fmt.Errorf("read --%s: want true or false, got %q", flag.Name, e.GetValue())
		}
		return fmt.Errorf("read --%s: %w", flag.Name, e.Unwrap())
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok && e.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		unknown := fmt.Sprintf("unknown flag --%s", e.GetSpecifiedName())
		if nearest := words.Nearest(e.GetSpecifiedName(), names); nearest != "" {
			return suggestion(fmt.Sprintf("%s: did you mean --%s?", unknown, nearest))
		}
		return errors.New(unknown)
	}
	return err
}

// oneFile refuses more than one configuration file, as arguments or with -c.
func oneFile(cmd *cobra.Command, args []string) error {
	if named := cmd.Flags().Changed("config"); len(args) > 1 || len(args) == 1 && named {
		if named {
			args = append([]string{cmd.Flag("config").Value.String()}, args...)
		}
		return fmt.Errorf("more than one configuration file given, %s: give one, whose key include may list others",
			strings.Join(args, " and "))
	}
	return nil
}

// fileOf returns the file named by args, or else by -c, or else "". [oneFile] has checked args.
func fileOf(args []string, flag string) string {
	if len(args) > 0 {
		return args[0]
	}
	return flag
}

// completeTOML completes configuration files.
func completeTOML(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []cobra.Completion{"toml"}, cobra.ShellCompDirectiveFilterFileExt
}

// configFlag defines -c and --config.
func configFlag(f *pflag.FlagSet, file *string, usage string) {
	f.StringVarP(file, "config", "c", "", usage)
	_ = cobra.MarkFlagFilename(f, "config", "toml") // no error: the flag is defined
}
