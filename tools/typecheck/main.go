// Command typecheck checks the types of all packages and tests for platforms that are not this one.
//
// It reads everything from source, the standard library without the bodies of its functions, and
// compiles nothing: a platform takes seconds, where go vet would first compile all that is imported.
// What it can't find is what needs code: a wrong instruction in assembly, a symbol that is not there.
// For that, make cross builds for some platforms, and make cross-build for all.
//
// Usage, in the folder of this module, with platforms as OS/ARCHITECTURE[,TAG]:
//
//	go run ./typecheck [-dir folder] platform... [-- package...]
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("dir", "..", "`folder` of the module to check")
	flag.Parse()
	platforms, patterns := flag.Args(), []string{"./..."}
	if i := slices.Index(platforms, "--"); i >= 0 {
		platforms, patterns = platforms[:i], platforms[i+1:]
	}
	if err := run(os.Stdout, *dir, platforms, patterns); err != nil {
		fmt.Fprintln(os.Stderr, "typecheck:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, dir string, platforms, patterns []string) error {
	root, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, platform := range platforms {
		fmt.Fprintln(w, "check types:", platform)
		errs = append(errs, check(root, platform, patterns)...)
	}
	return errors.Join(errs...)
}

// check returns the errors in the packages below root that patterns name.
func check(root, platform string, patterns []string) (errs []error) {
	system, tags, _ := strings.Cut(platform, ",")
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return []error{fmt.Errorf("platform %q: want OS/ARCHITECTURE", platform)}
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesSizes,
		Dir:        root,
		Tests:      goos == "linux", // superd itself runs nowhere else
		Env:        append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch),
		BuildFlags: []string{"-tags=" + tags},
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
			if f != nil && !strings.HasPrefix(name, root+string(filepath.Separator)) {
				dropBodies(f)
			}
			return f, err
		},
	}, patterns...)
	if err != nil {
		return []error{fmt.Errorf("load packages for %s: %w", platform, err)}
	}
	for _, p := range pkgs {
		if strings.HasSuffix(p.ID, ".test") {
			continue // the main package that go test generates, outside the module
		}
		for _, e := range p.Errors {
			errs = append(errs, fmt.Errorf("%s: %w", platform, e))
		}
	}
	return errs
}

// dropBodies leaves of each function only what its callers see.
func dropBodies(f *ast.File) {
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			fn.Body = nil
		}
	}
}
