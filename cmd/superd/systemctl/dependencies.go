package systemctl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
)

// A node is a program in a tree of dependencies.
type node struct {
	Name  string `json:"name"`
	State string `json:"state"` // as superd has it, of its worst instance; empty: it has none
	After bool   `json:"after"` // only an ordering leads to it
	// What is below it stands where it came first in this tree
	Repeated bool   `json:"repeated"`
	Below    []node `json:"below"` // never null
}

// A graph is the programs of a configuration with what each needs.
type graph struct {
	requires, after map[string][]string
	states          map[string][]control.Status
}

// ListDependencies returns the command list-dependencies.
func (c *CLI) ListDependencies() *cobra.Command {
	var asJSON, reverse, after bool
	cmd := &cobra.Command{
		Use:   "list-dependencies [NAME...]",
		Short: "Show what programs require, as a tree",
		Long: `List-dependencies shows the programs that a program requires, and what these require, as a tree.
With --reverse it shows those that require it, and with --after also those that it is only ordered
after. Without names it shows the programs that no other requires. Groups and instances stand for
their programs.`,
		ValidArgsFunction: c.Complete,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := c.Client()
			if err != nil {
				return err
			}
			trees, err := dependencies(cmd.Context(), client, names, reverse, after)
			if err != nil {
				return err
			}
			if asJSON {
				return report.JSON(cmd.OutOrStdout(), trees)
			}
			return printTrees(cmd.OutOrStdout(), trees)
		},
	}
	cmd.Flags().BoolVar(&reverse, "reverse", false, "show those that require it")
	cmd.Flags().BoolVar(&after, "after", false, "show orderings, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of trees")
	return cmd
}

func dependencies(ctx context.Context, client *control.Client, names []string, reverse, after bool) ([]node, error) {
	configured, err := client.Config(ctx, nil)
	if err != nil {
		return nil, err
	}
	named := configured
	if len(names) > 0 {
		if named, err = client.Config(ctx, names); err != nil {
			return nil, err
		}
	}
	statuses, err := client.Status(ctx, nil)
	if err != nil {
		return nil, err
	}
	g := graph{map[string][]string{}, map[string][]string{}, map[string][]control.Status{}}
	for _, s := range statuses {
		g.states[s.Program] = append(g.states[s.Program], s)
	}
	required := map[string]bool{}
	for _, p := range configured {
		var file struct {
			Program map[string]struct{ Requires, After []string }
		}
		if _, err := toml.Decode(p.Text, &file); err != nil {
			return nil, fmt.Errorf("read the configuration of %s: %w", p.Program, err)
		}
		add := func(to map[string][]string, needed []string) {
			for _, other := range needed {
				from, other := p.Program, other
				if reverse {
					from, other = other, from
				}
				to[from] = append(to[from], other)
				required[other] = true
			}
		}
		add(g.requires, file.Program[p.Program].Requires)
		if after {
			add(g.after, file.Program[p.Program].After)
		}
	}
	trees := []node{}
	for _, p := range named {
		if len(names) == 0 && required[p.Program] {
			continue
		}
		trees = append(trees, g.tree(p.Program, map[string]bool{}))
	}
	return trees, nil
}

// tree returns a program with what is below it. seen has the programs of the tree so far: each is
// expanded once, so that diamonds do not multiply, and a cycle, which is a mistake, ends.
func (g *graph) tree(program string, seen map[string]bool) node {
	n := node{Name: program, Below: []node{}}
	worst := joined(g.states[program])
	for i := range g.states[program] {
		if s := &g.states[program][i]; n.State == "" || stateOf(s) == worst {
			n.State = s.State
		}
	}
	required, after := g.requires[program], g.after[program]
	if seen[program] {
		n.Repeated = len(required)+len(after) > 0
		return n
	}
	seen[program] = true
	for _, other := range slices.Sorted(slices.Values(required)) {
		n.Below = append(n.Below, g.tree(other, seen))
	}
	for _, other := range slices.Sorted(slices.Values(after)) {
		if !slices.Contains(required, other) {
			below := g.tree(other, seen)
			below.After = true
			n.Below = append(n.Below, below)
		}
	}
	return n
}

func printTrees(w io.Writer, trees []node) error {
	var out bytes.Buffer
	colours := terminal.Detect(w, os.Getenv).Colour
	for _, t := range trees {
		printNode(&out, t, "", "", colours)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// printNode prints a program behind first, and what is below it behind rest.
func printNode(out *bytes.Buffer, n node, first, rest string, colours bool) {
	state := n.State
	if state == "" {
		state = "no instances"
	}
	if colours {
		state = report.StateColour(n.State).Paint(state)
	}
	notes := ""
	if n.After {
		notes = " (after)"
	}
	if n.Repeated {
		state += ", see above"
	}
	fmt.Fprintf(out, "%s%s%s: %s\n", first, terminal.Sanitize(n.Name), notes, state)
	for i, below := range n.Below {
		if i == len(n.Below)-1 {
			printNode(out, below, rest+"└─", rest+"  ", colours)
		} else {
			printNode(out, below, rest+"├─", rest+"│ ", colours)
		}
	}
}
