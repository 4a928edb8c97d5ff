package main

import (
	"fmt"
	"go/types"
	"io"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"
)

// A type with more fields or methods than these is in the table of large types.
const (
	maxFields  = 20
	maxMethods = 40
)

// printMembers prints the types of the packages that have too many fields or methods. Members of
// embedded fields do not count, and neither do tests.
func printMembers(w io.Writer, pkgs []*packages.Package) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	large := false
	for _, p := range pkgs {
		for _, name := range p.Types.Scope().Names() {
			object, ok := p.Types.Scope().Lookup(name).(*types.TypeName)
			if !ok || object.IsAlias() {
				continue
			}
			named, ok := object.Type().(*types.Named)
			if !ok {
				continue
			}
			fields := 0
			if s, ok := named.Underlying().(*types.Struct); ok {
				fields = s.NumFields()
			}
			if fields <= maxFields && named.NumMethods() <= maxMethods {
				continue
			}
			if !large {
				large = true
				fmt.Fprintf(table, "\ntype with more than %d fields or %d methods\tfields\tmethods\t\n",
					maxFields, maxMethods)
			}
			fmt.Fprintf(table, "%s.%s\t%d\t%d\t\n", p.PkgPath, name, fields, named.NumMethods())
		}
	}
	return table.Flush()
}
