// Command backrefs measures how far the files of a package form layers.
//
// It type-checks each package and takes every pair of files of which one uses something that the
// other declares: a function, a method, a field, a type, a constant or a variable. Tests do not
// count. It puts the files in an order, users first, and prints how many pairs run back against it.
// If none does, each file of the package uses only files after it.
//
// A second table has the types with many fields or methods.
//
// Usage, in the folder of this module:
//
//	go run ./backrefs [-v] [-dir folder] package...
//
// The table has two shares. "fewest" is that of the order with the fewest pairs that run back, as
// far as the heuristic finds it (see fewestBack). "depth first" is that of a plain topological sort,
// which does not try to avoid such pairs where files use each other in a circle.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"
)

func main() {
	verbose := flag.Bool("v", false, "print the order of the files and the uses that run back")
	dir := flag.String("dir", "..", "`folder` of the module to which the packages belong")
	flag.Parse()
	if err := run(os.Stdout, *dir, *verbose, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "backrefs:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, dir string, verbose bool, patterns []string) error {
	config := &packages.Config{Mode: packages.LoadSyntax, Dir: dir}
	pkgs, err := packages.Load(config, patterns...)
	if err != nil {
		return fmt.Errorf("load packages: %w", err)
	}
	slices.SortFunc(pkgs, func(a, b *packages.Package) int {
		return cmp.Compare(a.PkgPath, b.PkgPath)
	})
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "package\tfiles\tuses between files\tback, fewest\tback, depth first\t")
	graphs := make([]*graph, len(pkgs))
	for i, p := range pkgs {
		if len(p.Errors) > 0 {
			return fmt.Errorf("load %s: %w", p.PkgPath, p.Errors[0])
		}
		g := newGraph(p)
		graphs[i] = g
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\t\n", p.PkgPath, len(g.files), g.uses(),
			g.share(g.fewestBack()), g.share(g.depthFirst()))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if err := printMembers(w, pkgs); err != nil {
		return err
	}
	if verbose {
		for i, p := range pkgs {
			fmt.Fprintf(w, "\n%s, users first:\n", p.PkgPath)
			graphs[i].print(w, graphs[i].fewestBack())
		}
	}
	return nil
}
