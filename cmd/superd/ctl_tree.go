package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
)

func newTreeCommand(flags *ctlFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tree [NAME…]",
		Short: "Show the processes of programs",
		Long: `Tree shows the processes of programs: the main process, marked with *, hooks, and all their
descendants. Processes that cannot be attributed to a program come last.`,
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			all, err := client.Tree(cmd.Context(), args)
			if err != nil {
				return err
			}
			if asJSON {
				return report.JSON(cmd.OutOrStdout(), all)
			}
			return printTree(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func printTree(w io.Writer, all []control.ProcessTree) error {
	var b strings.Builder
	for _, branch := range all {
		if branch.Unattributed {
			b.WriteString("not attributed to a program:\n")
		} else {
			fmt.Fprintf(&b, "%s: %s\n", branch.Name, branch.State)
		}
		below := map[int][]control.Process{}
		known := map[int]bool{}
		for _, p := range branch.Processes {
			known[p.Pid] = true
		}
		for _, p := range branch.Processes {
			parent := p.Parent
			if !known[parent] {
				parent = 0 // the main process, or an orphan
			}
			below[parent] = append(below[parent], p)
		}
		printBelow(&b, branch, below, 0, "  ")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printBelow(b *strings.Builder, branch control.ProcessTree, below map[int][]control.Process, parent int, indent string) {
	for _, p := range below[parent] {
		star := " "
		if branch.Pid != nil && *branch.Pid == p.Pid {
			star = "*"
		}
		fmt.Fprintf(b, "%s%s%d %s %s  %s",
			indent, star, p.Pid, p.State, report.Memory(p.RSS), terminal.Sanitize(p.Command))
		if len(p.PerhapsOf) > 0 {
			fmt.Fprintf(b, "  (possibly of %s)", strings.Join(p.PerhapsOf, ", "))
		}
		b.WriteByte('\n')
		printBelow(b, branch, below, p.Pid, indent+"  ")
	}
}
