package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A type with more fields or methods than these is several types.
const (
	maxFields  = 20
	maxMethods = 40
)

// small are the packages whose types have to stay below the limits.
var small = []string{"procs", "procs/instance"}

// A size counts the members of a type. Members of embedded fields do not count.
type size struct{ fields, methods int }

func (s size) isSmall() bool { return s.fields <= maxFields && s.methods <= maxMethods }

// large has the types that are above the limits, by package and name. An entry is only ever lowered
// or removed.
var large = map[string]size{}

// sizes returns the sizes of the types of a package, by name, without tests.
func sizes(t *testing.T, dir string) map[string]size {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]size{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv != nil {
					of := receiver(decl.Recv.List[0].Type)
					s := found[of]
					s.methods++
					found[of] = s
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						s := found[spec.Name.Name]
						addMembers(&s, spec.Type)
						found[spec.Name.Name] = s
					}
				}
			}
		}
	}
	return found
}

// addMembers adds the members that the definition of a type has.
func addMembers(s *size, of ast.Expr) {
	if _, ok := of.(*ast.InterfaceType); ok {
		s.methods += len(fieldsOf(of))
		return
	}
	s.fields += len(fieldsOf(of))
}

// TestMembers checks that the types of the packages in small have few members.
func TestMembers(t *testing.T) {
	seen := map[string]bool{}
	for _, dir := range small {
		if _, err := os.Stat(filepath.Join("../..", dir)); os.IsNotExist(err) {
			continue
		}
		for name, is := range sizes(t, dir) {
			name = dir + "." + name
			may, listed := large[name]
			seen[name] = true
			switch {
			case is.isSmall() && listed:
				t.Errorf("%s is within the limits now: remove it from the table", name)
			case is.isSmall():
			case !listed:
				t.Errorf("%s has %d fields and %d methods: at most %d and %d are allowed",
					name, is.fields, is.methods, maxFields, maxMethods)
			case is.fields > may.fields || is.methods > may.methods:
				t.Errorf("%s has grown from %d fields and %d methods to %d and %d",
					name, may.fields, may.methods, is.fields, is.methods)
			case is != may:
				t.Errorf("%s has %d fields and %d methods now: lower it in the table",
					name, is.fields, is.methods)
			}
		}
	}
	for name := range large {
		if !seen[name] {
			t.Errorf("there is no type %s: remove it from the table", name)
		}
	}
}
