package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A codeIndex has what exists in the tree, tests and examples included.
type codeIndex struct {
	packages map[string]bool // names of packages
	names    map[string]bool // all that is declared: functions, types, constants, fields, methods …
	members  map[string]bool // "pkg.Name" at the top of a package, "Type.Name" of a method or field
	imports  map[string]bool // last elements of imported paths, other than packages of the tree
	files    map[string]bool // files and directories from the root, and files by their name alone
	top      map[string]bool // entries of the root
}

// indexCode returns the index of a tree.
func indexCode(t *testing.T, tree fs.FS) codeIndex {
	t.Helper()
	index := codeIndex{
		packages: map[string]bool{}, names: map[string]bool{}, members: map[string]bool{},
		imports: map[string]bool{}, files: map[string]bool{}, top: map[string]bool{},
	}
	var sources []string
	eachFile(t, tree, func(path string, entry fs.DirEntry) {
		index.files[path] = true
		if !strings.Contains(path, "/") {
			index.top[path] = true
		}
		if !entry.IsDir() {
			index.files[entry.Name()] = true
		}
		if strings.HasSuffix(path, ".go") && !strings.Contains(path, "testdata/") {
			sources = append(sources, path)
		}
	})
	parsed := make([]*ast.File, len(sources))
	var group sync.WaitGroup
	for part := range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := part; i < len(sources); i += runtime.GOMAXPROCS(0) {
				text, err := fs.ReadFile(tree, sources[i])
				if err != nil {
					continue // a test has removed it
				}
				parsed[i], err = parser.ParseFile(token.NewFileSet(), sources[i], text, parser.SkipObjectResolution)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for _, file := range parsed {
		if file != nil {
			index.add(file)
		}
	}
	return index
}

// add adds what a file declares and imports.
func (x codeIndex) add(file *ast.File) {
	pkg := strings.TrimSuffix(file.Name.Name, "_test")
	x.packages[pkg] = true
	for _, spec := range file.Imports {
		x.imports[path.Base(strings.Trim(spec.Path.Value, `"`))] = true
	}
	member := func(of, name string) { x.names[name], x.members[of+"."+name] = true, true }
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				member(pkg, decl.Name.Name)
			} else {
				member(receiver(decl.Recv.List[0].Type), decl.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						member(pkg, name.Name)
					}
				case *ast.TypeSpec:
					member(pkg, spec.Name.Name)
				}
			}
		}
	}
	// Fields, methods of interfaces and local variables count by their names alone, fields also by
	// their type.
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			for _, field := range fieldsOf(n.Type) {
				member(n.Name.Name, field)
			}
		case *ast.Field:
			for _, name := range n.Names {
				x.names[name.Name] = true
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if name, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					x.names[name.Name] = true
				}
			}
		}
		return true
	})
}

// receiver returns the name of the type of a receiver.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}

// fieldsOf returns the fields of a struct, or the methods of an interface.
func fieldsOf(of ast.Expr) (names []string) {
	var list *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		list = of.Fields
	case *ast.InterfaceType:
		list = of.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
		if len(field.Names) == 0 {
			names = append(names, receiver(field.Type)) // embedded
		}
	}
	return names
}

var (
	qualified = regexp.MustCompile(
		`^\*?([\w/]+/)?([A-Za-z_]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?(?:\(.*\))?$`)
	camelCase = regexp.MustCompile(`^(?:[A-Z][a-z0-9]+|[a-z][a-z0-9]*)(?:[A-Z][A-Za-z0-9]*)(?:\(.*\))?$`)
	filePath  = regexp.MustCompile(`^[\w.*-]+(?:/[\w.*-]+)*/?$`)
	stands    = regexp.MustCompile(`[/_][A-Z]+(?:[/.]|$)`) // a placeholder: config/N
)

// check returns why a code span is wrong; "" if it is right, or is neither a file nor an
// identifier.
func (x codeIndex) check(span string) string {
	if m := qualified.FindStringSubmatch(span); m != nil {
		if m[1] != "" && !x.files[m[1]+m[2]] {
			return fmt.Sprintf("there is no package %s", m[1]+m[2])
		}
		return x.checkQualified(m[2], m[3], m[4])
	}
	if camelCase.MatchString(span) {
		if name, _, _ := strings.Cut(span, "("); !x.names[name] && !notGo[name] {
			return fmt.Sprintf("nothing is called %s", name)
		}
		return ""
	}
	first, _, nested := strings.Cut(strings.TrimPrefix(span, "./"), "/")
	source := strings.HasSuffix(span, ".go") || strings.HasSuffix(span, ".md")
	if filePath.MatchString(span) && !stands.MatchString(span) && (nested && x.top[first] || source) &&
		!x.exists(span) {
		return "there is no such file"
	}
	return ""
}

// checkQualified checks first.second or first.second.third.
func (x codeIndex) checkQualified(first, second, third string) string {
	switch {
	case x.packages[first] && !x.members[first+"."+second]:
		if !x.imports[first] || x.names[second] {
			return fmt.Sprintf("package %s has no %s", first, second)
		}
	case !x.packages[first] && !x.imports[first] && x.names[first] && !x.members[first+"."+second]:
		return fmt.Sprintf("%s has no %s", first, second)
	case !x.packages[first] && !x.imports[first] && !x.names[first]:
		return fmt.Sprintf("nothing is called %s", first)
	case third != "" && x.packages[first] && !x.members[second+"."+third]:
		return fmt.Sprintf("%s has no %s", second, third)
	}
	return ""
}

// exists reports whether there is a file of that path or name, or one that fits the pattern.
func (x codeIndex) exists(name string) bool {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	if !strings.Contains(name, "*") {
		return x.files[name]
	}
	for file := range x.files {
		if ok, err := path.Match(name, file); ok && err == nil {
			return true
		}
	}
	return false
}

// notGo has words in code spans that look like Go identifiers and are something else.
var notGo = map[string]bool{}
