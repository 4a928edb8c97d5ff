// Package systemctl has the commands of superd ctl that users of systemctl expect: is-active,
// is-failed, show, list-dependencies and the detailed status. Their words, exit statuses and forms
// are those of systemctl(1).
package systemctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
)

// A CLI is what the commands need of superd ctl.
type CLI struct {
	Client   func() (*control.Client, error) // of the superd that the flags select
	Complete cobra.CompletionFunc            // completes names of instances
	Exit     func(status int) error          // ends superd with a status, without a message
	Wrong    func(error) error               // marks a mistake in the command line
}

// States as systemctl has them.
const (
	active       = "active"
	inactive     = "inactive"
	activating   = "activating"
	deactivating = "deactivating"
	failed       = "failed"
)

// stateOf returns the state of an instance.
func stateOf(s *control.Status) string {
	switch s.State {
	case control.StateRunning:
		return active
	case control.StateStarting, control.StateBackoff:
		return activating
	case control.StateStopping:
		return deactivating
	case control.StateFailed:
		return failed
	case control.StateWaiting:
		if k := s.ReasonKind; k == nil || *k != control.ReasonWaitsForSchedule && *k != control.ReasonWaitsForConnection {
			return activating
		}
	}
	return inactive
}

// joined returns the state of all instances together: active only if each is.
func joined(all []control.Status) string {
	var states []string
	for i := range all {
		states = append(states, stateOf(&all[i]))
	}
	for _, state := range []string{failed, deactivating, activating, inactive} {
		if slices.Contains(states, state) {
			return state
		}
	}
	if len(states) == 0 {
		return inactive
	}
	return active
}

// A nameState is the state of what a name stands for.
type nameState struct {
	Name   string `json:"name"`
	Active string `json:"active"` // as systemctl has it
	// Those of its instances; none: there is nothing of this name
	States []string `json:"states"`
}

// IsActive returns the command is-active.
func (c *CLI) IsActive() *cobra.Command {
	return c.question("is-active", "Say whether programs are active, as systemctl does",
		`Is-active prints a word for each name: active, activating (it starts, or waits for a dependency or
its next attempt), deactivating, inactive or failed. For several instances it is active only if all
are. The exit status is 0 if at least one name is active, else 3.`, active, 3)
}

// IsFailed returns the command is-failed.
func (c *CLI) IsFailed() *cobra.Command {
	return c.question("is-failed", "Say whether programs have failed, as systemctl does",
		`Is-failed prints a word for each name, as is-active does. For several instances it is failed if any
is. The exit status is 0 if at least one name is failed, else 1.`, failed, 1)
}

func (c *CLI) question(verb, short, long, wanted string, otherwise int) *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:               verb + " NAME...",
		Short:             short,
		Long:              long,
		Args:              needName,
		ValidArgsFunction: c.Complete,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := c.Client()
			if err != nil {
				return err
			}
			var all []nameState
			for _, name := range names {
				state, absence, err := ask(cmd.Context(), client, name)
				if err != nil {
					return err
				}
				if absence != "" && !quiet {
					fmt.Fprintf(cmd.ErrOrStderr(), "superd: %s\n", absence)
				}
				all = append(all, state)
			}
			switch {
			case quiet:
			case asJSON:
				err = report.JSON(cmd.OutOrStdout(), all)
			default:
				for _, state := range all {
					fmt.Fprintln(cmd.OutOrStdout(), state.Active)
				}
			}
			if err == nil && !slices.ContainsFunc(all, func(s nameState) bool { return s.Active == wanted }) {
				err = c.Exit(otherwise)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing: the exit status says it")
	return cmd
}

// ask returns the state of what a name stands for. Nothing of this name is inactive, as for
// systemctl; absence says that there is nothing.
func ask(ctx context.Context, client *control.Client, name string) (state nameState, absence string, err error) {
	all, err := client.Status(ctx, []string{name})
	if e, ok := errors.AsType[*control.Error](err); ok && e.Status == http.StatusNotFound {
		all, absence, err = nil, e.Error(), nil
	} else if len(all) == 0 {
		absence = noInstances(name)
	}
	state = nameState{Name: name, Active: joined(all), States: []string{}}
	for i := range all {
		state.States = append(state.States, all[i].State)
	}
	return state, absence, err
}

// Empty returns the names, each once, of which there are programs but no instances in all, which is
// the status of what the names select.
func Empty(names []string, all []control.Status) (empty []string) {
	for _, name := range names {
		is := func(s control.Status) bool { return isNamed(name, &s) || slices.Contains(s.Groups, name) }
		if !isGlob(name) && !slices.Contains(empty, name) && !slices.ContainsFunc(all, is) {
			empty = append(empty, name)
		}
	}
	return empty
}

// PrintEmpty names the programs and groups without instances.
func PrintEmpty(w io.Writer, empty []string) {
	for _, name := range empty {
		fmt.Fprintf(w, "superd: %s\n", noInstances(name))
	}
}

func noInstances(name string) string {
	return terminal.Sanitize(name) + " has no instances: see `superd ctl scale`"
}

// Single reports whether each name is that of a program or an instance, and not of a group or a
// glob, which may stand for many. all is the status of what the names select.
func Single(names []string, all []control.Status) bool {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(s control.Status) bool { return isNamed(name, &s) }) {
			return false
		}
	}
	return len(names) > 0
}

func isNamed(name string, s *control.Status) bool { return s.Name == name || s.Program == name }

func isGlob(name string) bool { return strings.ContainsAny(name, "*?[\\") }

func needName(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("missing NAME")
	}
	return nil
}
