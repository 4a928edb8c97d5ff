package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/config"
	"superd/config/places"
	"superd/exporter"
	"superd/exporter/manifest"
	"superd/internal/safepath"
	"superd/internal/terminal"
)

// An exportCommand has the flags of `superd export`.
type exportCommand struct {
	config, output       string
	name, zone, binary   string
	images               []string
	strict, whole, force bool
}

func newExportCommand() *cobra.Command {
	var c exportCommand
	var formats strings.Builder
	var names []cobra.Completion
	for _, f := range exporter.Formats() {
		fmt.Fprintf(&formats, "\n  %-12s %s", f.Name, f.Description)
		names = append(names, cobra.CompletionWithDesc(f.Name, f.Description))
	}
	cmd := &cobra.Command{
		Use:   "export FORMAT [FILE]",
		Short: "Write a configuration as files for a cluster or for systemd",
		Long: `Export reads a configuration of superd and prints files for another supervisor or for a cluster:
` + formats.String() + `

A program becomes what is nearest to it there. Each key that has no counterpart, or means something
else, is named on standard error and in a comment of the file. With --whole, superd itself runs there
with all programs, which keeps the meaning of every key.

FILE is the configuration; without it, superd looks for one as superd run does. Export executes
nothing. superd import reads the files for Nomad and Kubernetes back.`,
		Example: `  superd export nomad > shop.nomad.hcl
  superd export kubernetes --image registry.example/shop:1 -o shop.yaml
  superd export systemd /etc/superd/superd.toml -o units/
  superd export nomad --whole --strict`,
		Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return names, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := exporter.Find(args[0])
			if err != nil {
				return usageError{err}
			}
			if len(args) == 2 {
				c.config = args[1]
			}
			return c.run(format, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&c.config, "config", "c", "", "configuration `file`")
	flags.StringVarP(&c.output, "output", "o", "", "write this `file`, or into this directory if it ends in /")
	flags.BoolVar(&c.force, "force", false, "replace files of --output")
	flags.BoolVar(&c.strict, "strict", false, "exit with status 1 if there is anything to say")
	flags.BoolVar(&c.whole, "whole", false, "export superd with the whole configuration")
	flags.StringVar(&c.name, "name", "", "`name` of the job, unit or stack; by default that of the file or its directory")
	flags.StringArrayVar(&c.images, "image", nil, "`image` of all containers, or PROGRAM=IMAGE")
	flags.StringVar(&c.zone, "time-zone", "", "time `zone` of schedules; by default that of this machine")
	flags.StringVar(&c.binary, "superd", "/usr/bin/superd", "`path` of superd there, with --whole")
	return cmd
}

func (c *exportCommand) run(format exporter.Format, stdout, stderr io.Writer) error {
	path, err := places.Find(c.config, os.Getenv, os.Geteuid())
	if err != nil {
		return usageError{err}
	}
	conf, err := config.Load(path)
	if mistakes, ok := errors.AsType[config.Errors](err); ok {
		return usageError{fmt.Errorf("read the configuration: %w", mistakes)}
	}
	if err != nil {
		return usageError{err}
	}
	if len(conf.Errors) > 0 {
		return usageError{fmt.Errorf("read the configuration: %w", conf.Errors)}
	}
	if len(conf.Programs) == 0 {
		return usageError{fmt.Errorf("read the configuration: %s has no programs to export", path)}
	}
	options, err := c.options(conf)
	if err != nil {
		return usageError{err}
	}
	export := format.Export
	if c.whole {
		export = format.Whole
	}
	result, err := export(conf, options)
	if err != nil {
		return err
	}
	for _, n := range result.Notes {
		fmt.Fprintln(stderr, terminal.Sanitize(n.String()))
	}
	if err := c.write(result, modeOf(conf.Files), stdout); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	if c.strict && len(result.Notes) > 0 {
		return fmt.Errorf("%d differences: see above", len(result.Notes))
	}
	return nil
}

// options returns what the configuration does not have.
func (c *exportCommand) options(conf *config.Config) (manifest.Options, error) {
	o := manifest.Options{Name: c.name, TimeZone: c.zone, Binary: c.binary, Images: map[string]string{}}
	if o.Name == "" {
		o.Name = nameOf(conf.Path)
	}
	if strings.Trim(o.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" ||
		strings.HasPrefix(o.Name, ".") || strings.HasPrefix(o.Name, "-") {
		return o, fmt.Errorf("%q can't be the name of the export: write --name with letters, digits, '.', '_' and '-'", o.Name)
	}
	if !filepath.IsAbs(o.Binary) {
		return o, fmt.Errorf("%q can't be the path of superd: write an absolute one", o.Binary)
	}
	if o.TimeZone == "" {
		o.TimeZone = localZone(os.Getenv, os.Readlink)
	}
	if _, err := time.LoadLocation(o.TimeZone); err != nil {
		return o, fmt.Errorf("read --time-zone: %w: write a name such as \"Europe/Berlin\"", err)
	}
	for _, text := range c.images {
		program, image, named := strings.Cut(text, "=")
		switch {
		case !named:
			program, image = "", text
		case conf.Program(program) == nil && (!c.whole || program != "superd"):
			return o, fmt.Errorf("read --image: there is no program %q: write PROGRAM=IMAGE", program)
		}
		if image == "" {
			return o, fmt.Errorf("read --image: %q has no image", text)
		}
		o.Images[program] = image
	}
	return o, nil
}

// nameOf returns the name of the export of a configuration: that of the file, or for superd.toml
// that of its directory.
func nameOf(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if abs, err := filepath.Abs(path); name == "superd" && err == nil {
		if dir := filepath.Base(filepath.Dir(abs)); dir != "/" && dir != "." {
			return strings.TrimLeft(dir, ".")
		}
	}
	return name
}

// localZone returns the name of this machine's time zone, UTC if it is not known.
func localZone(env func(string) string, readlink func(string) (string, error)) string {
	if zone := strings.TrimPrefix(env("TZ"), ":"); zone != "" {
		return zone
	}
	target, err := readlink("/etc/localtime")
	if _, zone, ok := strings.Cut(target, "/zoneinfo/"); ok && err == nil {
		return zone
	}
	return "UTC"
}

// modeOf returns the mode for files with what is in others: an environment may have passwords.
func modeOf(files []string) fs.FileMode {
	mode := fs.FileMode(0o644)
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			mode &= info.Mode() | 0o200
		}
	}
	return mode
}

// write prints the files, or writes them to where --output says.
func (c *exportCommand) write(e *manifest.Export, mode fs.FileMode, stdout io.Writer) error {
	if c.output == "" {
		for i, f := range e.Files {
			if len(e.Files) > 1 {
				separator := "\n"
				if i == 0 {
					separator = ""
				}
				if _, err := fmt.Fprintf(stdout, "%s# %s\n", separator, f.Name); err != nil {
					return err
				}
			}
			if _, err := io.WriteString(stdout, f.Text); err != nil {
				return err
			}
		}
		return nil
	}
	info, err := os.Stat(c.output)
	isDir := err == nil && info.IsDir() || strings.HasSuffix(c.output, "/")
	switch {
	case isDir && err != nil:
		if err := os.MkdirAll(c.output, 0o755); err != nil {
			return err
		}
	case !isDir && len(e.Files) > 1:
		return fmt.Errorf("these are %d files: name a directory, as in -o %s/", len(e.Files), c.output)
	case !isDir:
		return writeText(c.output, e.Files[0].Text, mode, c.force)
	}
	for _, f := range e.Files { // no file is written if one is in the way
		if _, err := os.Stat(filepath.Join(c.output, f.Name)); err == nil && !c.force {
			return fmt.Errorf("%s is there already: --force replaces it", filepath.Join(c.output, f.Name))
		}
	}
	for _, f := range e.Files {
		if err := writeText(filepath.Join(c.output, f.Name), f.Text, mode, c.force); err != nil {
			return err
		}
	}
	return nil
}

// writeText writes a file at once. What is no regular file, such as /dev/stdout, gets the text.
func writeText(path, text string, mode fs.FileMode, force bool) error {
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return os.WriteFile(path, []byte(text), mode)
	case err == nil && !force:
		return fmt.Errorf("%s is there already: --force replaces it", path)
	case err == nil: // replace what a link leads to, not the link
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	return safepath.WriteFile(path, []byte(text), mode)
}
