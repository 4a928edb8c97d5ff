package develop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"superd/develop/project"
	"superd/internal/terminal"
)

func (e Errors) newDown() *cobra.Command {
	var file string
	var all bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End a project that superd up runs",
		Long: `Down stops the programs of the project of the working directory, or of the nearest directory above
it, and ends its superd. It returns when nothing of it runs.`,
		Example: `  superd down
  superd down -f ~/shop/Procfile.dev
  superd down --all`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return e.Usage(fmt.Errorf("down %s: down takes no name: name the file of a project, or its directory, with -f", terminal.Sanitize(args[0])))
			case all && file != "":
				return e.Usage(errors.New("down --all: it ends all projects: leave out --file"))
			}
			superd, err := superdOf(cmd)
			if err != nil {
				return err
			}
			projects, err := toEnd(file, all)
			if err != nil {
				return e.Usage(err)
			}
			if len(projects) == 0 && all {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "no project runs")
				return err
			}
			if len(projects) == 0 {
				return e.None(errors.New("no project of this directory runs: see `superd ls`"))
			}
			var errs error
			for _, p := range projects {
				errs = errors.Join(errs, endProject(cmd.Context(), superd, p, cmd.OutOrStdout(), cmd.ErrOrStderr()))
			}
			return errs
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the project's `file`, or its directory")
	cmd.Flags().BoolVar(&all, "all", false, "end all projects of this user")
	return cmd
}

// toEnd returns the projects that run: all, that of a file, or those of a directory.
func toEnd(file string, all bool) (found []*project.Project, err error) {
	home := project.Own()
	switch info, statErr := os.Stat(file); {
	case all:
		found, err = home.All()
	case file == "":
		var p *project.Project
		if p, err = home.Current(); p != nil {
			found = append(found, p)
		}
	case statErr == nil && info.IsDir():
		found, err = home.In(file)
	default:
		var p *project.Project
		if p, err = home.At(file); p != nil {
			found = append(found, p)
		}
	}
	var running []*project.Project
	for _, p := range found {
		if p.State() != project.Ended {
			running = append(running, p)
		}
	}
	return running, err
}

// endProject ends the superd of a project. If that was killed, another one takes over its programs
// first.
func endProject(ctx context.Context, superd string, p *project.Project, stdout, stderr io.Writer) error {
	if p.State() == project.Killed {
		if err := p.Prepare(); err != nil {
			return err
		}
		if _, err := begin(ctx, superd, p); err != nil {
			return fmt.Errorf("end %s: %w", terminal.Sanitize(p.File), err)
		}
	}
	cmd := exec.CommandContext(ctx, superd, "ctl", "--runtime-dir="+p.RuntimeDir(), "shutdown")
	cmd.Stderr = stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("end %s: %w", terminal.Sanitize(p.File), err)
	}
	if lock, err := p.Lock(); err == nil { // nobody starts it again
		err := os.RemoveAll(p.Dir())
		lock.Close()
		if err != nil {
			return fmt.Errorf("remove what is left of the project: %w", err)
		}
	}
	fmt.Fprintf(stdout, "%s has ended\n", terminal.Sanitize(p.File))
	return nil
}
