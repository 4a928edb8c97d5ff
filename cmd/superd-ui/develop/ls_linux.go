package develop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
	"superd/develop/project"
	"superd/internal/terminal"
)

// answerTimeout is how long ls waits for the superd of a project.
const answerTimeout = 2 * time.Second

// A listed project is a row of ls.
type listed struct {
	Name       string        `json:"name"`
	Directory  string        `json:"directory"`
	File       string        `json:"file"`
	State      project.State `json:"state"`
	Background bool          `json:"background"`
	Pid        int           `json:"pid"` // of the process that superd up has started; 0: unknown
	RuntimeDir string        `json:"runtime_dir"`
	Programs   []program     `json:"programs"` // never null
}

type program struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

func (e Errors) newLs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the projects that superd up runs",
		Long: `Ls lists the projects of this user that run, with their programs. A project is killed if its superd
was killed: superd up -f FILE takes over its programs, superd down -f FILE ends them.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			projects, err := project.Own().All()
			if err != nil {
				return err
			}
			all := []listed{}
			for _, p := range projects {
				if state := p.State(); state != project.Ended {
					all = append(all, examine(cmd.Context(), p, state))
				}
			}
			if asJSON {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(all)
			}
			return printProjects(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// examine asks the superd of a project.
func examine(ctx context.Context, p *project.Project, state project.State) listed {
	l := listed{
		Name: p.Name, Directory: p.Directory, File: p.File, State: state, Background: p.Background,
		RuntimeDir: p.RuntimeDir(), Programs: []program{},
	}
	if state != project.Running {
		return l
	}
	client := control.NewClient(p.Socket(), control.WithTimeout(answerTimeout), control.WithRepeat(0))
	if v, err := client.Version(ctx); err == nil {
		if l.Pid = v.Pid; v.KeeperPid != nil {
			l.Pid = *v.KeeperPid
		}
	}
	instances, _ := client.Brief(ctx, nil) // one that has ended meanwhile has none
	for _, i := range instances {
		l.Programs = append(l.Programs, program{i.Name, i.State})
	}
	return l
}

func printProjects(w io.Writer, all []listed) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no project runs: `superd up` runs one")
		return err
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "PROJECT"}, {Title: "STATE"}, {Title: "PID", Right: true, Rank: 2}, {Title: "FILE", Rank: 1}, {Title: "PROGRAMS"},
	}}
	for _, l := range all {
		pid, colour := "", terminal.Red
		if l.Pid > 0 {
			pid = strconv.Itoa(l.Pid)
		}
		if l.State == project.Running {
			colour = terminal.Green
		}
		state := string(l.State)
		if l.Background {
			state += ", in background"
		}
		t.Add(
			terminal.Cell{Text: terminal.Sanitize(l.Name)}, terminal.Cell{Text: state, Colour: colour}, terminal.Cell{Text: pid},
			terminal.Cell{Text: terminal.Sanitize(shorten(l.File))}, terminal.Cell{Text: terminal.Sanitize(summary(l.Programs))},
		)
	}
	_, err := w.Write(t.Text(terminal.Detect(w, os.Getenv)))
	return err
}

// shorten writes the user's own directory as ~.
func shorten(path string) string {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		if below, ok := strings.CutPrefix(path, home+"/"); ok {
			return "~/" + below
		}
	}
	return path
}

// summary names the programs by state, such as "running: db, web@1; failed: worker".
func summary(all []program) string {
	byState := map[string][]string{}
	for _, p := range all {
		byState[p.State] = append(byState[p.State], p.Name)
	}
	states := sorted(byState)
	slices.SortStableFunc(states, func(a, b string) int { return len(byState[b]) - len(byState[a]) })
	parts := make([]string, len(states))
	for i, state := range states {
		parts[i] = state + ": " + strings.Join(byState[state], ", ")
	}
	return strings.Join(parts, "; ")
}
