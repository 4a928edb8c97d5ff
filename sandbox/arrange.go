package sandbox

import (
	"cmp"
	"slices"
	"strings"
)

// Arrange returns paths in the order in which they are to be mounted: a directory before what is
// in it. Entries for the same path become one that leaves the program what all of them leave: a
// private /tmp or /dev that is to be read-only, too, stays private.
func Arrange(paths []Path) []Path {
	return ArrangeBy(paths, func(p *Path) *Path { return p })
}

// ArrangeBy is [Arrange] for what has a path.
func ArrangeBy[T any](all []T, path func(*T) *Path) (arranged []T) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b T) int {
		p, q := path(&a), path(&b)
		return cmp.Or(comparePaths(p.Path, q.Path), cmp.Compare(q.rank(), p.rank()))
	})
	for i := range all {
		if last := len(arranged) - 1; last >= 0 && path(&arranged[last]).Path == path(&all[i]).Path {
			path(&arranged[last]).restrict(path(&all[i]))
		} else {
			arranged = append(arranged, all[i])
		}
	}
	return arranged
}

// rank orders entries for the same path: the first one says what is there.
func (p *Path) rank() int {
	switch {
	case p.View == ViewNothing:
		return 5
	case p.View == ViewDevices || p.View == ViewReadOnlyDevices:
		return 4
	case p.Source != "" && p.Source != p.Path:
		return 3
	case p.Source != "":
		return 2
	case p.View == ViewReadOnly:
		return 1
	}
	return 0
}

// restrict applies to p what another entry for its path demands.
func (p *Path) restrict(other *Path) {
	p.Optional = p.Optional && other.Optional
	if other.View != ViewReadOnly && other.View != ViewReadOnlyDevices {
		return
	}
	switch p.View {
	case ViewReadWrite:
		p.View = ViewReadOnly
	case ViewDevices:
		p.View = ViewReadOnlyDevices
	case ViewReadOnly, ViewReadOnlyDevices, ViewNothing:
		// it leaves no more
	}
}

// comparePaths sorts paths element by element, so that what is in a directory follows it at once.
func comparePaths(a, b string) int {
	return slices.Compare(elements(a), elements(b))
}

func elements(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
