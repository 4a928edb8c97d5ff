package report

import (
	"fmt"
	"io"
	"strings"

	"superd/control"
	"superd/internal/terminal"
)

// Tree prints the processes of programs.
func Tree(w io.Writer, all []control.ProcessTree) error {
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
			indent, star, p.Pid, p.State, Memory(p.RSS), terminal.Sanitize(p.Command))
		if len(p.PerhapsOf) > 0 {
			fmt.Fprintf(b, "  (possibly of %s)", strings.Join(p.PerhapsOf, ", "))
		}
		b.WriteByte('\n')
		printBelow(b, branch, below, p.Pid, indent+"  ")
	}
}
