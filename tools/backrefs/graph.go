package main

import (
	"fmt"
	"go/token"
	"io"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/packages"
)

// A graph has the files of a package as its nodes. An order of them is a permutation of their
// indices.
type graph struct {
	files   []string   // sorted
	objects [][]string // objects[a][b] is a name that file a uses and file b declares; "": none
}

// newGraph returns the uses between the files of p.
func newGraph(p *packages.Package) *graph {
	fileOf := func(pos token.Pos) string { return filepath.Base(p.Fset.Position(pos).Filename) }
	g := &graph{}
	for _, f := range p.Syntax {
		g.files = append(g.files, fileOf(f.Pos()))
	}
	slices.Sort(g.files)
	for range g.files {
		g.objects = append(g.objects, make([]string, len(g.files)))
	}
	for id, object := range p.TypesInfo.Uses {
		if object.Pkg() != p.Types {
			continue
		}
		from, isFile := slices.BinarySearch(g.files, fileOf(id.Pos()))
		to, declared := slices.BinarySearch(g.files, fileOf(object.Pos()))
		if !isFile || !declared || from == to {
			continue
		}
		// The map's order is random: of all names, the first of the alphabet stays.
		if name := &g.objects[from][to]; *name == "" || object.Name() < *name {
			*name = object.Name()
		}
	}
	return g
}

// use is 1 if file a uses file b, else 0.
func (g *graph) use(a, b int) int {
	if g.objects[a][b] == "" {
		return 0
	}
	return 1
}

func (g *graph) uses() (sum int) {
	for a := range g.files {
		for b := range g.files {
			sum += g.use(a, b)
		}
	}
	return sum
}

// back is how many uses run against the order.
func (g *graph) back(order []int) (sum int) {
	for i, a := range order {
		for _, b := range order[:i] {
			sum += g.use(a, b)
		}
	}
	return sum
}

func (g *graph) share(order []int) string {
	back, uses := g.back(order), g.uses()
	return fmt.Sprintf("%d = %.0f %%", back, 100*float64(back)/float64(max(uses, 1)))
}

func (g *graph) print(w io.Writer, order []int) {
	for i, a := range order {
		fmt.Fprintf(w, "  %s\n", g.files[a])
		for _, b := range order[:i] {
			if name := g.objects[a][b]; name != "" {
				fmt.Fprintf(w, "      uses %s of %s\n", name, g.files[b])
			}
		}
	}
}
