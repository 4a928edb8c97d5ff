package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"superd/importer"
	"superd/importer/draft"
	"superd/internal/terminal"
)

func newImportCommand() *cobra.Command {
	var o importOptions
	var formats strings.Builder
	var names []cobra.Completion
	for _, f := range importer.Formats() {
		fmt.Fprintf(&formats, "\n  %-16s %s", f.Name, f.Description)
		names = append(names, cobra.CompletionWithDesc(f.Name, f.Description))
	}
	cmd := &cobra.Command{
		Use:   "import [FORMAT] FILE",
		Short: "Make a configuration from the files of another supervisor",
		Long: `Import reads the configuration of another supervisor and prints one of superd, with the comments of
the source. On standard error it says of each key that has no counterpart, means something else, or
is ignored by the other supervisor itself, what it is and what to do. It executes nothing.

The format is one of these, and is guessed from the name and the contents of FILE if it is left out:
` + formats.String() + `

Paths in FILE stay relative if the result is for the directory of FILE: that of --output, or else
the current one.`,
		Example: `  superd import supervisord /etc/supervisor/supervisord.conf -o superd.toml
  superd import procfile Procfile > superd.toml
  superd import --included my.service -o /etc/superd/conf.d/my.toml
  superd import --strict compose.yaml > /dev/null
  superd run --from Procfile`,
		Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return names, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			format, path, err := source(args)
			if err != nil {
				return usageError{err}
			}
			return importFile(format, path, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "write this `file` instead of printing")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace the file of --output")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "exit with status 1 if there is anything to say")
	cmd.Flags().BoolVar(&o.included, "included", false,
		"make a file that another one includes, as those of conf.d: without [defaults]")
	return cmd
}

// importOptions are the flags of import.
type importOptions struct {
	output                  string
	strict, force, included bool
}

// source returns what the arguments name: a format and a file, or a file alone.
func source(args []string) (importer.Format, string, error) {
	path := args[len(args)-1]
	if len(args) == 2 {
		format, err := importer.Find(args[0])
		return format, path, err
	}
	if _, err := importer.Find(path); err == nil {
		if _, err := os.Stat(path); err != nil {
			return importer.Format{}, "", fmt.Errorf("%q is a format: name the file behind it", path)
		}
	}
	format, err := importer.Detect(path)
	return format, path, err
}

// importFile prints a configuration, or writes it into a file.
func importFile(format importer.Format, path string, o importOptions, stdout, stderr io.Writer) error {
	target := "."
	if o.output != "" {
		target = filepath.Dir(o.output)
	}
	doc, err := importer.Import(format, path, target)
	if err == nil && o.included {
		err = doc.Include(path)
	}
	if err != nil {
		return err
	}
	printNotes(stderr, doc)
	if o.output == "" {
		if _, err := io.WriteString(stdout, doc.TOML()); err != nil {
			return err
		}
	} else {
		if err := writeText(o.output, doc.TOML(), doc.Mode, o.force); err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
	}
	if o.strict && len(doc.Notes) > 0 {
		return fmt.Errorf("%d differences: see above", len(doc.Notes))
	}
	return nil
}

func printNotes(w io.Writer, doc *draft.Document) {
	for _, n := range doc.Notes {
		fmt.Fprintln(w, terminal.Sanitize(n.String()))
	}
}
