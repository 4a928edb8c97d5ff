package sandbox

import (
	"cmp"
	"slices"
	"strings"
)

// Arrange returns paths in the order in which they are to be mounted: a directory before what is
// in it. Of entries for the same path it keeps the one that leaves the program least.
func Arrange(paths []Path) []Path {
	paths = slices.Clone(paths)
	slices.SortStableFunc(paths, func(a, b Path) int {
		return cmp.Or(comparePaths(a.Path, b.Path), cmp.Compare(b.View.strictness(), a.View.strictness()))
	})
	return slices.CompactFunc(paths, func(a, b Path) bool { return a.Path == b.Path })
}

// comparePaths sorts paths element by element, so that what is in a directory follows it at once.
func comparePaths(a, b string) int {
	return slices.Compare(elements(a), elements(b))
}

func elements(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// strictness returns how much of a path the view takes from a program.
func (v View) strictness() int {
	return slices.Index([]View{ViewReadWrite, ViewDevices, ViewReadOnly, ViewNothing}, v)
}
