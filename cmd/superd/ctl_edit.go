package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"superd/cmd/superd/edit"
	"superd/cmd/superd/report"
	"superd/config"
	"superd/config/places"
	"superd/control"
	"superd/internal/words"
)

func newEditCommand(flags *ctlFlags) *cobra.Command {
	var reload, noReload bool
	cmd := &cobra.Command{
		Use:   "edit [NAME]",
		Short: "Edit the file that defines a program",
		Long: `Edit opens a copy of the file that defines the program in $VISUAL or $EDITOR; without a name the
main file. When the editor ends, the whole configuration is checked. The file is replaced, with its
owner and mode, if there is no new mistake; otherwise you may edit again. Then edit shows what a
reload would change, and asks whether to reload.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: flags.completeFirst,
		RunE: func(cmd *cobra.Command, args []string) error {
			if reload && noReload {
				return usageError{errors.New("read flags: --reload and --no-reload cannot be combined")}
			}
			e := &edit.Edit{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
			client, err := flags.edited(cmd.Context(), e, args)
			if err != nil {
				return err
			}
			switch err := e.Run(cmd.Context()); {
			case errors.Is(err, edit.ErrUnchanged):
				fmt.Fprintln(cmd.OutOrStdout(), "nothing has changed")
				return nil
			case err != nil:
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: saved\n", e.File)
			if client == nil || noReload {
				return nil
			}
			return reloadEdited(cmd, client, e, reload)
		},
	}
	cmd.Flags().BoolVar(&reload, "reload", false, "reload without a question")
	cmd.Flags().BoolVar(&noReload, "no-reload", false, "do not reload, and do not ask")
	return cmd
}

// edited sets which file e edits. It returns a client of the superd that has the file in force; nil
// if none runs.
func (f *ctlFlags) edited(ctx context.Context, e *edit.Edit, names []string) (*control.Client, error) {
	client, err := f.client()
	if err != nil {
		client, err = nil, nil // the configuration may have a mistake, which is to be edited
	}
	var all []control.Configured
	if client != nil {
		if all, err = client.Config(ctx, names); errors.Is(err, control.ErrNoSuperd) {
			client, err = nil, nil
		}
	}
	switch {
	case err != nil:
		return nil, err
	case client == nil:
		return nil, f.editedFile(e, names)
	case len(all) == 0:
		return client, f.editedFile(e, nil)
	}
	e.Configuration, e.File = all[0].Configuration, all[0].Configuration
	if len(names) > 0 {
		e.File, e.Line = all[0].File, all[0].Line
	}
	for _, c := range all[1:] {
		if len(names) > 0 && c.File != e.File {
			return nil, fmt.Errorf("edit configuration: %s selects programs in several files, such as %s and %s: name one of them",
				names[0], e.File, c.File)
		}
	}
	return client, nil
}

// editedFile is edited without a running superd.
func (f *ctlFlags) editedFile(e *edit.Edit, names []string) error {
	path, err := places.Find(f.config, os.Getenv, os.Geteuid())
	if err == nil {
		e.Configuration, err = filepath.Abs(path)
	}
	if err != nil {
		return usageError{err}
	}
	if e.File = e.Configuration; len(names) == 0 {
		return nil
	}
	conf, err := config.Load(e.Configuration)
	if err != nil {
		return nil // no program is known: the main file has the mistake, or the include of it
	}
	var known []string
	for _, p := range conf.Programs {
		if p.Name == names[0] {
			e.File, e.Line = p.File, p.Line
			return nil
		}
		known = append(known, p.Name)
	}
	return fmt.Errorf("edit configuration: no program is named %q%s", names[0],
		words.DidYouMean(names[0], known, ": name none to edit the main file"))
}

// reloadEdited shows what a reload changes, and reloads.
func reloadEdited(cmd *cobra.Command, client *control.Client, e *edit.Edit, atOnce bool) error {
	result, err := client.DryReload(cmd.Context())
	if err != nil {
		return err
	}
	if !report.Differs(&result) {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "the configuration in force means the same: no reload is needed")
		return err
	}
	if err := report.Diff(cmd.OutOrStdout(), &result); err != nil {
		return err
	}
	if !atOnce {
		if yes, err := e.Ask("Reload now?", true); err != nil || !yes {
			fmt.Fprintln(cmd.OutOrStdout(), "not reloaded: `superd ctl reload` does that")
			return err
		}
	}
	if result, err = client.Reload(cmd.Context()); err != nil {
		return err
	}
	if result.Unrecorded != "" {
		printUnrecorded(cmd.ErrOrStderr(), "the configuration is in force", result.Unrecorded)
		return exitStatus(statusFailed)
	}
	return report.Reload(cmd.OutOrStdout(), &result)
}
