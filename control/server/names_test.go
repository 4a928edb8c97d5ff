package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestKindsOfEvents: control names each kind of event that the event log has.
func TestKindsOfEvents(t *testing.T) {
	ofLog := constants(t, "../../procs/eventlog/event.go", func(name string, of ast.Expr) bool {
		kind, ok := of.(*ast.Ident)
		return ok && kind.Name == "Kind"
	})
	named := constants(t, "../names.go", func(name string, _ ast.Expr) bool {
		return strings.HasPrefix(name, "Kind")
	})
	if len(ofLog) < 10 || !slices.Equal(ofLog, named) {
		t.Errorf("kinds of control %q, of the event log %q", named, ofLog)
	}
}

// constants returns the values of the constants of a file that are selected, sorted.
func constants(t *testing.T, path string, selects func(name string, of ast.Expr) bool) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]bool{}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			c := spec.(*ast.ValueSpec)
			if len(c.Values) == 1 && selects(c.Names[0].Name, c.Type) {
				values[c.Values[0].(*ast.BasicLit).Value] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(values))
}
